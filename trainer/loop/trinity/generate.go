package trinity

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// progressEvery spaces the progress records of a phase.
const progressEvery = 400 * time.Millisecond

// said is a finished completion and the seconds from the start of its batch.
type said struct {
	engine.Completion
	latency float64
}

// generate samples all requests and gives each completion to handle in the order of requests and samples, as early as
// that order allows, so that a reader sees them arrive and equal runs write equal journals.
func (s *step) generate(ctx context.Context, phase string, slot engine.Slot, requests []engine.Request, handle func(request, sample int, c said) error) error {
	if len(requests) == 0 {
		return ctx.Err()
	}
	total := 0
	first := make([]int, len(requests))
	for i, r := range requests {
		first[i] = total
		total += r.N
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	clock := s.progress(phase, total)
	o := orderly{waiting: make([]*said, total), handle: func(c said) error {
		s.tokens[phase] += c.Length()
		return handle(c.Request, c.Sample, c)
	}}
	if err := clock(0); err != nil {
		return err
	}
	err := s.Engine.Generate(ctx, slot, requests, func(c engine.Completion) {
		if c.Request < 0 || c.Request >= len(requests) || c.Sample < 0 || c.Sample >= requests[c.Request].N {
			cancel(fmt.Errorf("engine: completion %d of request %d was not asked for", c.Sample, c.Request))
			return
		}
		done, err := o.put(first[c.Request]+c.Sample, said{c, time.Since(start).Seconds()})
		if err == nil {
			err = clock(done)
		}
		if err != nil {
			cancel(err)
		}
	})
	s.seconds[phase] += time.Since(start).Seconds()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("%s: %w", phase, err)
	}
	if done, _ := o.count(); done != total {
		return fmt.Errorf("%s: the engine returned %d of %d completions", phase, done, total)
	}
	return nil
}

// orderly passes completions on by index.
type orderly struct {
	mu      sync.Mutex
	waiting []*said
	next    int
	arrived int
	handle  func(said) error
	err     error
}

// put takes completion i and returns how many have arrived.
func (o *orderly) put(i int, c said) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting[i] != nil || i < o.next {
		return o.arrived, fmt.Errorf("engine: completion %d of request %d came twice", c.Sample, c.Request)
	}
	o.waiting[i] = &c
	o.arrived++
	for o.err == nil && o.next < len(o.waiting) && o.waiting[o.next] != nil {
		o.err = o.handle(*o.waiting[o.next])
		o.next++
	}
	return o.arrived, o.err
}

func (o *orderly) count() (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next, o.err
}

// progress returns a function that records how much of a phase is done, at most every progressEvery.
func (s *step) progress(phase string, total int) func(done int) error {
	var mu sync.Mutex
	var last time.Time
	return func(done int) error {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); done == total || now.Sub(last) >= progressEvery {
			last = now
			return s.append(spec.KindPhase, &spec.Phase{Name: phase, Done: done, Total: total})
		}
		return nil
	}
}
