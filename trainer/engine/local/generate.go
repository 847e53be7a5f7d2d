package local

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/sample"
)

// Generate implements engine.Engine. Requests whose prompts agree up to the image are prefilled together.
func (e *Engine) Generate(ctx context.Context, slot engine.Slot, requests []engine.Request, emit func(engine.Completion)) error {
	w, err := e.weights(slot)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	shared := map[string]*sample.Shared{}
	var order []*sample.Shared
	var keys []string
	images := map[*sample.Shared]string{}
	for i, r := range requests {
		n, err := e.imageTokens(r.Prompt.Image)
		if err != nil {
			return err
		}
		prefix, rest := e.template.render(r.Prompt, n)
		id := prefixID(r.Prompt, i)
		s := shared[id]
		if s == nil {
			s = &sample.Shared{Prefix: prefix}
			shared[id] = s
			order = append(order, s)
			if r.Prompt.Image != "" {
				keys = append(keys, r.Prompt.Image)
				images[s] = r.Prompt.Image
			}
		}
		s.Prompts = append(s.Prompts, sample.Prompt{Tokens: rest, N: r.N, Sampling: r.Sampling, Uniform: uniform(r.Key), Done: func(out sample.Sample) {
			c := engine.Completion{Request: i, Sample: out.Index, Tokens: out.Tokens, LogProbs: out.LogProbs, Truncated: out.Truncated,
				Text: e.tokens.DecodeSkipSpecial(out.Tokens)}
			mu.Lock()
			defer mu.Unlock()
			emit(c)
		}})
	}
	features, err := e.encode(ctx, slot, w, keys)
	if err != nil {
		return err
	}
	for s, key := range images {
		s.Images = []qwenvl.Features{features[key]}
	}
	parts := divide(order, len(e.workers))
	stats := make([]sample.Stats, len(parts))
	err = e.parallel(len(parts), func(wk *worker, i int) (err error) {
		stats[i], err = wk.sampler.Run(ctx, w, parts[i])
		return err
	})
	for _, s := range stats {
		e.work.Sampling.Add(s)
	}
	return err
}

// Work counts what an engine has done since it was opened.
type Work struct {
	Sampling    sample.Stats
	TrainedRows int // of the largest batch of an update
}

// Work returns the counts.
func (e *Engine) Work() Work { return e.work }

// prefixID names what prompts must agree on to share a prefix. Text-only prompts, whose whole prompt is their own, never do.
func prefixID(p engine.Prompt, request int) string {
	if p.Image == "" {
		return fmt.Sprintf("text %d", request)
	}
	return p.Image + "\x00" + p.System
}

// divide deals the sets out to n parts, the largest first to the emptiest part.
func divide(sets []*sample.Shared, n int) [][]sample.Shared {
	parts := make([][]sample.Shared, n)
	load := make([]int, n)
	for _, s := range sets {
		least := 0
		for i := range load {
			if load[i] < load[least] {
				least = i
			}
		}
		parts[least] = append(parts[least], *s)
		for _, p := range s.Prompts {
			load[least] += p.N
		}
	}
	return parts
}

// uniform is the stream of random numbers that key places.
func uniform(key engine.Key) func(sampleIndex, token int) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", key.Seed, key.Role, key.Attempt)
	k := h.Sum64()
	return func(sampleIndex, token int) float64 {
		return sample.Uniform(k, [4]uint32{uint32(token), uint32(sampleIndex), uint32(key.Slot)<<16 | uint32(key.Index), uint32(key.Step)})
	}
}
