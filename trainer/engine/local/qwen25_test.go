package local

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/enginetest"
)

func newQwen25VL(t testing.TB, tied bool) string {
	t.Helper()
	config, tok, processor := enginetest.TinyQwen25VLFiles(t, tied)
	dir := t.TempDir()
	require.NoError(t, Create(dir, Files{Config: config, Tokenizer: tok, Preprocessor: processor}, 1))
	return dir
}

// A Qwen2.5-VL checkpoint is sampled, trained, averaged, saved, resumed and exported as one of Qwen3-VL is.
func TestQwen25VLTrains(t *testing.T) {
	ctx := context.Background()
	for _, train := range []string{"lora", "full"} {
		for _, tied := range []bool{false, true} {
			t.Run(fmt.Sprint(train, " tied ", tied), func(t *testing.T) {
				dir := newQwen25VL(t, tied)
				one, two := open(t, dir, train, 1), open(t, dir, train, 2)
				require.Equal(t, "Qwen2.5-VL", one.Info().Architecture)
				rs := requests(2, 16, 1)
				cs := generate(t, one, engine.Policy, rs)
				require.Equal(t, cs, generate(t, two, engine.Policy, rs))
				scores, err := one.Score(ctx, engine.Policy, sequencesOf(rs, cs))
				require.NoError(t, err)
				for i, c := range cs {
					require.InDeltaSlice(t, c.LogProbs, scores[i], 1e-4, "sampler and trainer")
				}

				require.Equal(t, update(t, one, 2), update(t, two, 2))
				require.Equal(t, one.policy.Flat, two.policy.Flat)
				start, err := loadWeights(dir, one.config)
				require.NoError(t, err)
				for i, w := range one.policy.Tensors {
					if one.trained(w.Name) {
						require.NotEqual(t, start.Tensors[i].Data, w.Data, w.Name)
					}
				}
				_, err = one.Average(ctx, engine.Verifier, engine.Policy, .5)
				require.NoError(t, err)
				saved := filepath.Join(t.TempDir(), "checkpoint")
				require.NoError(t, one.Save(ctx, saved))
				three := open(t, dir, train, 2)
				require.NoError(t, three.Restore(ctx, saved))
				require.Equal(t, one.verifier.Flat, three.verifier.Flat)
				require.Equal(t, update(t, one, 1), update(t, three, 1))
				require.Equal(t, one.policy.Flat, three.policy.Flat)

				merged := filepath.Join(t.TempDir(), "merged")
				require.NoError(t, one.Export(ctx, engine.Policy, engine.CheckpointF32, merged))
				require.Equal(t, one.policy.Flat, open(t, merged, train, 1).policy.Flat)
				if train == "lora" {
					adapter := filepath.Join(t.TempDir(), "adapter")
					require.NoError(t, one.Export(ctx, engine.Policy, engine.PEFT, adapter))
					reader, err := Open(dir, Options{Adapter: adapter})
					require.NoError(t, err)
					require.Equal(t, one.policy.Flat, reader.policy.Flat)
				}
			})
		}
	}
}
