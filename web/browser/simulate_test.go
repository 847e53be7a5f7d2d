package browser

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/loop/trinity"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/trainer/windtunnel"
)

// hostile is what a model may write to break a page.
const hostile = `</script><script>document.title="owned"</script><img src=x onerror="document.title='owned'"> ${1} {{2}} é雪`

// actors is an engine that plays the roles from the figures' truth, with faults that grow rarer as steps go by. Pages need
// records of every kind, which no small model gives on demand; the loop, the journal and the rewards are the real ones.
type actors struct {
	corpus *windtunnel.Corpus
	steps  int
}

var _ engine.Engine = actors{}

func (actors) Info() engine.Info                               { return engine.Info{Architecture: "actors"} }
func (actors) LoadImage(context.Context, string, []byte) error { return nil }
func (actors) DropImages(...string)                            {}
func (actors) Average(context.Context, engine.Slot, engine.Slot, float64) (float64, error) {
	return 0, nil
}
func (actors) Save(_ context.Context, dir string) error                         { return os.MkdirAll(dir, 0o755) }
func (actors) Restore(context.Context, string) error                            { return nil }
func (actors) Export(context.Context, engine.Slot, engine.Format, string) error { return nil }
func (actors) Close() error                                                     { return nil }
func (actors) Score(_ context.Context, _ engine.Slot, all []engine.Sequence) ([][]float32, error) {
	out := make([][]float32, len(all))
	for i, s := range all {
		out[i] = make([]float32, len(s.Tokens))
	}
	return out, nil
}

func (actors) Update(context.Context, []engine.Sample, engine.Objective, float64) (engine.UpdateStats, error) {
	return engine.UpdateStats{Loss: .1, RatioMean: 1, GradNorm: .3}, nil
}

func (a actors) Generate(ctx context.Context, _ engine.Slot, requests []engine.Request, emit func(engine.Completion)) error {
	for i, r := range requests {
		for n := range r.N {
			h := fnv.New64a()
			fmt.Fprint(h, r.Key, n)
			rng := rand.New(rand.NewPCG(h.Sum64(), 7))
			text := a.say(rng, r)
			tokens := make([]int32, len(strings.Fields(text))+1)
			emit(engine.Completion{Request: i, Sample: n, Text: text, Tokens: tokens, LogProbs: make([]float32, len(tokens)), Truncated: !strings.ContainsAny(text, "}>")})
		}
	}
	return ctx.Err()
}

// say is a role's turn. Skill rises from 0 to 1 over the run.
func (a actors) say(rng *rand.Rand, r engine.Request) string {
	skill := float64(r.Key.Step) / float64(a.steps)
	slip := func(first, last float64) bool { return rng.Float64() < first+(last-first)*skill }
	scene, known := a.corpus.Scene(r.Prompt.Image)
	if slip(.10, .02) {
		if rng.IntN(2) == 0 {
			return "The figure shows a chart and I would say that"
		}
		return hostile
	}
	role, rest, _ := strings.Cut(r.Prompt.User, " ")
	switch role {
	case "Ask.":
		q := scene.DrawQuestion(rng, windtunnel.DefaultWeights(), !slip(.5, .25))
		answer := scene.Solve(q).Answer
		if slip(.45, .3) {
			answer = scene.WrongAnswer(rng, q, answer)
		}
		return fmt.Sprintf(`{"question": %q, "answer": %q}`, q.Text(), answer)
	case "Solve:":
		return a.solve(rng, scene, rest, slip(.55, .3))
	case "Screen:":
		question, given, _ := strings.Cut(rest, " Answer: ")
		turn := scene.ScreenTurn(question, given).Completion
		if slip(.2, .25) {
			turn = strings.NewReplacer(`"corr_a": 0`, `"corr_a": 1`, `"fact_q": 0`, `"fact_q": 1`).Replace(turn)
		}
		return turn
	case "Grade:":
		question, reasoning, _ := strings.Cut(rest, " Reasoning: ")
		if turn, ok := scene.ReasoningTurn(question, reasoning); ok && known {
			return turn.Completion
		}
		return `{"justification": "The steps can't be followed.", "reasoning_score": 0.25}`
	case "Same?":
		return fmt.Sprintf(`{"match": %d}`, rng.IntN(2))
	}
	side := "ref"
	if rng.IntN(2) == 0 {
		side = "majority"
	}
	return fmt.Sprintf(`{"correct_answer": %q, "justification": "Reading the figure once more, the marks agree with this side."}`, side)
}

func (a actors) solve(rng *rand.Rand, scene windtunnel.Scene, question string, wrong bool) string {
	q, ok := windtunnel.ParseQuestion(question)
	if !ok {
		return "<think>I can't find that in the figure.</think>\n<answer>\\boxed{none}</answer>"
	}
	truth := scene.Solve(q)
	reasoning, answer := truth.Reasoning, truth.Answer
	if wrong && truth.Grounded {
		reasoning, _ = scene.CorruptReasoning(rng, q)
		answer = scene.WrongAnswer(rng, q, truth.Answer)
	}
	return fmt.Sprintf("<think>%s</think>\n<answer>\\boxed{%s}</answer>", reasoning, answer)
}

type figures struct{ *windtunnel.Corpus }

func (f figures) At(i int) (trinity.Image, error) {
	image, err := f.Corpus.At(i)
	return trinity.Image{SHA256: image.SHA256, Bytes: image.Bytes}, err
}

// simulate writes the journal of a run played by actors into a new directory. onStep is called after each commit.
func simulate(t *testing.T, steps int, onStep func(dir string, step int)) (dir string) {
	t.Helper()
	cfg, err := config.Load("windtunnel")
	require.NoError(t, err)
	cfg.Steps, cfg.Corpus.Size, cfg.Corpus.ImagesPerStep, cfg.Name = steps, 60, 6, "wind tunnel, gate on"
	corpus, err := windtunnel.NewCorpus(cfg.Seed, cfg.Corpus.Size)
	require.NoError(t, err)
	dir = filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "images"), 0o755))
	for i := range corpus.Len() {
		image, err := corpus.At(i)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", image.SHA256+".png"), image.Bytes, 0o644))
	}
	writer, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, writer.Append(spec.KindRun, 0, &spec.Run{
		ID: experiment.NewRunID(), Config: cfg, Model: "Qwen3-VL 1.6M", Corpus: "60 wind-tunnel figures", Version: "test",
	}))
	require.NoError(t, trinity.Run(t.Context(), trinity.Options{
		Config: cfg, Engine: actors{corpus, steps}, Corpus: figures{corpus}, Oracle: corpus, Sink: writer, Dir: dir,
		OnStep: func(step int, _ spec.Step) { onStep(dir, step) },
	}))
	require.NoError(t, writer.Close())
	return dir
}
