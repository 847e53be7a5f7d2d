package trinity

import (
	"context"

	"github.com/trinity-lab/trinity/trainer/answer"
	"github.com/trinity-lab/trinity/trainer/reward"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// resolve puts every strong consensus against its reference to the Verifier. Where the consensus wins it becomes the
// reference, all correctness is scored again and the Questioner's corr_a is revoked.
func (s *step) resolve(ctx context.Context) error {
	if !s.Config.Dispute.Enabled {
		return nil
	}
	var disputed []*episode
	var calls []*call
	for _, e := range s.withQuestion() {
		d := s.consensus(e)
		if d == nil {
			continue
		}
		e.dispute = d
		support := e.rollouts[d.Support]
		disputed = append(disputed, e)
		calls = append(calls, &call{episode: e, target: d.Support, oracle: support.Oracle,
			values: values{Question: e.selected.Question, Reference: d.Reference, Majority: d.Majority, Reasoning: support.Think}})
	}
	if err := s.judge(ctx, spec.JudgeDispute, "dispute", calls, reward.DisputeAttempts(s.Config.Dispute.Retries)-1); err != nil {
		return err
	}
	var overturned []*episode
	for i, e := range disputed {
		settle(e, calls[i])
		if e.dispute.Overturned {
			overturned = append(overturned, e)
		}
		if err := s.append(spec.KindDispute, e.dispute); err != nil {
			return err
		}
	}
	return s.correctness(ctx, overturned)
}

// consensus returns the dispute that an episode's answers raise, or nil. The first member of the majority speaks for it.
func (s *step) consensus(e *episode) *spec.Dispute {
	votes := make([]reward.Vote, len(e.rollouts))
	for i, r := range e.rollouts {
		votes[i] = reward.Vote{Formatted: r.FormatOK, Key: answer.Key(r.Answer), Correct: r.Correct}
	}
	rule := reward.DisputeRule{Threshold: s.Config.Dispute.Threshold, MinimumN: s.Config.Dispute.MinimumN}
	c, ok := rule.Trigger(votes, answer.Key(e.reference))
	if !ok {
		return nil
	}
	first := c.Members[0]
	return &spec.Dispute{EpisodeKey: e.EpisodeKey, Reference: e.reference, Majority: e.rollouts[first].Answer,
		Count: len(c.Members), Formatted: c.Formatted, Support: first}
}

// settle ends a dispute by the verdict of its call; without a parsable one the majority is adopted (A.3).
func settle(e *episode, c *call) {
	said := reward.Unparsed
	if c.verdict != nil {
		said = reward.SidesWithReference
		if c.verdict.number("majority") == 1 {
			said = reward.SidesWithMajority
		}
		e.dispute.Justification = c.verdict.justification
	}
	r := reward.Settle(said, e.dispute.Reference, e.dispute.Majority)
	e.dispute.Attempts, e.dispute.Outcome, e.dispute.Overturned = c.attempts, r.Outcome, r.Overturned
	e.reference = r.Reference
	if r.Overturned {
		e.selected.CorrA = 0
	}
}
