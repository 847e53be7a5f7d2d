package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/windtunnel"
)

func TestConfusion(t *testing.T) {
	var c Confusion
	for _, x := range [][2]bool{{true, true}, {true, true}, {true, false}, {false, true}, {false, false}, {false, false}, {false, false}} {
		c.add(x[0], x[1])
	}
	require.Equal(t, Confusion{TP: 2, FN: 1, FP: 1, TN: 3}, c)
	require.InDelta(t, 2./3, c.TPR(), 1e-12)
	require.InDelta(t, .25, c.FPR(), 1e-12)
	require.InDelta(t, 2./3-.25, c.YoudenJ(), 1e-12)
	require.InDelta(t, 5./7, c.Accuracy(), 1e-12)
}

func TestWilson(t *testing.T) {
	lo, hi := wilson(Share{Hits: 95, Trials: 100})
	require.InDelta(t, .888, lo, .001)
	require.InDelta(t, .978, hi, .001)
	lo, hi = wilson(Share{Hits: 10, Trials: 10})
	require.InDelta(t, .722, lo, .001)
	require.InDelta(t, 1, hi, 1e-9)
}

// knowing is an engine that looks the truth up: every measure of it must be perfect. With wrong set it answers the opposite
// of what a judge should say.
type knowing struct {
	engine.Engine
	corpus *windtunnel.Corpus
	wrong  bool
}

func (k *knowing) LoadImage(context.Context, string, []byte) error { return nil }
func (k *knowing) DropImages(...string)                            {}

func (k *knowing) Generate(_ context.Context, _ engine.Slot, requests []engine.Request, emit func(engine.Completion)) error {
	for i, r := range requests {
		emit(engine.Completion{Request: i, Text: k.answer(r.Prompt)})
	}
	return nil
}

func (k *knowing) answer(p engine.Prompt) string {
	scene, _ := k.corpus.Scene(p.Image)
	role, rest, _ := strings.Cut(p.User, " ")
	switch role {
	case "Ask.":
		return scene.QuestionerTurn(windtunnel.Question{Form: windtunnel.AskCount, Noun: scene.Kind}).Completion
	case "Solve:":
		q, _ := windtunnel.ParseQuestion(rest)
		return scene.SolverTurn(q).Completion
	case "Screen:":
		q, a, _ := strings.Cut(rest, " Answer: ")
		out := scene.ScreenTurn(q, a).Completion
		if k.wrong {
			out = strings.NewReplacer(`"corr_a": 1`, `"corr_a": 0`, `"corr_a": 0`, `"corr_a": 1`).Replace(out)
		}
		return out
	case "Grade:":
		q, r, _ := strings.Cut(rest, " Reasoning: ")
		t, _ := scene.ReasoningTurn(q, r)
		return t.Completion
	case "Dispute:":
		q, rest, _ := strings.Cut(rest, " A: ")
		a, rest, _ := strings.Cut(rest, " B: ")
		b, r, _ := strings.Cut(rest, " Reasoning: ")
		t, _ := scene.DisputeTurn(q, a, b, r)
		return t.Completion
	}
	return "prose"
}

func TestMeasureGivesThePerfectModelFullMarks(t *testing.T) {
	corpus, err := windtunnel.NewHeldOutCorpus(5, 60)
	require.NoError(t, err)
	done := 0
	r, err := Measure(context.Background(), &knowing{corpus: corpus}, Options{Figures: 60, Seed: 5, MaxTokens: 10, Progress: func(n, total int) { done = n; require.Equal(t, 60, total) }})
	require.NoError(t, err)
	require.Equal(t, 60, done)
	for level, s := range r.Solver {
		require.Equal(t, Share{60, 60}, s, "level %d", level+1)
	}
	require.Equal(t, Share{120, 120}, r.Grounded)
	require.Equal(t, Share{120, 120}, r.Right)
	require.Equal(t, [4]int{120, 0, 0, 0}, r.Level)
	require.InDelta(t, 1, r.FactQ.Accuracy(), 0)
	require.InDelta(t, 1, r.CorrADrawn.YoudenJ(), 0)
	require.Equal(t, 120, r.CorrA.TP)
	for name, s := range map[string]Share{"reasoning": r.Reasoning, "own": r.OwnReason, "dispute": r.Dispute, "difficulty": r.Difficulty} {
		require.Positive(t, s.Trials, name)
		require.Equal(t, s.Trials, s.Hits, name)
	}
	require.Zero(t, r.Equivalence.Hits, "prose is no verdict")
	require.Zero(t, r.Format[windtunnel.RoleEquivalence].Hits)

	screened := 0
	for _, f := range r.Forms {
		require.Equal(t, f.Solver.Trials, f.Solver.Hits, f.Form)
		require.Zero(t, f.CorrA.FP+f.CorrA.FN, f.Form)
		screened += f.CorrA.TP + f.CorrA.TN
	}
	require.Equal(t, 4*60, screened)

	table := r.Markdown()
	require.Contains(t, table, "| What is the median of the {s}? | 4 | 100% | 0% | 0% |")
	require.Contains(t, table, "| Solver, level 4 | 100.0% |")
	b, err := json.Marshal(r)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, r, back)
}

func TestMeasureSeesAJudgeThatIsAlwaysWrong(t *testing.T) {
	corpus, err := windtunnel.NewHeldOutCorpus(5, 20)
	require.NoError(t, err)
	r, err := Measure(context.Background(), &knowing{corpus: corpus, wrong: true}, Options{Figures: 20, Seed: 5, MaxTokens: 10})
	require.NoError(t, err)
	require.InDelta(t, -1, r.CorrADrawn.YoudenJ(), 1e-9, fmt.Sprint(r.CorrADrawn))
	require.Zero(t, r.CorrA.TP)
}
