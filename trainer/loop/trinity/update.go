package trinity

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/optim"
)

// update is one optimiser update's statistics and size.
type update struct {
	engine.UpdateStats
	samples int
}

// update makes Epochs passes over the retained rollouts of both roles, in mini-batches of whole images, at the step's
// learning rate. Old log-probs come from the training forward pass over the full vocabulary: the sampler's may differ from
// it by more than the clip range (reference a).
func (s *step) update(ctx context.Context) error {
	s.learningRate = optim.Rate(s.Config.Optimizer, s.n, s.Config.Steps)
	start := time.Now()
	groups, err := s.samples(ctx)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return s.measure(ctx)
	}
	done, total := 0, s.Config.Optimizer.Epochs*min(s.Config.Optimizer.MiniBatches, len(groups))
	progress := s.progress("update", total)
	objective := engine.Objective{Kind: engine.GSPO, GSPO: s.Config.GSPO}
	for epoch := range s.Config.Optimizer.Epochs {
		for _, batch := range s.batches(epoch, groups) {
			if err := progress(done); err != nil {
				return err
			}
			s.dirty = true
			stats, err := s.Engine.Update(ctx, batch, objective, s.learningRate)
			if err != nil {
				return fmt.Errorf("update: %w", err)
			}
			s.updates = append(s.updates, update{stats, len(batch)})
			done++
		}
	}
	s.seconds["update"] += time.Since(start).Seconds()
	return progress(done)
}

// samples scores the retained rollouts under the current policy and groups them by image.
func (s *step) samples(ctx context.Context) ([][]engine.Sample, error) {
	var retained []sampled
	var advantages []float64
	var owner []int
	add := func(slot int, c sampled, advantage float64) {
		retained = append(retained, c)
		advantages = append(advantages, advantage)
		owner = append(owner, slot)
	}
	for _, e := range s.episodes {
		for _, c := range e.candidates {
			if c.Retained {
				add(e.Slot, c.sampled, c.Advantage)
			}
		}
		for _, r := range e.rollouts {
			if r.Retained {
				add(e.Slot, r.sampled, r.Advantage)
			}
		}
	}
	old, err := s.score(ctx, retained)
	if err != nil {
		return nil, err
	}
	var groups [][]engine.Sample
	for i, c := range retained {
		if i == 0 || owner[i] != owner[i-1] {
			groups = append(groups, nil)
		}
		last := &groups[len(groups)-1]
		*last = append(*last, engine.Sample{Sequence: c.sequence(), OldLogProbs: old[i], Advantage: advantages[i]})
	}
	return groups, nil
}

// measure scores the first image's candidates, so that a step that retained nothing records its mismatch too.
func (s *step) measure(ctx context.Context) error {
	if len(s.episodes) == 0 {
		return ctx.Err()
	}
	var candidates []sampled
	for _, c := range s.episodes[0].candidates {
		candidates = append(candidates, c.sampled)
	}
	_, err := s.score(ctx, candidates)
	return err
}

// score returns the log-probs of completions under the training forward pass and notes how far the sampler's lie from them.
func (s *step) score(ctx context.Context, completions []sampled) ([][]float32, error) {
	if len(completions) == 0 {
		return nil, ctx.Err()
	}
	sequences := make([]engine.Sequence, len(completions))
	for i, c := range completions {
		sequences[i] = c.sequence()
	}
	scores, err := s.Engine.Score(ctx, engine.Policy, sequences)
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	for i, c := range completions {
		for t, lp := range scores[i] {
			s.mismatch = append(s.mismatch, math.Abs(float64(c.logProbs[t])-float64(lp)))
		}
	}
	return scores, nil
}

func (c sampled) sequence() engine.Sequence {
	return engine.Sequence{Prompt: c.prompt, Tokens: c.tokens}
}

// batches deals the images of a pass out to the mini-batches, in the order of the pass's own stream. There are fewer
// mini-batches where there are fewer images.
func (s *step) batches(epoch int, groups [][]engine.Sample) [][]engine.Sample {
	order := s.stream(s.n, "mini-batches", epoch).Perm(len(groups))
	n := min(s.Config.Optimizer.MiniBatches, len(groups))
	batches := make([][]engine.Sample, n)
	for b := range n {
		images := order[b*len(groups)/n : (b+1)*len(groups)/n]
		slices.Sort(images) // the order inside a batch only matters to rounding; keep the image order
		for _, i := range images {
			batches[b] = append(batches[b], groups[i]...)
		}
	}
	return batches
}

// average refreshes the Verifier: phi <- alpha phi + (1 - alpha) theta, on merged weights.
func (s *step) average(ctx context.Context) error {
	if s.Config.Verifier.Update != "ema" {
		return nil
	}
	start := time.Now()
	s.dirty = true
	drift, err := s.Engine.Average(ctx, engine.Verifier, engine.Policy, s.Config.Verifier.EMADecay)
	if err != nil {
		return fmt.Errorf("average: %w", err)
	}
	s.drift = drift
	s.seconds["ema"] += time.Since(start).Seconds()
	return nil
}
