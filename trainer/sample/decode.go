package sample

import (
	"context"

	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/nn"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Shared is a set of prompts that agree up to Prefix, which is computed once for all of them.
type Shared struct {
	Prefix  []int32
	Images  []qwenvl.Features
	Prompts []Prompt
}

// Prompt continues a shared prefix with its own tokens (at least one) and asks for N samples.
type Prompt struct {
	Tokens   []int32
	N        int
	Sampling spec.SamplingConfig
	Uniform  func(sample, token int) float64 // in [0, 1)
	Done     func(Sample)
}

// Sample is one finished completion.
type Sample struct {
	Index     int // 0..N-1
	Tokens    []int32
	LogProbs  []float32 // full vocabulary, temperature 1
	Truncated bool
}

// Stats counts the work of a call.
type Stats struct {
	Prefill int // prompt tokens computed
	Asked   int // prompt tokens that separate prefills of every sample would have computed
	Decoded int // tokens sampled
}

// Add adds another call's work.
func (s *Stats) Add(t Stats) {
	s.Prefill, s.Asked, s.Decoded = s.Prefill+t.Prefill, s.Asked+t.Asked, s.Decoded+t.Decoded
}

// Sampler decodes on one goroutine; it is not safe for concurrent use.
type Sampler struct {
	c       *qwenvl.Config
	net     *qwenvl.TextNet
	decoder *qwenvl.Decoder
	chooser Chooser
	stops   []int32
	batch   int
}

// NewSampler returns a sampler that decodes up to batch completions together, DefaultBatch where it is 0, and ends them at
// any of the stop tokens. It shares net's buffers. What it samples does not depend on batch.
func NewSampler(c *qwenvl.Config, net *qwenvl.TextNet, stops []int32, batch int) *Sampler {
	if batch == 0 {
		batch = DefaultBatch
	}
	return &Sampler{c: c, net: net, decoder: qwenvl.NewDecoder(net), stops: stops, batch: batch}
}

// DefaultBatch is the number of completions decoded together unless it is set.
const DefaultBatch = 256

// live is a completion in progress.
type live struct {
	prompt *Prompt
	out    Sample
	stream qwenvl.Stream
}

// prefillRows are the rows of a prefill batch, beyond which it is cut.
const prefillRows = 1024

// Run decodes all prompts under weights w. Done is called as completions finish.
func (s *Sampler) Run(ctx context.Context, w *qwenvl.Weights, shared []Shared) (Stats, error) {
	var st Stats
	var waiting, active []*live // prefilled; being decoded
	for ctx.Err() == nil {
		switch {
		case len(waiting) > 0 && len(active) < s.batch:
			active, waiting = append(active, waiting[0].start(s.c)), waiting[1:]
		case len(waiting) == 0 && len(shared) > 0 && 2*len(active) < s.batch:
			n := s.fits(shared, s.batch-len(active))
			waiting, shared = s.prefill(w, shared[:n], &st), shared[n:]
		case len(active) > 0:
			active = s.step(w, active, &st)
		default:
			return st, nil
		}
	}
	return st, ctx.Err()
}

// roomAtOnce bounds the positions that a completion is given room for before it has them.
const roomAtOnce = 256

// start gives l keys and values of its own to extend.
func (l *live) start(c *qwenvl.Config) *live {
	l.stream.Own = l.stream.Own.Fork(c, min(l.prompt.Sampling.MaxTokens, roomAtOnce))
	return l
}

// step draws a token for each completion and returns those that go on.
func (s *Sampler) step(w *qwenvl.Weights, active []*live, st *Stats) []*live {
	streams, tokens := make([]*qwenvl.Stream, len(active)), make([]int32, len(active))
	for i, l := range active {
		streams[i], tokens[i] = &l.stream, l.out.Tokens[len(l.out.Tokens)-1]
	}
	logits := s.decoder.Step(w, streams, tokens)
	kept := active[:0]
	for i, l := range active {
		if !s.extend(l, logits[i*s.c.Text.VocabSize:(i+1)*s.c.Text.VocabSize], st) {
			kept = append(kept, l)
		}
	}
	return kept
}

// fits says how many of the next sets to prefill together: at least one.
func (s *Sampler) fits(shared []Shared, places int) int {
	rows, n := 0, 0
	for _, sh := range shared {
		rows += len(sh.Prefix)
		for _, p := range sh.Prompts {
			rows += len(p.Tokens)
			places -= p.N
		}
		if n > 0 && (rows > prefillRows || places < 0) {
			break
		}
		n++
	}
	return n
}

// prefill computes prompts through the training forward pass and draws each completion's first token.
func (s *Sampler) prefill(w *qwenvl.Weights, shared []Shared, st *Stats) []*live {
	type placed struct {
		prompt *Prompt
		prefix nn.Segment
		own    nn.Segment
		next   int32
	}
	b := &qwenvl.Batch{}
	var all []placed
	for i := range shared {
		sh := &shared[i]
		var prefix nn.Segment
		var next int32
		if len(sh.Prefix) > 0 {
			prefix, next = b.AddPrefix(s.c, sh.Prefix, sh.Images)
		}
		b.StartGroup(prefix)
		for k := range sh.Prompts {
			p := &sh.Prompts[k]
			all = append(all, placed{p, prefix, b.AddContinuation(next, p.Tokens, 0), next + int32(len(p.Tokens))})
			st.Asked += p.N * (len(sh.Prefix) + len(p.Tokens))
		}
	}
	st.Prefill += b.Rows()
	rows, runs := make([]int, len(all)), make([]nn.Segment, len(all))
	prefixes := map[int]int{} // where a prefix lies among the runs, by its first row
	for i, p := range all {
		rows[i], runs[i] = p.own.Start+p.own.Len-1, p.own
	}
	for _, p := range all {
		if _, ok := prefixes[p.prefix.Start]; p.prefix.Len > 0 && !ok {
			prefixes[p.prefix.Start] = len(runs)
			runs = append(runs, p.prefix)
		}
	}
	kvs := s.net.Prefill(w, b, runs)
	logits := s.net.Logits(w, rows)
	var waiting []*live
	for i, p := range all {
		var prefix *qwenvl.KV
		if p.prefix.Len > 0 {
			prefix = kvs[prefixes[p.prefix.Start]]
		}
		for k := range p.prompt.N {
			l := &live{prompt: p.prompt, out: Sample{Index: k}, stream: qwenvl.Stream{Prefix: prefix, Own: kvs[i], Next: p.next}}
			if !s.extend(l, logits[i*s.c.Text.VocabSize:(i+1)*s.c.Text.VocabSize], st) {
				waiting = append(waiting, l)
			}
		}
	}
	return waiting
}

// extend draws the next token of l and says whether the completion is finished.
func (s *Sampler) extend(l *live, logits []float32, st *Stats) bool {
	p := l.prompt
	token, logProb := s.chooser.Choose(logits, p.Sampling, p.Uniform(l.out.Index, len(l.out.Tokens)))
	l.out.Tokens, l.out.LogProbs = append(l.out.Tokens, token), append(l.out.LogProbs, logProb)
	st.Decoded++
	stopped := false
	for _, t := range s.stops {
		stopped = stopped || t == token
	}
	if !stopped && len(l.out.Tokens) < p.Sampling.MaxTokens {
		return false
	}
	l.out.Truncated = !stopped
	p.Done(l.out)
	return true
}
