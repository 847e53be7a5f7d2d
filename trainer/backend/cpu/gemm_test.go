package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sentinel fills the gaps between rows, to show that nothing outside the matrix is read into the result or written.
var sentinel = float32(math.NaN())

// matrix is a random [rows, cols] with stride ld; the gaps hold sentinel.
func matrix(rng *rand.Rand, rows, cols, ld int) []float32 {
	x := make([]float32, (rows-1)*ld+cols)
	for i := range x {
		x[i] = sentinel
		if i%ld < cols {
			x[i] = rng.Float32()*2 - 1
		}
	}
	return x
}

type product struct {
	transA, transB, accumulate bool
	m, n, k                    int
	padA, padB, padC           int
}

func (p product) operands(rng *rand.Rand) (a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	ar, ac, br, bc := p.m, p.k, p.k, p.n
	if p.transA {
		ar, ac = ac, ar
	}
	if p.transB {
		br, bc = bc, br
	}
	lda, ldb, ldc = ac+p.padA, bc+p.padB, p.n+p.padC
	return matrix(rng, ar, ac, lda), lda, matrix(rng, br, bc, ldb), ldb, matrix(rng, p.m, p.n, ldc), ldc
}

func (p product) check(t require.TestingT, g *Gemm, mul func(c []float32, ldc int, a []float32, lda int, b []float32, ldb int)) {
	rng := rand.New(rand.NewPCG(uint64(p.m*1000+p.n), uint64(p.k)))
	a, lda, b, ldb, c, ldc := p.operands(rng)
	before := append([]float32(nil), c...)
	mul(c, ldc, a, lda, b, ldb)
	for i := range c {
		row, col := i/ldc, i%ldc
		if col >= p.n {
			require.Equal(t, math.Float32bits(sentinel), math.Float32bits(c[i]), "%+v: gap at row %d, column %d was written", p, row, col)
			continue
		}
		var want, mass float64
		if p.accumulate {
			want = float64(before[i])
			mass = math.Abs(want)
		}
		for q := range p.k {
			x, y := at(a, lda, row, q, p.transA), at(b, ldb, q, col, p.transB)
			want += float64(x) * float64(y)
			mass += math.Abs(float64(x) * float64(y))
		}
		if d := math.Abs(float64(c[i]) - want); !(d <= 1e-7*mass*math.Sqrt(float64(p.k+4))) {
			require.Failf(t, "wrong element", "%+v: C[%d,%d] = %v, want %v", p, row, col, c[i], want)
		}
	}
}

// at is element i, j of op(x).
func at(x []float32, ld, i, j int, trans bool) float32 {
	if trans {
		i, j = j, i
	}
	return x[i*ld+j]
}

func paths() map[string]path {
	all := map[string]path{"portable": pathPortable}
	if hasAVX2 {
		all["avx2"] = pathAVX2
	}
	if hasAVX512 {
		all["avx512"] = pathAVX512
	}
	return all
}

func TestMulAgainstFloat64(t *testing.T) {
	for name, path := range paths() {
		t.Run(name, func(t *testing.T) {
			g := &Gemm{path: path}
			rapid.Check(t, func(t *rapid.T) {
				size := rapid.OneOf(rapid.IntRange(1, 20), rapid.SampledFrom([]int{24, 31, 32, 33, 40, 63, 64, 65, 97, 130}))
				depth := rapid.OneOf(rapid.IntRange(1, 20), rapid.SampledFrom([]int{31, 32, 64, 96, 127, 383, 384, 385, 800}))
				pad := rapid.IntRange(0, 3)
				p := product{
					rapid.Bool().Draw(t, "transA"), rapid.Bool().Draw(t, "transB"), rapid.Bool().Draw(t, "accumulate"),
					size.Draw(t, "m"), size.Draw(t, "n"), depth.Draw(t, "k"),
					pad.Draw(t, "padA"), pad.Draw(t, "padB"), pad.Draw(t, "padC"),
				}
				p.check(t, g, func(c []float32, ldc int, a []float32, lda int, b []float32, ldb int) {
					g.Mul(p.transA, p.transB, p.m, p.n, p.k, a, lda, b, ldb, c, ldc, p.accumulate)
				})
			})
		})
	}
}

// Blocks of A are cut by rows once m*k passes blockA; random sizes seldom get there.
func TestMulManyBlocks(t *testing.T) {
	for _, form := range []string{"NN", "NT", "TN", "TT"} {
		t.Run(form, func(t *testing.T) {
			p := product{transA: form[0] == 'T', transB: form[1] == 'T', accumulate: true, m: 1001, n: 20, k: 770, padA: 1, padC: 2}
			var g Gemm
			p.check(t, &g, func(c []float32, ldc int, a []float32, lda int, b []float32, ldb int) {
				g.Mul(p.transA, p.transB, p.m, p.n, p.k, a, lda, b, ldb, c, ldc, p.accumulate)
			})
		})
	}
}

func TestMulZeroDepth(t *testing.T) {
	var g Gemm
	c := []float32{1, 2, 3, 4, 5, 6}
	g.Mul(false, false, 2, 2, 0, nil, 0, nil, 2, c, 3, true)
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, c)
	g.Mul(false, false, 2, 2, 0, nil, 0, nil, 2, c, 3, false)
	require.Equal(t, []float32{0, 0, 3, 0, 0, 6}, c)
	g.Mul(false, false, 0, 2, 1, nil, 1, nil, 2, nil, 2, false)
}

func TestMulRefusesShortSlices(t *testing.T) {
	var g Gemm
	require.PanicsWithValue(t, "cpu: A is [2,3] with stride 3 and needs 6 floats, has 5", func() {
		g.Mul(false, false, 2, 2, 3, make([]float32, 5), 3, make([]float32, 6), 2, make([]float32, 4), 2, false)
	})
}

// A row of C must not depend on how many rows, or columns, were asked for, nor on where it lies.
func TestMulRowsKeepTheirBits(t *testing.T) {
	for name, path := range paths() {
		for _, form := range []string{"NN", "NT", "TN", "TT"} {
			t.Run(name+"/"+form, func(t *testing.T) {
				g := &Gemm{path: path}
				transA, transB := form[0] == 'T', form[1] == 'T'
				rng := rand.New(rand.NewPCG(1, 2))
				const m, n, k = 61, 75, 801
				p := product{transA: transA, transB: transB, m: m, n: n, k: k}
				a, lda, b, ldb, whole, _ := p.operands(rng)
				seed := append([]float32(nil), whole...)
				for _, accumulate := range []bool{false, true} {
					copy(whole, seed)
					g.Mul(transA, transB, m, n, k, a, lda, b, ldb, whole, n, accumulate)
					for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 25, 40} {
						for _, cols := range []int{1, 15, 16, 40, n} {
							first := rng.IntN(m - rows + 1)
							firstCol := rng.IntN(n - cols + 1)
							pa, pb := a[first*lda:], b[firstCol:]
							if transA {
								pa = a[first:]
							}
							if transB {
								pb = b[firstCol*ldb:]
							}
							part := append([]float32(nil), seed[first*n+firstCol:]...)
							g.Mul(transA, transB, rows, cols, k, pa, lda, pb, ldb, part, n, accumulate)
							for r := range rows {
								want := whole[(first+r)*n+firstCol:][:cols]
								require.True(t, sameBits(want, part[r*n:r*n+cols]), "rows %d from %d, row %d, columns %d from %d", rows, first, r, cols, firstCol)
							}
						}
					}
				}
			})
		}
	}
}

func sameBits(x, y []float32) bool {
	for i := range x {
		if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
			return false
		}
	}
	return len(x) == len(y)
}

// What AVX-512 computes twice as wide has the bits of AVX2, so that a run does not depend on which of them a machine has.
func TestMulSameBitsInAVX2AndAVX512(t *testing.T) {
	if !hasAVX512 {
		t.Skip("this machine has no AVX-512")
	}
	narrow, wide := &Gemm{path: pathAVX2}, &Gemm{path: pathAVX512}
	rapid.Check(t, func(t *rapid.T) {
		size, depth := rapid.IntRange(1, 150), rapid.IntRange(1, 800)
		p := product{
			transA: rapid.Bool().Draw(t, "transA"), transB: rapid.Bool().Draw(t, "transB"), accumulate: rapid.Bool().Draw(t, "accumulate"),
			m: size.Draw(t, "m"), n: size.Draw(t, "n"), k: depth.Draw(t, "k"),
		}
		a, lda, b, ldb, c, ldc := p.operands(rand.New(rand.NewPCG(uint64(p.m), uint64(p.n))))
		other := append([]float32(nil), c...)
		narrow.Mul(p.transA, p.transB, p.m, p.n, p.k, a, lda, b, ldb, c, ldc, p.accumulate)
		wide.Mul(p.transA, p.transB, p.m, p.n, p.k, a, lda, b, ldb, other, ldc, p.accumulate)
		require.True(t, sameBits(c, other), "%+v", p)
	})
}

func TestThreadsChangeNoBits(t *testing.T) {
	for _, s := range [][3]int{{1, 1, 5}, {5, 300, 64}, {300, 20, 64}, {100, 100, 33}, {2000, 40, 64}, {150, 700, 128}, {401, 402, 403}} {
		for _, form := range []string{"NN", "NT", "TN", "TT"} {
			t.Run(fmt.Sprint(s, form), func(t *testing.T) {
				p := product{transA: form[0] == 'T', transB: form[1] == 'T', m: s[0], n: s[1], k: s[2], padC: 1}
				a, lda, b, ldb, c, ldc := p.operands(rand.New(rand.NewPCG(3, 4)))
				want := append([]float32(nil), c...)
				var g Gemm
				g.Mul(p.transA, p.transB, p.m, p.n, p.k, a, lda, b, ldb, want, ldc, false)
				for threads := 1; threads <= 5; threads++ {
					g.Threads = threads
					g.Mul(p.transA, p.transB, p.m, p.n, p.k, a, lda, b, ldb, c, ldc, false)
					require.True(t, sameBits(want, c))
				}
			})
		}
	}
}

func TestEachRunsEveryPartOnce(t *testing.T) {
	for threads := range 5 {
		g := Gemm{Threads: threads}
		for _, n := range []int{0, 1, 2, 3, 100} {
			counts := make([]int, n) // each element is one part's own: the race detector would tell
			g.Each(n, func(h *Gemm, i int) {
				buffer := h.Buffer(8)
				buffer[0] = float32(i)
				counts[i] += 1 + int(buffer[0]) - i
			})
			for i, c := range counts {
				require.Equal(t, 1, c, "part %d of %d on %d threads", i, n, threads)
			}
		}
	}
}

func TestMulAllocatesNothingWhenWarm(t *testing.T) {
	var g Gemm
	p := product{transA: true, transB: true, m: 50, n: 50, k: 50}
	a, lda, b, ldb, c, ldc := p.operands(rand.New(rand.NewPCG(5, 6)))
	g.Mul(true, true, 50, 50, 50, a, lda, b, ldb, c, ldc, false)
	require.Zero(t, testing.AllocsPerRun(20, func() { g.Mul(true, true, 50, 50, 50, a, lda, b, ldb, c, ldc, false) }))
}

func BenchmarkMul(b *testing.B) {
	shapes := [][3]int{
		{512, 512, 512}, {24, 128, 128}, {40, 384, 128}, {128, 128, 384}, {150, 700, 128}, {384, 384, 128}, {6, 128, 128}, {1, 256, 128},
		{1000, 64, 64}, {1000, 32, 32}, {2000, 768, 192}, {128, 384, 2000},
	}
	for _, s := range shapes {
		for _, form := range []string{"NN", "NT", "TN"} {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", s[0], s[1], s[2], form), func(b *testing.B) {
				p := product{transA: form[0] == 'T', transB: form[1] == 'T', m: s[0], n: s[1], k: s[2]}
				x, lda, y, ldb, c, ldc := p.operands(rand.New(rand.NewPCG(7, 8)))
				var g Gemm
				for b.Loop() {
					g.Mul(p.transA, p.transB, p.m, p.n, p.k, x, lda, y, ldb, c, ldc, false)
				}
				b.ReportMetric(2*float64(s[0])*float64(s[1])*float64(s[2])*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
