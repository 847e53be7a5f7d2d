package trinity

import (
	"context"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// step is one outer step.
type step struct {
	*runner
	n        int
	episodes []*episode // one an image that could be read, in slot order

	updates         []update           // one an optimiser update
	mismatch        []float64          // |sampler - trainer| of every scored token, nats
	calls, unparsed int                // Verifier calls, and those without a parsable verdict
	skipped         int                // images that could not be used
	tokens          map[string]int     // generated, by phase
	seconds         map[string]float64 // wall clock, by phase
	learningRate    float64
	drift           float64 // of the Verifier, once averaged
}

// episode is one image's part of a step.
type episode struct {
	spec.EpisodeKey
	image      Image
	candidates []*candidate // G
	selected   *candidate   // (q*, a*); nil if no candidate passed
	reference  string       // a*, after any override
	rollouts   []*rollout   // K; none without a selected candidate
	dispute    *spec.Dispute
}

// candidate is one Questioner completion.
type candidate struct {
	spec.Candidate
	sampled
	verdict bool    // a parsable screening verdict was obtained
	fact    float64 // as screened, before the gate's ablation or an override
	correct float64
}

// rollout is one Solver completion.
type rollout struct {
	spec.Rollout
	sampled
	compared int // equivalence calls made about it
}

// sampled is what an update needs of a completion.
type sampled struct {
	prompt   engine.Prompt
	tokens   []int32
	logProbs []float32 // the sampler's
}

// run is the algorithm: Figure 1 of the paper, then A.3. Nothing of it counts until commit has returned. A stop takes
// effect until the update; from there on the step is finished, since half an update would cost all steps since the last
// checkpoint.
func (s *step) run(ctx context.Context) error {
	for _, phase := range []func(context.Context) error{
		s.draw,    // x ~ corpus
		s.ask,     // (q, a)_1..G ~ pi_theta(. | x), then the format gate
		s.screen,  // R_fact-q, R_corr-a, R_diff from pi_phi
		s.choose,  // (q*, a*): the hardest that passed
		s.solve,   // (tau, a^)_1..K ~ pi_theta(. | x, q*)
		s.compare, // R_correct: rule, guard, pi_phi
		s.resolve, // a strong consensus against a*: pi_phi decides; R_correct again
		s.reason,  // R_reason from pi_phi
		s.reward,  // Eq. 1, Eq. 2, advantages, retention
	} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	for _, phase := range []func(context.Context) error{
		s.update,  // Eq. 3 over both roles' retained rollouts
		s.average, // phi <- alpha phi + (1 - alpha) theta
		s.commit,
	} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// draw loads the step's images. One that cannot be used leaves its slot empty.
func (s *step) draw(ctx context.Context) error {
	picks := s.Corpus.Draw(s.Config.Seed, s.n, s.Config.Corpus.ImagesPerStep)
	var found []*episode
	var keys []string
	for slot, i := range picks {
		image, err := s.Corpus.At(i)
		if err != nil {
			if err := s.skip(slot, i, err); err != nil {
				return err
			}
			continue
		}
		found = append(found, &episode{EpisodeKey: spec.EpisodeKey{Slot: slot, Image: image.SHA256}, image: image})
		keys = append(keys, image.SHA256)
	}
	s.Engine.DropImages(keys...)
	for _, e := range found {
		err := s.Engine.LoadImage(ctx, e.Image, e.image.Bytes)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if err := s.skip(e.Slot, picks[e.Slot], err); err != nil {
				return err
			}
			continue
		}
		e.image.Bytes = nil
		s.episodes = append(s.episodes, e)
	}
	return nil
}

func (s *step) skip(slot, image int, reason error) error {
	s.skipped++
	return s.log("warn", "image %d of the corpus, slot %d, is skipped: %v", image, slot, reason)
}

// prompt renders a role's template for an episode.
func prompt(t template, e *episode, v values) engine.Prompt {
	system, user := t.Render(v)
	p := engine.Prompt{System: system, User: user}
	if t.Image {
		p.Image = e.Image
	}
	return p
}

// key places the randomness of a call.
func (s *step) key(role string, e *episode, index, attempt int) engine.Key {
	return engine.Key{Seed: s.Config.Seed, Step: s.n, Role: role, Slot: e.Slot, Index: index, Attempt: attempt}
}

// completion is the common part of a record.
func completion(c said, problem error) spec.Completion {
	out := spec.Completion{Text: c.Text, Tokens: c.Length(), Truncated: c.Truncated, FormatOK: problem == nil}
	if problem != nil {
		out.FormatError = problem.Error()
	}
	return out
}
