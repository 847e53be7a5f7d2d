// Package fidelity compares the engine with the reference implementations: what transformers, PEFT, PyTorch and TRL
// compute with tiny random checkpoints of both architectures. testdata/make.py makes the checkpoints and the expected
// values; docs/fidelity.md lists what is compared and how near it comes.
package fidelity

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/safetensors"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// families are the folders of testdata, one a model_type.
var families = []string{"qwen3_vl", "qwen2_5_vl"}

// quantity is something compared, with the largest difference allowed.
type quantity struct {
	name      string
	tolerance float64
	relative  bool // norm of the difference over the norm of the expected tensor; otherwise the largest absolute difference
}

// Token ids, positions and grids must be equal and have no tolerance.
var (
	pixels       = quantity{"pixel patches", 2e-7, false}
	features     = quantity{"vision features", 1e-5, false}
	deepstack    = quantity{"deepstack features", 1e-5, false}
	hidden       = quantity{"hidden states, every layer", 2e-5, false}
	logits       = quantity{"logits", 2e-5, false}
	logProbs     = quantity{"token log-probs", 2e-5, false}
	losses       = quantity{"loss", 2e-6, false}
	gradients    = quantity{"gradient, each tensor", 1e-4, true}
	gradNorm     = quantity{"gradient norm, three AdamW steps", 2e-5, true}
	steppedLoss  = quantity{"loss, three AdamW steps", 2e-5, false}
	weightChange = quantity{"weights after three AdamW steps, change of each tensor", 1e-3, true}
	// A number added to all scores leaves attention as it is, so the bias of the keys counts only where positions turn it. Where
	// frequencies are low its gradient is rounding error, 1e-7 of the rest, which Adam enlarges to a whole step.
	keyBiasChange = quantity{"the same, biases of the keys", 2e-2, true}
)

// golden is golden.json; golden.safetensors holds the tensors.
type golden struct {
	family    string
	dir       string
	tensors   *safetensors.File
	Images    map[string]struct{ Grid [3]int }
	Prompts   []goldenPrompt
	Sequences []struct {
		Prompt    int
		Text      string
		Tokens    []int32
		Positions [][3]int32
		Advantage float64
	}
	Greedy    [][]int32
	LoRA      spec.LoRAConfig
	GSPO      spec.GSPOConfig
	Optimizer spec.OptimizerConfig
	Steps     int
	Schedule  int
	Losses    map[string]struct {
		Total, Policy, Regulariser float64
		Ratios                     []float64
		Clipped                    []bool
		Losses, Norms              []float64
	}
}

type goldenPrompt struct {
	System, Image, User string
	IDs                 []int32
}

func (p goldenPrompt) prompt() engine.Prompt {
	return engine.Prompt{System: p.System, Image: p.Image, User: p.User}
}

func load(t *testing.T, family string) *golden {
	t.Helper()
	g := &golden{family: family, dir: filepath.Join("testdata", family)}
	b, err := os.ReadFile(filepath.Join(g.dir, "golden.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, g))
	g.tensors, err = safetensors.Open(filepath.Join(g.dir, "golden.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.tensors.Close()) })
	return g
}

func (g *golden) tensor(t *testing.T, name string) []float32 {
	t.Helper()
	x, err := g.tensors.Float32(name)
	require.NoError(t, err)
	return x
}

// open opens the family's checkpoint with the golden images loaded.
func (g *golden) open(t *testing.T, opts local.Options) *local.Engine {
	t.Helper()
	opts.Threads = 2
	e, err := local.Open(g.dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for name := range g.Images {
		b, err := os.ReadFile(filepath.Join("testdata", "images", name+".png"))
		require.NoError(t, err)
		require.NoError(t, e.LoadImage(context.Background(), name, b))
	}
	return e
}

// sequences are the batch that everything is computed on.
func (g *golden) sequences() []engine.Sequence {
	var out []engine.Sequence
	for _, s := range g.Sequences {
		out = append(out, engine.Sequence{Prompt: g.Prompts[s.Prompt].prompt(), Tokens: s.Tokens})
	}
	return out
}

// samples are the sequences with their advantages and the rollout policy's log-probs for a mode of training.
func (g *golden) samples(t *testing.T, mode string) []engine.Sample {
	old := g.tensor(t, mode+".old_log_probs")
	var out []engine.Sample
	for i, s := range g.sequences() {
		n := len(s.Tokens)
		out = append(out, engine.Sample{Sequence: s, Advantage: g.Sequences[i].Advantage, OldLogProbs: old[:n]})
		old = old[n:]
	}
	return out
}

// exported reads the engine's merged weights, by their name in transformers.
func exported(t *testing.T, e *local.Engine) (qwenvl.Config, *qwenvl.Weights) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, e.Export(context.Background(), engine.Policy, engine.CheckpointF32, dir))
	return readWeights(t, dir)
}

func readWeights(t *testing.T, dir string) (qwenvl.Config, *qwenvl.Weights) {
	t.Helper()
	c, err := qwenvl.LoadConfig(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	set, err := safetensors.OpenDir(dir)
	require.NoError(t, err)
	defer set.Close()
	w := qwenvl.NewWeights(c, nil)
	for _, x := range w.Tensors {
		require.NoError(t, set.ReadInto(x.Name, x.Data))
	}
	return c, w
}

// compare requires got to be as near to want as the quantity asks, and keeps the distance for the report.
func (g *golden) compare(t *testing.T, q quantity, what string, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want), "%s of %s", q.name, what)
	var largest, square, norm float64
	for i, w := range want {
		d := math.Abs(float64(got[i]) - float64(w))
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		largest = max(largest, d)
		square += d * d
		norm += float64(w) * float64(w)
	}
	d := largest
	if q.relative && square > 0 {
		d = math.Sqrt(square / norm)
	}
	g.within(t, q, what, d)
}

func (g *golden) compareNumber(t *testing.T, q quantity, what string, want, got float64) {
	t.Helper()
	d := math.Abs(got - want)
	if q.relative {
		d /= math.Abs(want)
	}
	g.within(t, q, what, d)
}

func (g *golden) within(t *testing.T, q quantity, what string, d float64) {
	t.Helper()
	measured.add(g.family, q, d)
	if !(d <= q.tolerance) {
		t.Errorf("%s: %s of %s differ by %.3g; allowed is %.3g", g.family, q.name, what, d, q.tolerance)
	}
}

// differences are the largest seen, for the report that -v prints.
type differences struct {
	order   []quantity
	largest map[string]float64 // by family and quantity
}

var measured = differences{largest: map[string]float64{}}

func (r *differences) add(family string, q quantity, d float64) {
	known := false
	for _, o := range r.order {
		known = known || o == q
	}
	if !known {
		r.order = append(r.order, q)
	}
	key := family + "/" + q.name
	r.largest[key] = max(r.largest[key], d)
}

// table is the report in Markdown, as docs/fidelity.md has it.
func (r *differences) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| quantity | measure | allowed | %s |\n|---|---|---|%s\n", strings.Join(families, " | "), strings.Repeat("---|", len(families)))
	for _, q := range r.order {
		measure := "absolute"
		if q.relative {
			measure = "relative"
		}
		fmt.Fprintf(&b, "| %s | %s | %.0e |", q.name, measure, q.tolerance)
		for _, f := range families {
			if d, ok := r.largest[f+"/"+q.name]; ok {
				fmt.Fprintf(&b, " %.1e |", d)
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if testing.Verbose() {
		fmt.Print("\nLargest differences:\n\n", measured.table())
	}
	os.Exit(code)
}

// forEachFamily runs a test on both architectures.
func forEachFamily(t *testing.T, f func(t *testing.T, g *golden)) {
	for _, name := range families {
		t.Run(name, func(t *testing.T) { f(t, load(t, name)) })
	}
}
