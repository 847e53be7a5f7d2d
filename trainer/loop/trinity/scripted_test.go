package trinity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-lab/trinity/trainer/durable"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// scripted is an engine whose completions are written by the test: real engines cannot be made to dispute, to truncate or
// to babble on demand. Its weights are two numbers, so that a restored step can be told from a wrong one. Completions
// come back in a shuffled order.
type scripted struct {
	reply func(r engine.Request, sample int, weight float64) (text string, truncated bool)
	// before, if set, is called at the start of every method that takes a context; its error is returned.
	before func(method string) error

	Policy, Verifier float64
	images           map[string]bool
	shuffle          *rand.Rand
	requests         []engine.Request // everything asked for
	slots            []engine.Slot
	updates          [][]engine.Sample
	averages         int
	scored           int
}

func newScripted(reply func(r engine.Request, sample int, weight float64) (string, bool)) *scripted {
	return &scripted{reply: reply, images: map[string]bool{}, shuffle: rand.New(rand.NewPCG(rand.Uint64(), 0)), Policy: 1, Verifier: 1}
}

var _ engine.Engine = (*scripted)(nil)

func (e *scripted) enter(ctx context.Context, method string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.before != nil {
		return e.before(method)
	}
	return nil
}

func (e *scripted) Info() engine.Info { return engine.Info{Architecture: "scripted"} }

func (e *scripted) LoadImage(ctx context.Context, key string, encoded []byte) error {
	if err := e.enter(ctx, "load"); err != nil {
		return err
	}
	if strings.HasPrefix(string(encoded), "corrupt") {
		return errors.New("not an image")
	}
	e.images[key] = true
	return nil
}

func (e *scripted) DropImages(keep ...string) {
	for k := range e.images {
		if !slices.Contains(keep, k) {
			delete(e.images, k)
		}
	}
}

func (e *scripted) weight(slot engine.Slot) float64 {
	if slot == engine.Policy {
		return e.Policy
	}
	return e.Verifier
}

func (e *scripted) Generate(ctx context.Context, slot engine.Slot, requests []engine.Request, emit func(engine.Completion)) error {
	if err := e.enter(ctx, "generate"); err != nil {
		return err
	}
	var all []engine.Completion
	for i, r := range requests {
		if r.Prompt.Image != "" && !e.images[r.Prompt.Image] {
			return fmt.Errorf("image %q is not loaded", r.Prompt.Image)
		}
		e.requests, e.slots = append(e.requests, r), append(e.slots, slot)
		for n := range r.N {
			text, truncated := e.reply(r, n, e.weight(slot))
			c := engine.Completion{Request: i, Sample: n, Text: text, Truncated: truncated}
			for j := range strings.Fields(text + " end") {
				c.Tokens = append(c.Tokens, int32(j))
				c.LogProbs = append(c.LogProbs, logProb(j, text, e.weight(slot))+0.25)
			}
			all = append(all, c)
		}
	}
	e.shuffle.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var wg sync.WaitGroup
	for part := range slices.Chunk(all, len(all)/2+1) { // emit from several goroutines
		wg.Go(func() {
			for _, c := range part {
				if ctx.Err() == nil {
					emit(c)
				}
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// logProb is the trainer's; the sampler's is a quarter higher.
func logProb(j int, text string, weight float64) float32 {
	return float32(-0.125 * float64(1+j%3) * (1 + float64(len(text)%5)) * math.Abs(weight))
}

func (e *scripted) Score(ctx context.Context, slot engine.Slot, sequences []engine.Sequence) ([][]float32, error) {
	if err := e.enter(ctx, "score"); err != nil {
		return nil, err
	}
	out := make([][]float32, len(sequences))
	for i, q := range sequences {
		e.scored++
		out[i] = make([]float32, len(q.Tokens))
		for j := range q.Tokens {
			out[i][j] = -0.5
		}
	}
	return out, nil
}

func (e *scripted) Update(ctx context.Context, samples []engine.Sample, o engine.Objective, rate float64) (engine.UpdateStats, error) {
	if err := e.enter(ctx, "update"); err != nil {
		return engine.UpdateStats{}, err
	}
	e.updates = append(e.updates, slices.Clone(samples))
	for i, s := range samples {
		e.Policy += rate * s.Advantage * float64(len(s.Tokens)+i)
	}
	return engine.UpdateStats{Loss: 2, PolicyLoss: 1.5, Regulariser: .5, ClipFraction: .25, RatioMean: 1, KL: .01, GradNorm: e.Policy}, nil
}

func (e *scripted) Average(ctx context.Context, dst, src engine.Slot, decay float64) (float64, error) {
	if err := e.enter(ctx, "average"); err != nil {
		return 0, err
	}
	if dst != engine.Verifier || src != engine.Policy {
		return 0, errors.New("wrong slots")
	}
	e.averages++
	e.Verifier = decay*e.Verifier + (1-decay)*e.Policy
	return math.Abs(e.Verifier-1) / math.Abs(e.Policy-1), nil
}

func (e *scripted) Save(ctx context.Context, dir string) error {
	if err := e.enter(ctx, "save"); err != nil {
		return err
	}
	b, err := json.Marshal([]float64{e.Policy, e.Verifier})
	if err != nil {
		return err
	}
	return durable.MakeDir(dir, func(temp string) error { return os.WriteFile(filepath.Join(temp, "weights.json"), b, 0o644) })
}

func (e *scripted) Restore(ctx context.Context, dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "weights.json"))
	if err != nil {
		return err
	}
	var w []float64
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	e.Policy, e.Verifier = w[0], w[1]
	return ctx.Err()
}

func (e *scripted) Export(context.Context, engine.Slot, engine.Format, string) error { return nil }
func (e *scripted) Close() error                                                     { return nil }

// babble answers every role at random, but always the same for a key, a sample and a weight: mostly well formed.
func babble(r engine.Request, sample int, weight float64) (string, bool) {
	h := fnv.New64a()
	fmt.Fprint(h, r.Key, sample, weight, r.Prompt)
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	pick := func(options ...string) string { return options[rng.IntN(len(options))] }
	if rng.IntN(12) == 0 {
		return "I would rather not.", rng.IntN(2) == 0
	}
	switch role, _, _ := strings.Cut(r.Prompt.User, " "); role {
	case "Ask.":
		return question(pick("What is the sum of both bars?", "Which bar is taller?"), pick("6", "7", "red", "blue bar")), false
	case "Solve:":
		return solution("Looking at it.", pick("6", "6", "7", "red", "6.05")), false
	case "Screen:":
		return screening(pick("0", "1", "1"), pick("0", "1", "1"), pick("0.1", "0.4", "0.7", "1.0")), false
	case "Grade:":
		return reasoning(pick("0.0", "0.25", "0.5", "1.0")), false
	case "Same?":
		return `{"match": ` + pick("0", "1") + `}`, false
	case "Dispute:":
		return dispute(pick("ref", "majority")), false
	}
	return "", false
}

func question(q, a string) string { return fmt.Sprintf(`{"question": %q, "answer": %q}`, q, a) }
func solution(think, a string) string {
	return "<think>" + think + "</think>\n<answer>\\boxed{" + a + "}</answer>"
}
func screening(fact, corr, difficulty string) string {
	return fmt.Sprintf(`{"justification": "seen", "fact_q": %s, "corr_a": %s, "difficulty": %s}`, fact, corr, difficulty)
}
func reasoning(score string) string {
	return fmt.Sprintf(`{"justification": "clear", "reasoning_score": %s}`, score)
}
func dispute(side string) string {
	return fmt.Sprintf(`{"correct_answer": %q, "justification": "counted again"}`, side)
}

// memory is a sink that keeps records.
type memory struct {
	records []spec.Record
	fail    func(kind spec.Kind) error
}

func (m *memory) Append(kind spec.Kind, step int, data any) error {
	if m.fail != nil {
		if err := m.fail(kind); err != nil {
			return err
		}
	}
	b, err := json.Marshal(spec.Record{Seq: uint64(len(m.records) + 1), Kind: kind, Step: step, Data: data})
	if err != nil {
		return err
	}
	var r spec.Record // through JSON, as a reader sees it, so that later changes to data would show
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	m.records = append(m.records, r)
	return nil
}

// album is a corpus of named images.
type album []string

func (a album) Len() int { return len(a) }
func (a album) At(i int) (Image, error) {
	if strings.HasPrefix(a[i], "missing") {
		return Image{}, errors.New("file is gone")
	}
	return Image{SHA256: "sha-" + a[i], Bytes: []byte(a[i])}, nil
}
func (a album) Draw(_ uint64, step, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = (step*n + i) % len(a)
	}
	return out
}
