package trainer

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// mismatchBound is how far the sampler's log-probs may lie from the trainer's on average, nats a token.
const mismatchBound = 1e-5

// shipped is a short run of the wind tunnel on the checkpoint inside the binary.
func shipped(t testing.TB, set ...string) spec.Config {
	t.Helper()
	cfg, err := config.Load("windtunnel")
	require.NoError(t, err)
	require.NoError(t, config.Apply(&cfg, append([]string{"steps=3", "corpus.images_per_step=2", "corpus.size=20", "questioner.samples=3", "solver.samples=2",
		"checkpoint.every=2"}, set...)...))
	return cfg
}

// Filters change what is sampled and never what its log-prob is: that is over the full vocabulary at temperature 1.
var samplings = map[string]spec.SamplingConfig{
	"plain":    {Temperature: 1, TopP: 1, MaxTokens: 96},
	"filtered": {Temperature: .7, TopP: .8, TopK: 20, MaxTokens: 96},
}

func TestEveryStepRecordsASmallMismatch(t *testing.T) {
	for name, sampling := range samplings {
		cfg := shipped(t)
		cfg.Questioner.Sampling, cfg.Solver.Sampling = sampling, sampling
		dir := t.TempDir()
		require.NoError(t, Run(context.Background(), cfg, dir, Options{}))
		steps := 0
		for r, err := range journal.Read(dir, 0) {
			require.NoError(t, err)
			if d, ok := r.Data.(*spec.Step); ok {
				steps++
				require.LessOrEqual(t, float64(d.Metrics[spec.MetricMismatch]), mismatchBound)
				t.Logf("%s, step %d: %.2g nats a token, %g samples trained on", name, r.Step, float64(d.Metrics[spec.MetricMismatch]),
					float64(d.Metrics[spec.MetricRetainedQ]+d.Metrics[spec.MetricRetainedS]))
			}
		}
		require.Equal(t, cfg.Steps, steps)
	}
}

// A seed gives one digest, whatever the threads, however many completions are decoded together and whatever is computed twice.
func TestDigestDependsOnTheSeedAlone(t *testing.T) {
	run := func(set ...string) string {
		dir := t.TempDir() // 20 completions of a kind: more than a batch of 16
		require.NoError(t, Run(context.Background(), shipped(t, append(set, "steps=2", "corpus.images_per_step=5", "questioner.samples=4")...), dir, Options{}))
		return digest(t, dir)
	}
	want := run()
	for _, c := range []struct{ threads, batch int }{{1, 0}, {2, 0}, {3, 0}, {1, 1}, {1, 16}, {2, 16}, {3, 1}} {
		set := []string{fmt.Sprint("threads=", c.threads), fmt.Sprint("model.decode_batch=", c.batch)}
		require.Equal(t, want, run(set...), set)
	}
	require.Equal(t, want, run("model.gradient_checkpointing=true"))
	require.NotEqual(t, want, run("seed=2"))
}

// The same of prompts with and without an image, of lengths from one token to the longest, for both slots.
func TestSamplerAgreesWithTrainer(t *testing.T) {
	ctx := context.Background()
	cfg := shipped(t)
	e, err := openEngine(t.TempDir(), cfg)
	require.NoError(t, err)
	defer e.Close()
	source, err := openSource(cfg)
	require.NoError(t, err)
	defer source.close()
	im, err := source.at(0)
	require.NoError(t, err)
	require.NoError(t, e.LoadImage(ctx, "figure", im.Bytes))
	for name, sampling := range samplings {
		for _, image := range []string{"", "figure"} {
			var requests []engine.Request
			for i, user := range []string{"Ask.", "Solve: Which bar is the tallest?", "Say what you see and count it: 1, 2, 3, 4, 5, 6, 7, 8, 9."} {
				for _, longest := range []int{1, 12, 96} {
					sampling.MaxTokens = longest
					requests = append(requests, engine.Request{Prompt: engine.Prompt{Image: image, User: user}, N: 3, Sampling: sampling, Key: engine.Key{Seed: 4, Slot: i, Index: longest}})
				}
			}
			for _, slot := range []engine.Slot{engine.Policy, engine.Verifier} {
				sum, tokens, worst := mismatch(t, e, slot, requests)
				require.LessOrEqual(t, sum/float64(tokens), mismatchBound, "%s, image %q, %s", name, image, slot)
				t.Logf("%s, image %q, %s: mean %.2g, largest %.2g nats over %d tokens", name, image, slot, sum/float64(tokens), worst, tokens)
			}
		}
	}
}

// mismatch sums |sampler - trainer| over the tokens of all completions.
func mismatch(t *testing.T, e engine.Engine, slot engine.Slot, requests []engine.Request) (sum float64, tokens int, worst float64) {
	t.Helper()
	var sampled []engine.Completion
	require.NoError(t, e.Generate(context.Background(), slot, requests, func(c engine.Completion) { sampled = append(sampled, c) }))
	var sequences []engine.Sequence
	for _, c := range sampled {
		sequences = append(sequences, engine.Sequence{Prompt: requests[c.Request].Prompt, Tokens: c.Tokens})
	}
	scores, err := e.Score(context.Background(), slot, sequences)
	require.NoError(t, err)
	for i, c := range sampled {
		for k, lp := range c.LogProbs {
			d := math.Abs(float64(lp) - float64(scores[i][k]))
			sum, worst = sum+d, max(worst, d)
			tokens++
		}
	}
	return sum, tokens, worst
}
