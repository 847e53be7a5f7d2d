package trinity

import (
	"context"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// commit writes every candidate and rollout again, with its rewards, and closes the step. From here on the step counts.
func (s *step) commit(context.Context) error {
	for _, e := range s.episodes {
		for _, c := range e.candidates {
			c.Final = true
			if err := s.append(spec.KindCandidate, c.record()); err != nil {
				return err
			}
		}
		for _, r := range e.rollouts {
			r.Final = true
			if err := s.append(spec.KindRollout, r.record()); err != nil {
				return err
			}
		}
	}
	done := spec.Step{Metrics: s.metrics(), Tokens: s.tokens}
	if err := s.append(spec.KindStep, &done); err != nil {
		return err
	}
	s.dirty = false
	if s.OnStep != nil {
		s.OnStep(s.n, done)
	}
	return nil
}
