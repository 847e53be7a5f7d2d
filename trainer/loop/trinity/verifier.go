package trinity

import (
	"context"
	"errors"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// call is one question to the Verifier.
type call struct {
	episode *episode
	target  int // g, or k
	first   int // number of the first attempt; above 0 where the same question was put before
	values  values
	oracle  *spec.OracleVerdict

	verdict  *verdict // nil until parsed
	attempts int
}

// judge puts the calls to the Verifier, and again those whose verdict cannot be parsed, up to retries more times.
func (s *step) judge(ctx context.Context, judge spec.Judge, phase string, calls []*call, retries int) error {
	open := calls
	for attempt := 0; attempt <= retries && len(open) > 0; attempt++ {
		if err := s.judgeOnce(ctx, judge, phase, open); err != nil {
			return err
		}
		var still []*call
		for _, c := range open {
			if c.verdict == nil {
				still = append(still, c)
			}
		}
		open = still
	}
	return nil
}

func (s *step) judgeOnce(ctx context.Context, judge spec.Judge, phase string, calls []*call) error {
	t := s.prompts.Judge(judge)
	hash := t.Hash()
	sampling := s.Config.Verifier.Judging
	if judge == spec.JudgeScreening || judge == spec.JudgeDispute {
		sampling = s.Config.Verifier.Thinking
	}
	requests := make([]engine.Request, len(calls))
	for i, c := range calls {
		requests[i] = engine.Request{Prompt: prompt(t, c.episode, c.values), N: 1, Sampling: sampling,
			Key: s.key(string(judge), c.episode, c.target, c.first+c.attempts)}
	}
	return s.generate(ctx, phase, engine.Verifier, requests, func(i, _ int, reply said) error {
		c := calls[i]
		v, problem := parseVerdict(judge, reply.Text)
		if reply.Refused != "" {
			problem = errors.New(reply.Refused)
		}
		s.calls++
		if problem != nil {
			s.unparsed++
		}
		j := &spec.Judgement{EpisodeKey: c.episode.EpisodeKey, Judge: judge, Target: c.target, Attempt: c.first + c.attempts, PromptHash: hash,
			Verifier: s.verifierVersion(), Completion: completion(reply, problem), Latency: reply.latency, Oracle: c.oracle}
		c.attempts++
		if problem == nil {
			c.verdict = v
			j.Fields, j.Justification = v.fields, v.justification
		}
		return s.append(spec.KindJudgement, j)
	})
}

// verifierVersion says which weights judge in this step.
func (s *step) verifierVersion() spec.VerifierVersion {
	v := spec.VerifierVersion{Update: s.Config.Verifier.Update}
	switch v.Update {
	case "endpoint":
		v.Model = s.Config.Verifier.Endpoint.Model
	case "ema":
		v.EMAStep, v.Decay = s.n, s.Config.Verifier.EMADecay
	}
	return v
}
