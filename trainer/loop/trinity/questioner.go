package trinity

import (
	"context"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/parse"
	"github.com/trinity-lab/trinity/trainer/reward"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// ask has the Questioner propose G candidates an image and checks their format.
func (s *step) ask(ctx context.Context) error {
	requests := make([]engine.Request, len(s.episodes))
	for i, e := range s.episodes {
		requests[i] = engine.Request{
			Prompt: think(prompt(s.prompts.Questioner, e, values{}), s.Config.Questioner.Thinking),
			N:      s.Config.Questioner.Samples, Sampling: s.Config.Questioner.Sampling, Key: s.key("questioner", e, 0, 0),
		}
	}
	return s.generate(ctx, "questioner", engine.Policy, requests, func(i, g int, c said) error {
		e := s.episodes[i]
		q := &candidate{sampled: sampled{requests[i].Prompt, c.Tokens, c.LogProbs}}
		qa, problem := parse.Questioner(c.Text, format(s.Config.Questioner.Thinking, c))
		q.EpisodeKey, q.G, q.Question, q.Answer = e.EpisodeKey, g, qa.Question, qa.Answer
		q.Completion = completion(c, problem)
		if s.Oracle != nil && q.FormatOK {
			v := s.Oracle.Judge(e.Image, q.Question, q.Answer)
			q.Oracle = &v
		}
		e.candidates = append(e.candidates, q)
		return s.append(spec.KindCandidate, q.record())
	})
}

// record copies the candidate, so that a written record never changes.
func (c *candidate) record() *spec.Candidate {
	r := c.Candidate
	return &r
}

func (r *rollout) record() *spec.Rollout {
	c := r.Rollout
	return &c
}

// screen has the Verifier judge each format-valid candidate (F.3). Without a verdict a candidate earns nothing. With the
// gate off the verdicts are recorded and rate the difficulty, but every candidate counts as grounded and right.
func (s *step) screen(ctx context.Context) error {
	var calls []*call
	var about []*candidate
	for _, e := range s.episodes {
		for _, c := range e.candidates {
			if c.FormatOK {
				calls = append(calls, &call{episode: e, target: c.G, values: values{Question: c.Question, Answer: c.Answer}, oracle: c.Oracle})
				about = append(about, c)
			}
		}
	}
	if err := s.judge(ctx, spec.JudgeScreening, "screening", calls, s.Config.Verifier.Retries); err != nil {
		return err
	}
	for i, c := range about {
		if v := calls[i].verdict; v != nil {
			c.verdict, c.Screened = true, true
			c.fact, c.correct = reward.Clamp(v.number("fact_q"), v.number("corr_a"))
			c.FactQ, c.CorrA, c.Difficulty = c.fact, c.correct, v.number("difficulty")
		}
		if !s.Config.Verifier.Gate {
			c.FactQ, c.CorrA = 1, 1
			c.Difficulty = max(c.Difficulty, lowestDifficulty)
		}
	}
	return nil
}

// lowestDifficulty stands for an unparsable rating where the gate is off.
const lowestDifficulty = 0.1

// choose selects the hardest candidate of each image that passed the gate; ties are broken by the image's own stream.
func (s *step) choose(context.Context) error {
	for _, e := range s.episodes {
		if g := reward.Select(candidateSignals(e.candidates), s.stream(s.n, "select", e.Slot).IntN); g >= 0 {
			e.selected = e.candidates[g]
			e.selected.Selected = true
			e.reference = e.selected.Answer
		}
	}
	return nil
}

// think puts the opening tag into the assistant's turn where the chat template has a thinking prefix (A.2).
func think(p engine.Prompt, mode string) engine.Prompt {
	if mode == "prefix" {
		p.Prefix = "<think>\n"
	}
	return p
}

// format says how a role's completion was asked for.
func format(mode string, c said) parse.Options {
	return parse.Options{ThinkOpenInPrompt: mode == "prefix", RequireThink: mode == "required" || mode == "prefix", Truncated: c.Truncated}
}
