package servertest

import (
	"fmt"
	"math"
	"testing"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Config is the wind tunnel's preset with the given number of steps.
func Config(tb testing.TB, steps int) spec.Config {
	tb.Helper()
	c, err := config.Load("windtunnel")
	if err != nil {
		tb.Fatal(err)
	}
	c.Steps = steps
	return c
}

// Run is a queued run that a store takes.
func Run(tb testing.TB, steps int) experiment.Run {
	tb.Helper()
	c := Config(tb, steps)
	id := experiment.NewRunID()
	return experiment.Run{ID: id, Name: c.Name, Status: experiment.Queued, Config: c, ConfigHash: experiment.ConfigHash(c), Steps: steps,
		Created: testTime, Directory: "/nowhere/" + id}
}

// Image is the hash that WriteSteps names for a slot.
func Image(slot int) string { return fmt.Sprintf("%064x", 0xabc0+slot) }

// Hostile is text that breaks careless storage and pages.
const Hostile = "</script><img src=x onerror=alert(1)>\x00 \\u0000 \\\\u0000 \"é雪\u2028"

// WriteSteps writes what a trainer would: steps from first to last-1, each with slots episodes of two candidates, two
// rollouts, their judgements and a dispute in slot 1; then the commit with a NaN among its metrics.
func WriteSteps(tb testing.TB, sink spec.Sink, first, last, slots int) {
	tb.Helper()
	put := func(kind spec.Kind, step int, data any) {
		if err := sink.Append(kind, step, data); err != nil {
			tb.Fatal(err)
		}
	}
	for step := first; step < last; step++ {
		put(spec.KindPhase, step, &spec.Phase{Name: "questioner", Done: 1, Total: slots})
		for slot := range slots {
			writeEpisode(put, step, slot)
		}
		put(spec.KindStep, step, &spec.Step{Metrics: map[string]spec.Float{
			spec.MetricRFact: spec.Float(float64(step) / 100), spec.MetricLoss: spec.Float(math.NaN()),
			spec.MetricKL: spec.Float(math.Inf(1)), spec.MetricRQ: 0.1 + 0.2,
		}, Tokens: map[string]int{"questioner": 7}})
	}
}

func writeEpisode(put func(spec.Kind, int, any), step, slot int) {
	key := spec.EpisodeKey{Slot: slot, Image: Image(slot)}
	said := spec.Completion{Text: Hostile, Tokens: 9, FormatOK: true}
	for g := range 2 {
		c := spec.Candidate{EpisodeKey: key, G: g, Completion: said, Question: fmt.Sprintf("How many bars in step %d?", step), Answer: "3"}
		put(spec.KindCandidate, step, &c)
		put(spec.KindJudgement, step, &spec.Judgement{EpisodeKey: key, Judge: spec.JudgeScreening, Target: g, Completion: said,
			Fields: map[string]spec.Float{"fact_q": 1, "corr_a": spec.Float(math.NaN())}, Justification: "three bars are drawn"})
		c.Screened, c.FactQ, c.CorrA, c.Difficulty, c.Selected, c.Final = true, 1, 1, 0.4, g == 0, true
		c.RFact, c.Reward, c.Advantage = 1, 0.1+0.2, 1.0/3
		put(spec.KindCandidate, step, &c)
	}
	for k := range 2 {
		r := spec.Rollout{EpisodeKey: key, K: k, Completion: said, Think: "count them", Answer: "3", Evaluable: true}
		put(spec.KindRollout, step, &r)
		r.Correct, r.Final, r.Reward = float64(k), true, 0.85
		put(spec.KindRollout, step, &r)
	}
	if slot == 1 {
		put(spec.KindDispute, step, &spec.Dispute{EpisodeKey: key, Reference: "3", Majority: "4", Outcome: "majority", Overturned: true})
	}
}
