package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
)

type benchEngineCmd struct {
	Rounds  int           `default:"5" help:"Times each product is measured on either side, in turns; the best counts."`
	Span    time.Duration `default:"20ms" help:"Length of one measurement; the best of its four parts counts."`
	Threads []int         `default:"1,2" help:"Thread counts to compare."`
	Quick   bool          `help:"Only 512x512x512."`
	Python  string        `default:"python3" env:"TRINITY_PYTHON" help:"Interpreter that calls OpenBLAS."`
}

// product is one matrix product: C [M,N] = op(A) [M,K] · op(B) [K,N]; the letters of Form say which operand is stored
// transposed (NN, NT, TN).
type product struct {
	M    int    `json:"m"`
	N    int    `json:"n"`
	K    int    `json:"k"`
	Form string `json:"form"`
}

func (p product) transA() bool { return p.Form[0] == 'T' }
func (p product) transB() bool { return p.Form[1] == 'T' }

// gflops is the rate in 10^9 operations a second, a multiplication and an addition counted as two.
func (p product) gflops(seconds float64) float64 {
	return 2 * float64(p.M) * float64(p.N) * float64(p.K) / seconds / 1e9
}

// engineRow is the best of the rounds; the reference's figures are 0 where it is absent.
type engineRow struct {
	product
	Threads  int     `json:"threads"`
	Ours     float64 `json:"gflops"`
	OpenBLAS float64 `json:"openblas_gflops,omitzero"`
	Ratio    float64 `json:"ratio,omitzero"`
}

type engineReport struct {
	Kernels  string      `json:"kernels"`            // avx2 or portable
	OpenBLAS string      `json:"openblas,omitempty"` // its version and build
	Note     string      `json:"note,omitempty"`     // why there is no reference
	Rows     []engineRow `json:"rows"`
	Summary  []engineSum `json:"summary,omitempty"`
}

// engineSum is the geometric mean of the ratios at one thread count.
type engineSum struct {
	Threads int     `json:"threads"`
	Ratio   float64 `json:"ratio"`
	Worst   float64 `json:"worst"`
}

// engineProducts are 512^3 and the three products of linear layers as the wind tunnel has them: tokens x in -> out gives
// NT forward (weights are stored [out, in]), NN for the gradient of the input and TN for that of the weights.
func engineProducts(quick bool) []product {
	products := []product{{512, 512, 512, "NN"}, {512, 512, 512, "NT"}, {512, 512, 512, "TN"}}
	if quick {
		return products
	}
	layers := []struct{ tokens, in, out int }{
		{24, 128, 128}, {40, 128, 384}, {40, 384, 128}, {150, 128, 700}, {300, 64, 192}, {300, 96, 256}, {1000, 32, 64},
		{1000, 128, 512}, {2000, 192, 768}, {2000, 256, 256},
	}
	for _, l := range layers {
		products = append(products,
			product{l.tokens, l.out, l.in, "NT"}, product{l.tokens, l.in, l.out, "NN"}, product{l.out, l.in, l.tokens, "TN"})
	}
	return products
}

// Run measures and prints. It fails only if a measurement does; a missing OpenBLAS is a note.
func (b *benchEngineCmd) Run(c *Context) error {
	if b.Rounds < 1 || b.Span <= 0 {
		return usage(fmt.Errorf("bench engine: --rounds is %d and --span %v; both must be positive", b.Rounds, b.Span))
	}
	for _, threads := range b.Threads {
		if threads < 1 || threads > 256 {
			return usage(fmt.Errorf("bench engine: --threads has %d; give counts from 1 to 256", threads))
		}
	}
	report := engineReport{Kernels: cpu.Path(), Rows: []engineRow{}}
	reference, err := startOpenBLAS(c.Ctx, b.Python)
	switch {
	case errors.Is(err, errNoOpenBLAS):
		report.Note = err.Error()
	case err != nil:
		return err
	default:
		defer reference.Close()
		report.OpenBLAS = reference.config
	}
	for _, threads := range b.Threads {
		for _, p := range engineProducts(b.Quick) {
			row, err := b.compare(c, p, threads, reference)
			if err != nil {
				return err
			}
			report.Rows = append(report.Rows, row)
		}
	}
	report.Summary = summarise(report.Rows)
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(report)
	}
	return report.print(c.Stdout)
}

// compare measures one product in turns, so that a busy spell of the machine meets both sides.
func (b *benchEngineCmd) compare(c *Context, p product, threads int, reference *openBLAS) (engineRow, error) {
	ours, theirs := math.Inf(1), math.Inf(1)
	ourTimer := newProductTimer(p, threads)
	for range b.Rounds {
		if err := c.Ctx.Err(); err != nil {
			return engineRow{}, err
		}
		ours = min(ours, ourTimer.time(b.Span))
		if reference != nil {
			seconds, err := reference.time(p, threads, b.Span)
			if err != nil {
				return engineRow{}, err
			}
			theirs = min(theirs, seconds)
		}
	}
	row := engineRow{product: p, Threads: threads, Ours: p.gflops(ours)}
	if reference != nil {
		row.OpenBLAS, row.Ratio = p.gflops(theirs), theirs/ours
	}
	return row, nil
}

// productTimer holds the operands of one product.
type productTimer struct {
	product
	gemm     cpu.Gemm
	a, b, c  []float32
	lda, ldb int
}

func newProductTimer(p product, threads int) *productTimer {
	t := &productTimer{product: p, a: benchMatrix(p.M * p.K), b: benchMatrix(p.K * p.N), c: benchMatrix(p.M * p.N), lda: p.K, ldb: p.N}
	if p.transA() {
		t.lda = p.M
	}
	if p.transB() {
		t.ldb = p.K
	}
	t.gemm.Threads = threads
	return t
}

// benchMatrix has plain values in [-1, 1), the same as the reference's.
func benchMatrix(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32((i*7919)%2048)/1024 - 1
	}
	return x
}

func (t *productTimer) run(repeats int) float64 {
	start := time.Now()
	for range repeats {
		t.gemm.Mul(t.transA(), t.transB(), t.M, t.N, t.K, t.a, t.lda, t.b, t.ldb, t.c, t.N, false)
	}
	return time.Since(start).Seconds() / float64(repeats)
}

// time returns the seconds one product takes, the best of four parts of the time given.
func (t *productTimer) time(about time.Duration) float64 {
	t.run(2)
	repeats := max(1, int(about.Seconds()/4/t.run(3)))
	return min(t.run(repeats), t.run(repeats), t.run(repeats), t.run(repeats))
}

func summarise(rows []engineRow) []engineSum {
	var sums []engineSum
	counts := map[int]int{}
	for _, r := range rows {
		if r.Ratio == 0 {
			continue
		}
		at := -1
		for i := range sums {
			if sums[i].Threads == r.Threads {
				at = i
			}
		}
		if at < 0 {
			at = len(sums)
			sums = append(sums, engineSum{Threads: r.Threads, Worst: math.Inf(1)})
		}
		sums[at].Ratio += math.Log(r.Ratio)
		sums[at].Worst = min(sums[at].Worst, r.Ratio)
		counts[r.Threads]++
	}
	for i := range sums {
		sums[i].Ratio = math.Exp(sums[i].Ratio / float64(counts[sums[i].Threads]))
	}
	return sums
}

func (r engineReport) print(w io.Writer) error {
	if r.OpenBLAS != "" {
		fmt.Fprintf(w, "kernels: %s; reference: %s\n", r.Kernels, r.OpenBLAS)
	} else {
		fmt.Fprintf(w, "kernels: %s\nnote: %s\n", r.Kernels, r.Note)
	}
	fmt.Fprintf(w, "GFLOP/s, best of the rounds; C [m,n] = op(A) [m,k] · op(B) [k,n]\n\n")
	table := markdown{header: []string{"threads", "m", "n", "k", "form", "trinity", "OpenBLAS", "ratio"}}
	for _, row := range r.Rows {
		theirs, ratio := "-", "-"
		if row.Ratio > 0 {
			theirs, ratio = fmt.Sprintf("%.1f", row.OpenBLAS), fmt.Sprintf("%.2f", row.Ratio)
		}
		table.add(fmt.Sprint(row.Threads), fmt.Sprint(row.M), fmt.Sprint(row.N), fmt.Sprint(row.K), row.Form, fmt.Sprintf("%.1f", row.Ours), theirs, ratio)
	}
	if err := table.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, s := range r.Summary {
		fmt.Fprintf(w, "threads %d: geometric mean of the ratios %.2f, worst %.2f\n", s.Threads, s.Ratio, s.Worst)
	}
	return nil
}
