package trinity

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/trinity-lab/trinity/trainer/answer"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/reward"
	"github.com/trinity-lab/trinity/trainer/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one is a run of one step on one image, without randomness of its own.
func one(t testing.TB) spec.Config {
	t.Helper()
	cfg, err := config.Load("windtunnel")
	require.NoError(t, err)
	require.NoError(t, config.Apply(&cfg, "steps=1", "corpus.images_per_step=1", "optimizer.mini_batches=1", "optimizer.epochs=1", "checkpoint.every=1000"))
	return cfg
}

// script answers by role and index; a role's list is cycled, and "TRUNCATED:" marks a cut-off reply.
type script struct {
	ask, solve  []string
	screen      map[string]string // by answer proposed
	grade, same []string
	dispute     []string
}

func (s *script) reply(r engine.Request, sample int, _ float64) (string, bool) {
	role, rest, _ := strings.Cut(r.Prompt.User, " ")
	pick := func(list []string, i int) (string, bool) {
		if len(list) == 0 {
			return "no reply", false
		}
		text, cut := strings.CutPrefix(list[i%len(list)], "TRUNCATED:")
		return text, cut
	}
	switch role {
	case "Ask.":
		return pick(s.ask, sample)
	case "Solve:":
		return pick(s.solve, sample)
	case "Screen:":
		return s.screen[rest[strings.LastIndex(rest, " ")+1:]], false
	case "Grade:":
		return pick(s.grade, r.Key.Index)
	case "Same?":
		return pick(s.same, r.Key.Index)
	case "Dispute:":
		return pick(s.dispute, r.Key.Attempt)
	}
	return "", false
}

// worked is the image of reference part i: candidates of difficulty .7 and .4, one ungrounded and one malformed.
func worked(solutions ...string) *script {
	return &script{
		ask: []string{question("What is the height of the bar?", "6"), "nonsense", question("How tall is the unicorn?", "5"), question("Which is taller?", "red")},
		screen: map[string]string{
			"6":   screening("1", "1", "0.7"),
			"5":   screening("0", "1", "1.0"),
			"red": screening("1", "1", "0.4"),
		},
		solve: solutions,
		grade: []string{reasoning("0.5")},
	}
}

type outcome struct {
	engine     *scripted
	records    []spec.Record
	candidates []*spec.Candidate // final
	rollouts   []*spec.Rollout   // final
	judgements []*spec.Judgement
	disputes   []*spec.Dispute
	metrics    map[string]spec.Float
}

func train(t testing.TB, cfg spec.Config, e *scripted, corpus Corpus, oracle Oracle) outcome {
	t.Helper()
	sink := &memory{}
	require.NoError(t, Run(context.Background(), Options{Config: cfg, Engine: e, Corpus: corpus, Oracle: oracle, Sink: sink, Dir: t.TempDir()}))
	o := outcome{engine: e, records: sink.records}
	for _, r := range sink.records {
		switch d := r.Data.(type) {
		case *spec.Candidate:
			if d.Final {
				o.candidates = append(o.candidates, d)
			}
		case *spec.Rollout:
			if d.Final {
				o.rollouts = append(o.rollouts, d)
			}
		case *spec.Judgement:
			o.judgements = append(o.judgements, d)
		case *spec.Dispute:
			o.disputes = append(o.disputes, d)
		case *spec.Step:
			o.metrics = d.Metrics
		}
	}
	return o
}

func play(t testing.TB, s *script, set ...string) outcome {
	t.Helper()
	cfg := one(t)
	require.NoError(t, config.Apply(&cfg, set...))
	return train(t, cfg, newScripted(s.reply), album{"x"}, nil)
}

func (o outcome) count(j spec.Judge) int {
	n := 0
	for _, d := range o.judgements {
		if d.Judge == j {
			n++
		}
	}
	return n
}

func answers(list ...string) []string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = solution("because", a)
	}
	return out
}

const (
	tolerance = 1e-12
	rule      = string(answer.TierRule)
	guard     = string(answer.TierGuard)
)

// Difficulty .7 with one of four right: chal .75, R_Q .70875; nothing else about the image is disputed.
func TestWorkedImage(t *testing.T) {
	o := play(t, worked(answers("7", "8", "9", "6")...), "optimizer.learning_rate=1e-3", "optimizer.warmup_steps=5")
	require.Len(t, o.candidates, 4)
	for g, want := range []float64{.70875, -.5, 0, .06} {
		require.InDelta(t, want, o.candidates[g].Reward, tolerance, "candidate %d", g)
	}
	chosen := o.candidates[0]
	require.True(t, chosen.Selected)
	require.Equal(t, 1.0, chosen.RFact)
	require.InDelta(t, .75, chosen.RChal, tolerance)
	require.InDelta(t, .7*.875, chosen.RDiffTilde, tolerance)
	require.False(t, o.candidates[1].FormatOK)
	require.NotEmpty(t, o.candidates[1].FormatError)
	require.Equal(t, "nonsense", o.candidates[1].Text)

	for k, want := range []float64{.2, .2, .2, .85} {
		require.InDelta(t, want, o.rollouts[k].Reward, tolerance, "rollout %d", k)
		require.Equal(t, .5, o.rollouts[k].Reason)
		require.Equal(t, "because", o.rollouts[k].Think)
	}
	require.Equal(t, []string{guard, guard, guard, rule}, []string{o.rollouts[0].Tier, o.rollouts[1].Tier, o.rollouts[2].Tier, o.rollouts[3].Tier})
	require.InDelta(t, math.Sqrt(3), o.rollouts[3].Advantage, 1e-6)
	require.Empty(t, o.disputes)

	for name, want := range map[string]float64{
		spec.MetricRFact: .5, spec.MetricRDiff: (.7 + 1 + .4) / 4, spec.MetricRChal: .1875, spec.MetricRChalSelected: .75, spec.MetricSelectRate: .25,
		spec.MetricRQ: (.70875 - .5 + .06) / 4, spec.MetricRS: .3625, spec.MetricRCorrect: .25, spec.MetricRReason: .5, spec.MetricFormatQuestioner: .75,
		spec.MetricFormatSolver: 1, spec.MetricDisputeRate: 0, spec.MetricVerifierParseFail: 0, spec.MetricRetainedQ: 4, spec.MetricRetainedS: 4,
		spec.MetricLoss: 2, spec.MetricLossPolicy: 1.5, spec.MetricLossRegulariser: .5, spec.MetricClipFraction: .25, spec.MetricRatioMean: 1, spec.MetricKL: .01,
		spec.MetricLearningRate: 1e-3 / 5,
	} {
		require.InDelta(t, want, float64(o.metrics[name]), 1e-9, name)
	}
	for _, name := range []string{spec.MetricDisputeOverturned, spec.MetricDisputeFallback} {
		require.True(t, math.IsNaN(float64(o.metrics[name])), name)
	}
	require.NotContains(t, o.metrics, spec.MetricOracleGrounded)
}

func TestTrap01MalformedAndTruncatedEarnNothingAndStayInTheGroup(t *testing.T) {
	s := worked(solution("fine", "6"), "TRUNCATED:"+solution("fine", "6"), `the answer is \boxed{6}`, solution("fine", "8"))
	o := play(t, s)
	require.Len(t, o.rollouts, 4)
	for k, want := range []float64{.85, 0, 0, .2} {
		require.InDelta(t, want, o.rollouts[k].Reward, tolerance)
	}
	require.True(t, o.rollouts[1].Truncated)
	mu, sd := 1.05/4, math.Sqrt((.85*.85+.2*.2)/4-(1.05/4)*(1.05/4))
	require.InDelta(t, -mu/sd, o.rollouts[1].Advantage, 1e-6)
	require.True(t, o.rollouts[1].Retained)
	require.Equal(t, 2, o.count(spec.JudgeReasoning), "only formatted completions are graded")
}

func TestTrap02UnselectedEarnAtMostDifficulty(t *testing.T) {
	s := worked(answers("7")...)
	s.ask = []string{question("Which is it?", "6"), question("Which one?", "red")}
	s.screen["6"], s.screen["red"] = screening("1", "1", "1.0"), screening("1", "1", "0.7")
	o := play(t, s)
	require.InDelta(t, .105, o.candidates[1].Reward, tolerance)
	require.Zero(t, o.candidates[1].RChal)
}

func TestTrap02TiesAreBrokenByTheRunsOwnStream(t *testing.T) {
	seen := map[int]bool{}
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"} {
		s := worked(answers("7")...)
		s.screen["red"] = screening("1", "1", "0.7")
		first, again := play(t, s, "seed="+seed), play(t, s, "seed="+seed)
		for g, c := range first.candidates {
			require.Equal(t, c.Selected, again.candidates[g].Selected)
			if c.Selected {
				seen[g] = true
			}
		}
	}
	require.Equal(t, map[int]bool{0: true, 3: true}, seen)
}

func TestTrap03ChallengeCountsEvaluableAnswers(t *testing.T) {
	o := play(t, worked(solution("a", "6"), solution("a", "9"), "junk", "TRUNCATED:x"))
	require.InDelta(t, .5, o.candidates[0].RChal, tolerance)
	require.InDelta(t, .5075, o.candidates[0].Reward, tolerance)
	o = play(t, worked("junk"))
	require.Zero(t, o.candidates[0].RChal)
	require.True(t, o.candidates[0].Selected)
	for _, r := range o.rollouts {
		require.False(t, r.Evaluable)
	}
	require.Zero(t, o.metrics[spec.MetricRS])
}

func TestTrap04DisputeFiresOnAStrongWrongConsensusOnly(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []string
		fires   bool
	}{
		{"three of four, the fourth right", answers("7", "7", "7", "6"), true},
		{"half", answers("7", "7", "8", "8"), false},
		{"consensus on the reference", answers("6", "6", "6", "7"), false},
		{"two formatted and agreed", append(answers("7", "7"), "junk", "junk"), true},
		{"one formatted", append(answers("7"), "junk", "junk", "junk"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := worked(test.answers...)
			s.dispute = []string{dispute("ref")}
			o := play(t, s)
			require.Equal(t, test.fires, len(o.disputes) == 1)
			if !test.fires {
				require.Zero(t, o.metrics[spec.MetricDisputeRate])
				return
			}
			require.EqualValues(t, 1, o.metrics[spec.MetricDisputeRate])
			require.Equal(t, "reference", o.disputes[0].Outcome)
			require.False(t, o.disputes[0].Overturned)
			require.Equal(t, "counted again", o.disputes[0].Justification)
			require.Equal(t, 1.0, o.candidates[0].CorrA)
		})
	}
}

func TestTrap05FallbackAdoptsTheMajority(t *testing.T) {
	s := worked(answers("7", "7", "7", "6")...)
	s.dispute = []string{"hmm", "{", "the majority is right"}
	o := play(t, s)
	require.Equal(t, 3, o.count(spec.JudgeDispute), "two retries")
	require.Equal(t, "fallback", o.disputes[0].Outcome)
	require.Equal(t, 3, o.disputes[0].Attempts)
	require.True(t, o.disputes[0].Overturned)
	require.InDelta(t, .153125, o.candidates[0].Reward, tolerance)
	require.EqualValues(t, 1, o.metrics[spec.MetricDisputeFallback])
	for i, j := range judged(o, spec.JudgeDispute) {
		require.Equal(t, i, j.Attempt)
		require.False(t, j.FormatOK)
		require.Empty(t, j.Fields)
	}

	s.dispute = []string{"hmm", dispute("ref"), "never asked"}
	o = play(t, s)
	require.Equal(t, 2, o.count(spec.JudgeDispute))
	require.Equal(t, "reference", o.disputes[0].Outcome)

	s = worked(answers("7", "8", "9", "6")...)
	s.screen["6"] = "unclear"
	o = play(t, s)
	require.Equal(t, 3, o.count(spec.JudgeScreening), "no retry of an ordinary call")
	require.False(t, o.candidates[0].Screened)
	require.Zero(t, o.candidates[0].Reward)
	require.True(t, o.candidates[3].Selected)
	o = play(t, s, "verifier.retries=2")
	require.Equal(t, 5, o.count(spec.JudgeScreening))
}

func judged(o outcome, judge spec.Judge) []*spec.Judgement {
	var out []*spec.Judgement
	for _, j := range o.judgements {
		if j.Judge == judge {
			out = append(out, j)
		}
	}
	return out
}

func TestTrap06OverrideRecomputesEverything(t *testing.T) {
	s := worked(answers("7", "7", "7", "6")...)
	s.dispute = []string{dispute("majority")}
	o := play(t, s)
	c := o.candidates[0]
	require.Equal(t, "6", c.Answer, "the proposal itself is kept")
	require.Zero(t, c.CorrA)
	require.Equal(t, .5, c.RFact)
	require.InDelta(t, .25, c.RChal, tolerance)
	require.InDelta(t, .153125, c.Reward, tolerance)
	for k, want := range []float64{1, 1, 1, 0} {
		require.Equal(t, want, o.rollouts[k].Correct)
	}
	require.Equal(t, &spec.Dispute{EpisodeKey: c.EpisodeKey, Reference: "6", Majority: "7", Count: 3, Formatted: 4, Support: 0, Attempts: 1,
		Outcome: "majority", Overturned: true, Justification: "counted again"}, o.disputes[0])

	s = worked(answers("7", "7", "7", "7")...)
	s.dispute = []string{dispute("majority")}
	require.InDelta(t, .0525, play(t, s).candidates[0].Reward, tolerance)
	s.dispute = []string{dispute("ref")}
	require.InDelta(t, .91, play(t, s).candidates[0].Reward, tolerance)
	require.InDelta(t, .91, play(t, s, "dispute.enabled=false").candidates[0].Reward, tolerance)
}

func TestTrap07CloseNumbersGoToTheVerifier(t *testing.T) {
	s := worked(answers("100.9", "102", "100", "100.5")...)
	s.ask = []string{question("How much is it?", "100")}
	s.screen = map[string]string{"100": screening("1", "1", "0.7")}
	s.same = []string{`{"match": 1}`, "?", "?", "a match, I think"}
	o := play(t, s, "questioner.samples=1")
	require.Equal(t, []string{tierVerifier, guard, rule, tierNone}, []string{o.rollouts[0].Tier, o.rollouts[1].Tier, o.rollouts[2].Tier, o.rollouts[3].Tier})
	require.Equal(t, []float64{1, 0, 1, 0}, []float64{o.rollouts[0].Correct, o.rollouts[1].Correct, o.rollouts[2].Correct, o.rollouts[3].Correct})
	require.Equal(t, 2, o.count(spec.JudgeEquivalence))
	require.InDelta(t, 1.0/7, float64(o.metrics[spec.MetricVerifierParseFail]), 1e-9)
}

func TestTrap08GroupsWithoutVariance(t *testing.T) {
	s := worked()
	s.ask = []string{"nonsense"}
	o := play(t, s)
	for _, c := range o.candidates {
		require.Equal(t, -.5, c.Advantage, "all malformed: pushed away from it")
		require.True(t, c.Retained)
	}
	require.Empty(t, o.rollouts)
	require.True(t, math.IsNaN(float64(o.metrics[spec.MetricRCorrect])))

	s = worked(answers("6")...)
	o = play(t, s)
	for _, r := range o.rollouts {
		require.Zero(t, r.Advantage)
		require.False(t, r.Retained)
	}
	require.Zero(t, o.metrics[spec.MetricRetainedS])
	require.Len(t, o.engine.updates[0], 4, "the Questioner's alone")
}

func TestTrap09RolesArePooledByRollout(t *testing.T) {
	o := play(t, worked(answers("7", "8", "9", "6")...))
	require.Len(t, o.engine.updates, 1)
	require.Len(t, o.engine.updates[0], 8)
}

func TestTrap10OldLogProbsAreTheTrainersOwn(t *testing.T) {
	o := play(t, worked(answers("7", "8", "9", "6")...), "optimizer.epochs=2")
	require.Len(t, o.engine.updates, 2)
	require.Equal(t, 8, o.engine.scored, "scored once, before the first update")
	for _, batch := range o.engine.updates {
		for _, s := range batch {
			require.Len(t, s.OldLogProbs, len(s.Tokens))
			for _, lp := range s.OldLogProbs {
				require.Equal(t, float32(-.5), lp)
			}
		}
	}
	require.Positive(t, float64(o.metrics[spec.MetricMismatch]))
}

// A step that retains nothing has no update that would score anything; its mismatch is measured on its first image.
func TestMismatchIsKnownWithoutAnUpdate(t *testing.T) {
	s := worked(answers("6")...)
	s.ask = []string{question("What is the height?", "6")}
	o := play(t, s, "questioner.samples=1")
	require.Empty(t, o.engine.updates)
	require.Equal(t, 1, o.engine.scored)
	require.Positive(t, float64(o.metrics[spec.MetricMismatch]))
	require.True(t, math.IsNaN(float64(o.metrics[spec.MetricLoss])))
}

func TestTrap11ThinkingPrefixStandsInThePrompt(t *testing.T) {
	s := worked("because</think><answer>\\boxed{7}</answer>")
	s.ask = []string{"easy</think>" + question("What is the height?", "6"), question("What is the height?", "6")}
	o := play(t, s, "questioner.thinking=prefix", "solver.thinking=prefix")
	require.True(t, o.candidates[0].FormatOK, o.candidates[0].FormatError)
	require.False(t, o.candidates[1].FormatOK, "the thinking is never closed")
	require.True(t, o.rollouts[0].FormatOK, o.rollouts[0].FormatError)
	require.Equal(t, "because", o.rollouts[0].Think)
	for i, r := range o.engine.requests {
		require.Equal(t, o.engine.slots[i] == engine.Policy, r.Prompt.Prefix == "<think>\n")
	}
}

func TestTrap12WhoSeesWhatAndClamping(t *testing.T) {
	s := worked(answers("6.01", "6.01", "6.01", "6.01")...)
	s.same = []string{`{"match": 0}`}
	s.dispute = []string{dispute("ref")}
	o := play(t, s)
	require.Equal(t, 1.0, float64(judged(o, spec.JudgeScreening)[1].Fields["corr_a"]), "recorded as written")
	require.Zero(t, o.candidates[2].CorrA, "clamped: not grounded")
	seen := map[string]bool{}
	for i, r := range o.engine.requests {
		role, _, _ := strings.Cut(r.Prompt.User, " ")
		seen[role] = true
		require.Equal(t, role == "Same?", r.Prompt.Image == "", role)
		require.Equal(t, role == "Ask." || role == "Solve:", o.engine.slots[i] == engine.Policy, role)
	}
	require.Len(t, seen, 6)
}

func TestGateOffTakesEveryWellFormedCandidate(t *testing.T) {
	s := worked(answers("7", "8", "9", "6")...)
	s.screen = map[string]string{"6": screening("0", "0", "0.7"), "5": screening("0", "0", "1.0"), "red": "?"}
	o := play(t, s)
	require.Empty(t, o.rollouts)
	o = play(t, s, "verifier.gate=false")
	require.True(t, o.candidates[2].Selected, "the hardest")
	require.Equal(t, []float64{1, 0, 1, 1}, []float64{o.candidates[0].RFact, o.candidates[1].RFact, o.candidates[2].RFact, o.candidates[3].RFact})
	require.Equal(t, .1, o.candidates[3].Difficulty)
	require.False(t, o.candidates[3].Screened)
	require.Len(t, o.rollouts, 4)
}

func TestFixedVerifierIsNeverAveraged(t *testing.T) {
	s := worked(answers("7", "8", "9", "6")...)
	o := play(t, s, "steps=3", "verifier.ema_decay=0.98")
	require.Equal(t, 3, o.engine.averages)
	last := o.judgements[len(o.judgements)-1]
	require.Equal(t, spec.VerifierVersion{Update: "ema", EMAStep: 2, Decay: .98}, last.Verifier)
	o = play(t, s, "steps=3", "verifier.update=fixed")
	require.Zero(t, o.engine.averages)
	require.Equal(t, spec.VerifierVersion{Update: "fixed"}, o.judgements[len(o.judgements)-1].Verifier)
}

// With turns of two steps, four steps update the Questioner, the Questioner, the Solver, the Solver; both go on playing.
func TestAlternatingUpdatesOneRoleAtATime(t *testing.T) {
	cfg := long(t)
	require.NoError(t, config.Apply(&cfg, "steps=4", "optimizer.alternate=2", "optimizer.epochs=1", "optimizer.mini_batches=1"))
	o := train(t, cfg, newScripted(babble), pictures, nil)
	require.Len(t, o.engine.updates, 4)
	for n, batch := range o.engine.updates {
		role := [...]string{"Ask.", "Ask.", "Solve:", "Solve:"}[n]
		for _, s := range batch {
			require.True(t, strings.HasPrefix(s.Prompt.User, role), "step %d updates on %q", n, s.Prompt.User)
		}
	}
	for _, r := range o.records {
		switch d := r.Data.(type) {
		case *spec.Candidate:
			require.Equal(t, d.Final && r.Step < 2 && math.Abs(d.Advantage) > 1e-6, d.Retained)
		case *spec.Rollout:
			require.Equal(t, d.Final && r.Step >= 2 && math.Abs(d.Advantage) > 1e-6, d.Retained)
		case *spec.Step:
			require.Equal(t, r.Step < 2, d.Metrics[spec.MetricRetainedQ] > 0)
			require.Equal(t, r.Step >= 2, d.Metrics[spec.MetricRetainedS] > 0)
			require.EqualValues(t, len(o.engine.updates[r.Step]), d.Metrics[spec.MetricRetainedQ]+d.Metrics[spec.MetricRetainedS])
		}
	}
	require.Equal(t, whole(t, cfg), whole(t, cfg))
}

// Records of a role come in index order, whatever order the engine finishes in, and each is written again when final.
func TestRecordsAreOrdered(t *testing.T) {
	cfg := one(t)
	require.NoError(t, config.Apply(&cfg, "corpus.images_per_step=5", "steps=2"))
	o := train(t, cfg, newScripted(babble), album{"a", "b", "c", "d", "e", "f", "g"}, nil)
	require.Equal(t, spec.KindEnd, o.records[len(o.records)-1].Kind)
	at := map[spec.Kind]int{}
	final := map[spec.Kind]bool{}
	for _, r := range o.records {
		var index int
		var done bool
		switch d := r.Data.(type) {
		case *spec.Candidate:
			index, done = d.Slot*100+d.G, d.Final
		case *spec.Rollout:
			index, done = d.Slot*100+d.K, d.Final
		case *spec.Step:
			at, final = map[spec.Kind]int{}, map[spec.Kind]bool{}
			continue
		default:
			continue
		}
		if done != final[r.Kind] {
			require.True(t, done)
			at[r.Kind], final[r.Kind] = 0, true
		}
		require.GreaterOrEqual(t, index, at[r.Kind])
		at[r.Kind] = index
	}
}

func TestMiniBatchesSplitByImage(t *testing.T) {
	cfg := one(t)
	require.NoError(t, config.Apply(&cfg, "corpus.images_per_step=7", "optimizer.mini_batches=3", "optimizer.epochs=2"))
	o := train(t, cfg, newScripted(babble), album{"a", "b", "c", "d", "e", "f", "g"}, nil)
	require.Len(t, o.engine.updates, 6)
	for pass := range 2 {
		where := map[string]int{}
		n := 0
		for b, batch := range o.engine.updates[pass*3 : pass*3+3] {
			require.NotEmpty(t, batch)
			for _, s := range batch {
				n++
				if first, ok := where[s.Prompt.Image]; ok {
					require.Equal(t, first, b)
				}
				where[s.Prompt.Image] = b
			}
		}
		require.Equal(t, int(o.metrics[spec.MetricRetainedQ]+o.metrics[spec.MetricRetainedS]), n)
	}
}

func TestUnusableImagesAreSkippedAndCounted(t *testing.T) {
	cfg := one(t)
	require.NoError(t, config.Apply(&cfg, "corpus.images_per_step=4"))
	s := worked(answers("7", "8", "9", "6")...)
	o := train(t, cfg, newScripted(s.reply), album{"a", "missing", "corrupt", "d"}, nil)
	require.EqualValues(t, 2, o.metrics[metricSkipped])
	require.Len(t, o.candidates, 8)
	require.Equal(t, []int{0, 3}, []int{o.candidates[0].Slot, o.candidates[4].Slot})
	warnings := 0
	for _, r := range o.records {
		if l, ok := r.Data.(*spec.Log); ok && l.Level == "warn" {
			warnings++
		}
	}
	require.Equal(t, 2, warnings)

	o = train(t, cfg, newScripted(s.reply), album{"corrupt"}, nil)
	require.Empty(t, o.candidates)
	require.True(t, math.IsNaN(float64(o.metrics[spec.MetricRFact])))
	require.Empty(t, o.engine.updates)
}

// sage is an oracle: questions about unicorns are ungrounded, and the answer is 6.
type sage struct{}

func (sage) Judge(_, q, a string) spec.OracleVerdict {
	if strings.Contains(q, "unicorn") {
		return spec.OracleVerdict{Parsed: true}
	}
	return spec.OracleVerdict{Parsed: true, Grounded: true, Right: a == "6", Level: 1, Answer: "6"}
}

func (sage) GradeReasoning(_, _, r string) (float64, bool) { return .25, r == "because" }

func TestOracleMeasuresAndNeverRewards(t *testing.T) {
	s := worked(answers("7", "8", "9", "6")...)
	plain := play(t, s)
	o := train(t, one(t), newScripted(s.reply), album{"x"}, sage{})
	for i := range plain.candidates {
		require.Equal(t, plain.candidates[i].Reward, o.candidates[i].Reward)
	}
	for name, want := range map[string]float64{
		spec.MetricOracleFactFPR: 0, spec.MetricOracleFactFNR: 0, // of one ungrounded and two grounded
		spec.MetricOracleCorrFPR: .5, spec.MetricOracleCorrFNR: 0, // "red" is wrong and passed; the unicorn was clamped
		spec.MetricOracleSolverAccuracy: .25, spec.MetricOracleGrounded: 2.0 / 3, spec.MetricOracleReferenceRight: 1.0 / 3,
	} {
		require.InDelta(t, want, float64(o.metrics[name]), tolerance, name)
	}
	require.Nil(t, o.candidates[1].Oracle, "malformed")
	require.True(t, o.rollouts[3].Oracle.Right)
	require.Equal(t, .25, judged(o, spec.JudgeReasoning)[0].Oracle.Reason)
	require.Nil(t, plain.rollouts[0].Oracle)
}

// What is recorded suffices: rewards computed again from the recorded signals are the recorded ones, ablations included.
func TestRecordedSignalsGiveTheRecordedRewards(t *testing.T) {
	for _, set := range [][]string{nil, {"verifier.gate=false"}, {"dispute.enabled=false", "reward.alpha_q=0.5"}} {
		cfg := long(t)
		require.NoError(t, config.Apply(&cfg, set...))
		o := train(t, cfg, newScripted(babble), pictures, nil)
		step, done := 0, map[[2]int]*reward.Scored{}
		signals := map[[2]int]struct {
			candidates []reward.Candidate
			rollouts   []reward.Rollout
		}{}
		for _, r := range o.records {
			switch d := r.Data.(type) {
			case *spec.Candidate:
				if d.Final {
					e := signals[[2]int{r.Step, d.Slot}]
					e.candidates = append(e.candidates, reward.Candidate{FormatOK: d.FormatOK, FactQ: d.FactQ, CorrA: d.CorrA, Difficulty: d.Difficulty, Selected: d.Selected})
					signals[[2]int{r.Step, d.Slot}] = e
				}
			case *spec.Rollout:
				if d.Final {
					e := signals[[2]int{r.Step, d.Slot}]
					e.rollouts = append(e.rollouts, reward.Rollout{FormatOK: d.FormatOK, Correct: d.Correct, Reason: d.Reason, Evaluable: d.Evaluable})
					signals[[2]int{r.Step, d.Slot}] = e
				}
			case *spec.Step:
				step++
			}
		}
		require.Equal(t, cfg.Steps, step)
		for key, e := range signals {
			scored := reward.Coefficients(cfg.Reward).Score(e.candidates, e.rollouts)
			done[key] = &scored
		}
		for _, r := range o.records {
			switch d := r.Data.(type) {
			case *spec.Candidate:
				if d.Final {
					want := done[[2]int{r.Step, d.Slot}].Candidates[d.G]
					require.Equal(t, want, reward.CandidateReward{RFact: d.RFact, RDiffTilde: d.RDiffTilde, RChal: d.RChal, Reward: d.Reward})
				}
			case *spec.Rollout:
				if d.Final {
					require.Equal(t, done[[2]int{r.Step, d.Slot}].Rollouts[d.K], d.Reward)
				}
			}
		}
		require.NotEmpty(t, o.rollouts)
	}
}

func TestSinkFailureStopsTheRun(t *testing.T) {
	full := errors.New("disk full")
	for _, kind := range []spec.Kind{spec.KindCandidate, spec.KindJudgement, spec.KindRollout, spec.KindStep, spec.KindPhase} {
		sink := &memory{fail: func(k spec.Kind) error {
			if k == kind {
				return full
			}
			return nil
		}}
		s := worked(answers("7", "8", "9", "6")...)
		err := Run(context.Background(), Options{Config: one(t), Engine: newScripted(s.reply), Corpus: album{"x"}, Sink: sink, Dir: t.TempDir()})
		require.ErrorIs(t, err, full, kind)
		require.Equal(t, "failed", sink.records[len(sink.records)-1].Data.(*spec.End).Status)
	}
}

func TestEngineFailureIsRecorded(t *testing.T) {
	for _, method := range []string{"generate", "score", "update", "average", "save"} {
		e := newScripted(babble)
		e.before = func(m string) error {
			if m == method {
				return errors.New("device lost")
			}
			return nil
		}
		sink := &memory{}
		err := Run(context.Background(), Options{Config: one(t), Engine: e, Corpus: album{"x"}, Sink: sink, Dir: t.TempDir()})
		require.ErrorContains(t, err, "device lost", method)
		end := sink.records[len(sink.records)-1].Data.(*spec.End)
		require.Equal(t, "failed", end.Status)
		require.Contains(t, end.Reason, "device lost")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Config: one(t), Engine: newScripted(babble), Corpus: album{"x"}, Sink: &memory{}, Dir: t.TempDir()}
	for want, spoil := range map[string]func(*Options){
		"configuration":         func(o *Options) { o.Config.Steps = 0 },
		"no usable images":      func(o *Options) { o.Corpus = album{} },
		"must be given":         func(o *Options) { o.Engine = nil },
		"outside the run's":     func(o *Options) { o.StartStep = 9 },
		"prompts: is \"other\"": func(o *Options) { o.Config.Prompts = "other" },
	} {
		o := good
		spoil(&o)
		require.ErrorContains(t, Run(context.Background(), o), want)
	}
}

// long is a run of several steps whose weights, and so whose words, change with every update.
func long(t testing.TB) spec.Config {
	cfg := one(t)
	require.NoError(t, config.Apply(&cfg, "steps=7", "corpus.images_per_step=3", "optimizer.mini_batches=2", "optimizer.epochs=2", "checkpoint.every=3", "checkpoint.keep=2"))
	return cfg
}

var pictures = album{"a", "b", "c", "d", "e", "f", "g", "h"}

// whole runs without interruption and returns the digest.
func whole(t testing.TB, cfg spec.Config) string {
	dir := t.TempDir()
	w, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(spec.KindRun, 0, &spec.Run{ID: "a", Config: cfg}))
	require.NoError(t, Run(context.Background(), Options{Config: cfg, Engine: newScripted(babble), Corpus: pictures, Oracle: sage{}, Sink: w, Dir: dir}))
	require.NoError(t, w.Close())
	return digest(t, dir)
}

func digest(t testing.TB, dir string) string {
	d, err := journal.Digest(dir)
	require.NoError(t, err)
	return d
}

func TestEqualSeedsGiveEqualDigests(t *testing.T) {
	cfg := long(t)
	first := whole(t, cfg)
	require.Equal(t, first, whole(t, cfg))
	cfg.Seed++
	require.NotEqual(t, first, whole(t, cfg))
}

// resume continues a journal from its last checkpoint with a fresh engine, as trainer.Resume does.
func resume(ctx context.Context, t *testing.T, cfg spec.Config, dir string, before func(string) error) error {
	w, err := journal.Open(dir)
	require.NoError(t, err)
	defer w.Close()
	e := newScripted(babble)
	next := 0
	for r, err := range journal.ReadCommitted(dir) {
		require.NoError(t, err)
		if c, ok := r.Data.(*spec.Checkpoint); ok {
			if _, err := os.Stat(filepath.Join(dir, c.Path)); err == nil {
				next = c.Next
				require.NoError(t, e.Restore(context.Background(), filepath.Join(dir, c.Path)))
			}
		}
	}
	require.NoError(t, w.Append(spec.KindRewind, next, &spec.Rewind{ToStep: next}))
	e.before = before
	return Run(ctx, Options{Config: cfg, Engine: e, Corpus: pictures, Oracle: sage{}, Sink: w, Dir: dir, StartStep: next})
}

// However often and wherever a run is stopped, or its engine dies, the resumed run ends with the digest of a whole one.
func TestStoppedAndResumedRunsHaveTheDigestOfAWholeOne(t *testing.T) {
	cfg := long(t)
	want := whole(t, cfg)
	for trial := range 5 {
		rng := rand.New(rand.NewPCG(uint64(trial), 0))
		dir := t.TempDir()
		w, err := journal.Create(dir)
		require.NoError(t, err)
		require.NoError(t, w.Append(spec.KindRun, 0, &spec.Run{ID: "b", Config: cfg}))
		require.NoError(t, w.Close())
		stops := 0
		for {
			ctx, cancel := context.WithCancel(context.Background())
			left := 1 + rng.IntN(40)
			crash := rng.IntN(2) == 0
			err := resume(ctx, t, cfg, dir, func(string) error {
				left--
				switch {
				case left > 0:
					return nil
				case crash:
					return errors.New("crash")
				}
				cancel()
				return nil
			})
			cancel()
			if err == nil {
				break
			}
			stops++
			require.Less(t, stops, 200)
			if !crash {
				require.ErrorIs(t, err, ErrStopped)
			}
		}
		require.Equal(t, want, digest(t, dir), "trial %d after %d stops", trial, stops)
		left, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*"))
		require.NoError(t, err)
		require.LessOrEqual(t, len(left), cfg.Checkpoint.Keep)
		require.Contains(t, left, filepath.Join(dir, "checkpoints", "000007"))
	}
}

// Whenever the stop comes, weights are saved for the first step without a commit.
func TestStopLosesNoCommittedStep(t *testing.T) {
	for _, method := range []string{"load", "generate", "score", "update", "average"} {
		cfg := long(t)
		ctx, cancel := context.WithCancel(context.Background())
		e := newScripted(babble)
		committed := 0
		e.before = func(m string) error {
			if committed == 1 && m == method {
				cancel()
			}
			return nil
		}
		sink := &memory{}
		err := Run(ctx, Options{Config: cfg, Engine: e, Corpus: pictures, Sink: sink, Dir: t.TempDir(), OnStep: func(n int, _ spec.Step) { committed++ }})
		require.Equal(t, ErrStopped, err, method)
		n := len(sink.records)
		require.Equal(t, committed, sink.records[n-2].Data.(*spec.Checkpoint).Next, method)
	}
}

// A stop between steps, or before a step's update, saves the weights, so that no committed step is lost.
func TestStopSavesWhereItStands(t *testing.T) {
	cfg := long(t)
	ctx, cancel := context.WithCancel(context.Background())
	sink := &memory{}
	dir := t.TempDir()
	err := Run(ctx, Options{Config: cfg, Engine: newScripted(babble), Corpus: pictures, Sink: sink, Dir: dir, OnStep: func(n int, _ spec.Step) {
		if n == 1 {
			cancel()
		}
	}})
	require.Equal(t, ErrStopped, err)
	n := len(sink.records)
	require.Equal(t, &spec.Checkpoint{Path: "checkpoints/000002", Next: 2}, sink.records[n-2].Data)
	require.Equal(t, "stopped", sink.records[n-1].Data.(*spec.End).Status)
	require.DirExists(t, filepath.Join(dir, "checkpoints", "000002"))
}

func TestControl(t *testing.T) {
	cfg := long(t)
	var c Control
	c.Pause()
	require.True(t, c.Paused())
	sink := &memory{}
	done := make(chan error)
	go func() {
		done <- Run(context.Background(), Options{Config: cfg, Engine: newScripted(babble), Corpus: pictures, Sink: sink, Dir: t.TempDir(), Control: &c,
			OnStep: func(n int, _ spec.Step) {
				switch n {
				case 0:
					c.Checkpoint()
				case 1:
					c.Finish()
				}
			}})
	}()
	select {
	case <-done:
		t.Fatal("a paused run does not go on")
	default:
	}
	c.Resume()
	require.ErrorIs(t, <-done, ErrStopped)
	var saved []int
	for _, r := range sink.records {
		if d, ok := r.Data.(*spec.Checkpoint); ok {
			saved = append(saved, d.Next)
		}
	}
	require.Equal(t, []int{1, 2}, saved)

	var paused Control
	paused.Pause()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.False(t, paused.wait(ctx))
}
