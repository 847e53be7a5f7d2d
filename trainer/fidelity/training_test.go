package fidelity

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/optim"
	"github.com/trinity-lab/trinity/trainer/safetensors"
	"github.com/trinity-lab/trinity/trainer/spec"
)

const (
	full = "full"
	lora = "lora"
)

// openFor opens the checkpoint for training: all weights, or the golden adapter.
func (g *golden) openFor(t *testing.T, mode string, o spec.OptimizerConfig) *local.Engine {
	opts := local.Options{Model: spec.ModelConfig{Train: mode, LoRA: g.LoRA}, Optimizer: o}
	if mode == lora {
		opts.Adapter = filepath.Join(g.dir, "adapter")
	}
	return g.open(t, opts)
}

// objective is a loss of the goldens: cross-entropy, Eq. 3, or what TRL has of it, which is all but the regulariser.
func (g *golden) objective(kind string) engine.Objective {
	switch kind {
	case "ce":
		return engine.Objective{Kind: engine.Supervised}
	case "trl":
		gspo := g.GSPO
		gspo.Regulariser = 0
		return engine.Objective{Kind: engine.GSPO, GSPO: gspo}
	}
	return engine.Objective{Kind: engine.GSPO, GSPO: g.GSPO}
}

// The gradient of every weight and every LoRA matrix, through the engine's own update.
func TestGradients(t *testing.T) {
	forEachFamily(t, func(t *testing.T, g *golden) {
		for _, test := range []struct{ mode, kind string }{{full, "ce"}, {full, "gspo"}, {lora, "ce"}, {lora, "gspo"}, {lora, "trl"}} {
			key := test.mode + "." + test.kind
			// Without a first moment to remember, Adam's is the gradient.
			e := g.openFor(t, test.mode, spec.OptimizerConfig{Beta2: 0.95, Epsilon: 1e-8})
			stats, err := e.Update(context.Background(), g.samples(t, test.mode), g.objective(test.kind), 0)
			require.NoError(t, err)
			want := g.Losses[key]
			g.compareNumber(t, losses, key, want.Total+boolTo(test.kind == "trl")*want.Policy, stats.Loss)
			if test.kind == "gspo" {
				g.compareNumber(t, losses, key, want.Policy, stats.PolicyLoss)
				g.compareNumber(t, losses, key, want.Regulariser, stats.Regulariser)
				clipped := 0.
				for _, c := range want.Clipped {
					clipped += boolTo(c)
				}
				require.InDelta(t, clipped/float64(len(want.Clipped)), stats.ClipFraction, 1e-12)
			}
			dir := filepath.Join(t.TempDir(), "state")
			require.NoError(t, e.Save(context.Background(), dir))
			state, err := safetensors.Open(filepath.Join(dir, "state.safetensors"))
			require.NoError(t, err)
			moment, err := state.Float32("adam_m")
			require.NoError(t, err)
			require.NoError(t, state.Close())
			for _, x := range g.trained(t, test.mode) {
				g.compare(t, gradients, key+"."+x.Name, g.tensor(t, key+"."+x.Name), moment[:x.Size()])
				moment = moment[x.Size():]
			}
			require.Empty(t, moment)
		}
	})
}

// Three updates with warm-up, cosine, decay and clipping.
func TestAdamW(t *testing.T) {
	forEachFamily(t, func(t *testing.T, g *golden) {
		for _, test := range []struct {
			mode, kind string
			format     engine.Format
			file       string
		}{
			{full, "ce", engine.CheckpointF32, "model.safetensors"},
			{lora, "gspo", engine.PEFT, "adapter_model.safetensors"},
		} {
			e := g.openFor(t, test.mode, g.Optimizer)
			want := g.Losses[test.mode+".adamw"]
			start := g.snapshot(t, e, test.format, test.file)
			for step := range g.Steps {
				stats, err := e.Update(context.Background(), g.samples(t, test.mode), g.objective(test.kind), optim.Rate(g.Optimizer, step, g.Schedule))
				require.NoError(t, err)
				g.compareNumber(t, steppedLoss, test.mode, want.Losses[step], stats.Loss)
				g.compareNumber(t, gradNorm, test.mode, want.Norms[step], stats.GradNorm)
			}
			end := g.snapshot(t, e, test.format, test.file)
			for _, x := range g.trained(t, test.mode) {
				expected, got, before := g.tensor(t, test.mode+".adamw."+x.Name), end[x.Name], start[x.Name]
				for i, b := range before {
					expected[i] -= b
					got[i] -= b
				}
				q := weightChange
				if strings.HasSuffix(x.Name, "k_proj.bias") {
					q = keyBiasChange
				}
				g.compare(t, q, test.mode+"."+x.Name, expected, got)
			}
		}
	})
}

// snapshot exports what is trained and reads it back.
func (g *golden) snapshot(t *testing.T, e *local.Engine, format engine.Format, file string) map[string][]float32 {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, e.Export(context.Background(), engine.Policy, format, dir))
	f, err := safetensors.Open(filepath.Join(dir, file))
	require.NoError(t, err)
	defer f.Close()
	out := map[string][]float32{}
	for _, name := range f.Names() {
		out[name], err = f.Float32(name)
		require.NoError(t, err)
	}
	return out
}

// trained lists the tensors that a mode trains, in the engine's order.
func (g *golden) trained(t *testing.T, mode string) []qwenvl.Tensor {
	t.Helper()
	c, err := qwenvl.LoadConfig(filepath.Join(g.dir, "config.json"))
	require.NoError(t, err)
	if mode == lora {
		return qwenvl.AdapterTensors(c, g.LoRA.Rank)
	}
	return qwenvl.Layout(c)
}

func boolTo(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
