package trinity

import (
	"context"

	"github.com/trinity-lab/trinity/trainer/answer"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/parse"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// solve samples K completions of each selected question and checks their format.
func (s *step) solve(ctx context.Context) error {
	episodes := s.withQuestion()
	requests := make([]engine.Request, len(episodes))
	for i, e := range episodes {
		requests[i] = engine.Request{
			Prompt: think(prompt(s.prompts.Solver, e, values{Question: e.selected.Question}), s.Config.Solver.Thinking),
			N:      s.Config.Solver.Samples, Sampling: s.Config.Solver.Sampling, Key: s.key("solver", e, e.selected.G, 0),
		}
	}
	return s.generate(ctx, "solver", engine.Policy, requests, func(i, k int, c said) error {
		e := episodes[i]
		r := &rollout{sampled: sampled{requests[i].Prompt, c.Tokens, c.LogProbs}}
		solution, problem := parse.Solver(c.Text, format(s.Config.Solver.Thinking, c))
		r.EpisodeKey, r.K, r.Think, r.Answer, r.Tier = e.EpisodeKey, k, solution.Think, solution.Answer, tierNone
		r.Completion = completion(c, problem)
		r.Evaluable = r.FormatOK
		if s.Oracle != nil && r.FormatOK {
			v := s.Oracle.Judge(e.Image, e.selected.Question, r.Answer)
			r.Oracle = &v
		}
		e.rollouts = append(e.rollouts, r)
		return s.append(spec.KindRollout, r.record())
	})
}

// withQuestion lists the episodes with a selected question.
func (s *step) withQuestion() []*episode {
	return where(s.episodes, func(e *episode) bool { return e.selected != nil })
}

// What decided a rollout's correctness where the rules did not.
const (
	tierNone     = string(answer.TierNone) // malformed, or the Verifier gave no parsable verdict: 0
	tierVerifier = "verifier"
)

// compare scores every formatted answer against its reference.
func (s *step) compare(ctx context.Context) error { return s.correctness(ctx, s.withQuestion()) }

// correctness runs the three tiers (section 2): a rule-based match, a guard that rejects clean numbers that differ, and
// the Verifier's text-only equivalence for what is left.
func (s *step) correctness(ctx context.Context, episodes []*episode) error {
	var calls []*call
	var about []*rollout
	for _, e := range episodes {
		for _, r := range e.rollouts {
			r.Correct, r.Tier = 0, tierNone
			if !r.FormatOK {
				continue
			}
			switch rules := answer.Match(e.reference, r.Answer); rules.Verdict {
			case answer.VerdictMatch:
				r.Correct, r.Tier = 1, string(rules.Tier)
				continue
			case answer.VerdictMismatch:
				r.Tier = string(rules.Tier)
				continue
			}
			calls = append(calls, &call{episode: e, target: r.K, first: r.compared, oracle: r.Oracle,
				values: values{Question: e.selected.Question, Reference: e.reference, Prediction: r.Answer}})
			about = append(about, r)
		}
	}
	if err := s.judge(ctx, spec.JudgeEquivalence, "equivalence", calls, s.Config.Verifier.Retries); err != nil {
		return err
	}
	for i, r := range about {
		r.compared += calls[i].attempts
		if v := calls[i].verdict; v != nil {
			r.Correct, r.Tier = v.number("match"), tierVerifier
		}
	}
	return nil
}

// reason has the Verifier grade the thinking of every formatted completion against the image (F.4).
func (s *step) reason(ctx context.Context) error {
	var calls []*call
	var about []*rollout
	for _, e := range s.withQuestion() {
		for _, r := range e.rollouts {
			if !r.FormatOK {
				continue
			}
			c := &call{episode: e, target: r.K, values: values{Question: e.selected.Question, Reasoning: r.Think}}
			c.oracle = s.reasoningTruth(e, r)
			calls = append(calls, c)
			about = append(about, r)
		}
	}
	if err := s.judge(ctx, spec.JudgeReasoning, "reasoning", calls, s.Config.Verifier.Retries); err != nil {
		return err
	}
	for i, r := range about {
		if v := calls[i].verdict; v != nil {
			r.Reason = v.number("reasoning_score")
		}
	}
	return nil
}

// reasoningTruth is the oracle's verdict on a rollout with the true reasoning score, or nil where that is unknown.
func (s *step) reasoningTruth(e *episode, r *rollout) *spec.OracleVerdict {
	if s.Oracle == nil || r.Oracle == nil {
		return nil
	}
	score, ok := s.Oracle.GradeReasoning(e.Image, e.selected.Question, r.Think)
	if !ok {
		return nil
	}
	v := *r.Oracle
	v.Reason = score
	return &v
}
