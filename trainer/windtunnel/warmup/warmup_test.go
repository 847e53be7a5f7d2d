package warmup

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/spec"
)

func tiny(dir string) Options {
	return Options{Dir: dir, Seed: 3, Examples: 400, Shape: Shape{Layers: 2, Hidden: 32, FFN: 64, Heads: 2, KVHeads: 1, HeadDim: 16, VisionLayers: 2, VisionHidden: 32, VisionHeads: 2}}
}

func weights(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	return b
}

// All phases in small: the loss falls, and a warm-up that was interrupted and resumed on another number of threads makes
// the same checkpoint as one that was not.
func TestInterruptedWarmUpMakesTheSameCheckpoint(t *testing.T) {
	whole := tiny(t.TempDir())
	whole.Threads = 1
	whole.Snapshots = []int{200}
	var losses []float64
	whole.Progress = func(p Progress) {
		losses = append(losses, p.Loss)
		require.Equal(t, 400, p.Total)
		require.Equal(t, 4*len(losses), p.Examples)
	}
	require.NoError(t, Run(context.Background(), whole))
	require.Len(t, losses, 100)
	require.Less(t, losses[99], 0.6*losses[0])

	cut := tiny(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cut.Progress = func(p Progress) {
		if p.Examples == 200 {
			cancel()
		}
	}
	require.ErrorIs(t, Run(ctx, cut), context.Canceled)
	require.NoFileExists(t, filepath.Join(cut.Dir, "model.safetensors"))

	other := cut
	other.Seed = 4
	require.ErrorContains(t, Run(context.Background(), other), "unfinished warm-up with seed 3")

	first := 0
	cut.Progress = func(p Progress) {
		if first == 0 {
			first = p.Examples
		}
	}
	require.NoError(t, Run(context.Background(), cut))
	require.Equal(t, 204, first, "it went on where it stopped")
	require.Equal(t, weights(t, whole.Dir), weights(t, cut.Dir))
	require.NoDirExists(t, filepath.Join(cut.Dir, stateFolder), "nothing is left to resume")

	for _, dir := range []string{whole.Dir, filepath.Join(whole.Dir, "snapshot-200")} {
		e, err := local.Open(dir, local.Options{Model: spec.ModelConfig{Train: "full"}})
		require.NoError(t, err)
		require.NoError(t, e.Close())
	}
}

func TestTooFewExamplesAreRefused(t *testing.T) {
	o := tiny(t.TempDir())
	o.Examples = 3
	require.ErrorContains(t, Run(context.Background(), o), "use 40 or more")
}
