// Package warmup makes the wind tunnel's checkpoint: supervised training of a small Qwen3-VL model, from random weights, on
// figures whose truth is known. It stands for the paper's format warm-up (A.1), and has to teach perception as well.
package warmup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/optim"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/trainer/windtunnel"
)

// Options of a warm-up. Equal Seed, Examples and Shape give equal checkpoints.
type Options struct {
	Dir      string // receives the model; its "warmup" folder holds the state to resume from
	Seed     uint64
	Examples int // figures seen
	Threads  int
	Shape    Shape
	Progress func(Progress)
	// Snapshots are numbers of figures at which the model is also exported, to Dir/snapshot-N: weaker Verifiers to study.
	Snapshots []int
}

// Progress is reported after every update.
type Progress struct {
	Examples, Total int
	Loss            float64 // nats a target token
	Perception      bool    // still in the first phase
	Tokens          int     // target tokens so far, in this process
}

const (
	batch     = 4   // figures an update: early learning is limited by the number of updates
	block     = 25  // updates between draws of on-policy text
	saveEvery = 500 // updates

	peakRate      = 1e-3
	embeddingRate = 4 // factor for the token embedding, whose rows are seldom all in a batch

	stateFolder  = "warmup"
	progressFile = "progress.json"
)

// The curriculum, as shares of the figures after which a phase ends. Reading bars in order is what breaks the plateau where
// the text model does not look at the picture yet; with all kinds of figure at once it outlasted every trial.
const (
	readBars     = 0.07 // list the bars of bar charts
	readAll      = 0.13 // list what any figure shows
	lookUp       = 0.20 // look things up by letter or colour
	onPolicyFrom = 0.45 // all roles; from here on the Verifier's turns also use what the model itself says
)

func optimizer() spec.OptimizerConfig {
	return spec.OptimizerConfig{LearningRate: peakRate, WeightDecay: 0.01, Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-8, WarmupSteps: 100, MinimumFactor: 0.01, GradientClip: 1}
}

// Run trains a model and exports it to Dir in bfloat16. An interrupted run goes on where it last saved.
func Run(ctx context.Context, o Options) error {
	if o.Examples < 10*batch {
		return fmt.Errorf("warm-up examples is %d; use %d or more", o.Examples, 10*batch)
	}
	tables, err := windtunnel.LoadTables(windtunnel.Training)
	if err != nil {
		return err
	}
	r := &run{Options: o, tables: tables, updates: o.Examples / batch}
	if err := r.open(); err != nil {
		return err
	}
	defer r.engine.Close()
	for ; r.step < r.updates; r.step++ {
		if r.step > 0 && r.step%saveEvery == 0 {
			if err := r.save(ctx); err != nil {
				return err
			}
		}
		if err := r.update(ctx); err != nil {
			return errors.Join(err, r.saveIfCancelled(ctx))
		}
		for _, n := range o.Snapshots {
			if n/batch == r.step+1 {
				if err := r.engine.ExportBF16(ctx, engine.Policy, filepath.Join(o.Dir, fmt.Sprintf("snapshot-%d", n))); err != nil {
					return err
				}
			}
		}
	}
	if err := r.engine.ExportBF16(ctx, engine.Policy, o.Dir); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(o.Dir, stateFolder))
}

// run is a warm-up in progress.
type run struct {
	Options
	tables  []windtunnel.Table
	engine  *local.Engine
	updates int
	step    int
	tokens  int
	figures []figure // of the current block
}

// figure is one picture with the turns that it teaches.
type figure struct {
	key   string
	png   []byte
	scene windtunnel.Scene
	turns []windtunnel.Turn
}

// saved says where a state folder stands.
type saved struct {
	Seed     uint64 `json:"seed"`
	Examples int    `json:"examples"`
	Shape    Shape  `json:"shape"`
	Step     int    `json:"step"`
}

func (r *run) state(name string) string { return filepath.Join(r.Dir, stateFolder, name) }

func (r *run) open() error {
	model := r.state("model")
	var at saved
	b, err := os.ReadFile(r.state(progressFile))
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &at); err != nil {
			return fmt.Errorf("resume warm-up: %s: %w", r.state(progressFile), err)
		}
		if at.Seed != r.Seed || at.Examples != r.Examples || at.Shape != r.Shape {
			return fmt.Errorf("%s holds an unfinished warm-up with seed %d and %d examples; finish it with those, or remove the folder", r.state(""), at.Seed, at.Examples)
		}
	case errors.Is(err, fs.ErrNotExist):
		files, err := newModel(r.Shape, r.tables)
		if err != nil {
			return err
		}
		if err := local.Create(model, files, r.Seed); err != nil {
			return err
		}
	default:
		return fmt.Errorf("resume warm-up: %w", err)
	}
	threads := r.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	r.engine, err = local.Open(model, local.Options{Model: spec.ModelConfig{Train: "full"}, Optimizer: optimizer(), Threads: threads, Rate: rate})
	if err != nil {
		return err
	}
	if at.Step > 0 {
		r.step = at.Step
		return r.engine.Restore(context.Background(), r.state("weights"))
	}
	return nil
}

func rate(name string) float64 {
	if strings.Contains(name, "embed_tokens") {
		return embeddingRate
	}
	return 1
}

func (r *run) save(ctx context.Context) error {
	if err := r.engine.Save(ctx, r.state("weights")); err != nil {
		return err
	}
	b, err := json.Marshal(saved{r.Seed, r.Examples, r.Shape, r.step})
	if err != nil {
		return err
	}
	temp := r.state(progressFile + ".partial")
	if err := os.WriteFile(temp, b, 0o644); err != nil {
		return fmt.Errorf("save warm-up: %w", err)
	}
	return os.Rename(temp, r.state(progressFile))
}

// saveIfCancelled keeps the work of an interrupted run.
func (r *run) saveIfCancelled(ctx context.Context) error {
	if ctx.Err() == nil || r.step%block != 0 { // a block's on-policy text belongs to the weights it began with
		return nil
	}
	return r.save(context.WithoutCancel(ctx))
}

// progress is the share of the work done.
func (r *run) progress() float64 { return float64(r.step) / float64(r.updates) }

func (r *run) update(ctx context.Context) error {
	if r.step%block == 0 || r.figures == nil {
		if err := r.drawBlock(ctx); err != nil {
			return err
		}
	}
	at := r.step % block * batch
	var samples []engine.Sample
	var keys []string
	for _, f := range r.figures[at:min(at+batch, len(r.figures))] {
		keys = append(keys, f.key)
		for _, t := range f.turns {
			p := engine.Prompt{Image: f.key, User: t.Prompt}
			if t.Role == windtunnel.RoleEquivalence {
				p.Image = ""
			}
			s := engine.Sample{Sequence: engine.Sequence{Prompt: p, Tokens: r.engine.Encode(t.Completion)}}
			r.tokens += len(s.Tokens)
			samples = append(samples, s)
		}
	}
	for i, k := range keys {
		if err := r.engine.LoadImage(ctx, k, r.figures[at+i].png); err != nil {
			return err
		}
	}
	stats, err := r.engine.Update(ctx, samples, engine.Objective{Kind: engine.Supervised}, optim.Rate(optimizer(), r.step, r.updates))
	if err != nil {
		return err
	}
	r.engine.DropImages()
	if r.Progress != nil {
		r.Progress(Progress{Examples: (r.step + 1) * batch, Total: r.updates * batch, Loss: stats.Loss, Perception: r.progress() < lookUp, Tokens: r.tokens})
	}
	return nil
}

// drawBlock draws the figures of the next updates and their turns.
func (r *run) drawBlock(ctx context.Context) error {
	first := r.step - r.step%block
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	r.figures = nil
	for i := range block * batch {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(first*batch+i)))
		s := r.scene(rng)
		var buf bytes.Buffer
		if err := encoder.Encode(&buf, s.Render(rng)); err != nil {
			return err
		}
		r.figures = append(r.figures, figure{key: fmt.Sprint(i), png: buf.Bytes(), scene: s, turns: s.Turns(rng, r.mix())})
	}
	if r.progress() < onPolicyFrom {
		return nil
	}
	return r.addOnPolicy(ctx, first)
}

func (r *run) mix() windtunnel.Mix {
	switch p := r.progress(); {
	case p < readAll:
		return windtunnel.Mix{Read: 1}
	case p < lookUp:
		return windtunnel.Mix{Read: 1, Look: 2}
	case p < onPolicyFrom:
		return windtunnel.Mix{Look: 1, Questioner: 1, Solver: 4, Screening: 3, Reasoning: 2, Equivalence: 1, Dispute: 1}
	default:
		return windtunnel.Mix{Questioner: 1, Solver: 3, Screening: 2, Reasoning: 1, Equivalence: 1, Dispute: 1}
	}
}

// scene draws a figure that the present phase is about.
func (r *run) scene(rng *rand.Rand) windtunnel.Scene {
	s := windtunnel.Generate(rng, r.tables)
	for r.progress() < readBars && s.Kind != windtunnel.Bar {
		s = windtunnel.Generate(rng, r.tables)
	}
	return s
}

// addOnPolicy adds screening turns about what the model itself asks, and reasoning turns about how it itself solves: the
// faults that a Verifier meets in the loop are the policy's own.
func (r *run) addOnPolicy(ctx context.Context, first int) error {
	defer r.engine.DropImages()
	var requests []engine.Request
	var about []*figure
	questions := map[int]string{}
	sampling := spec.SamplingConfig{Temperature: 1, TopP: 1, MaxTokens: 160}
	for i := range r.figures {
		f := &r.figures[i]
		if err := r.engine.LoadImage(ctx, f.key, f.png); err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(r.Seed^0x0b, uint64(first*batch+i)))
		q := f.scene.DrawQuestion(rng, windtunnel.DefaultWeights(), true).Text()
		questions[len(requests)+1] = q
		key := engine.Key{Seed: r.Seed, Step: first, Role: "warmup", Slot: i}
		requests = append(requests,
			engine.Request{Prompt: engine.Prompt{Image: f.key, User: windtunnel.PromptQuestioner}, N: 2, Sampling: sampling, Key: key},
			engine.Request{Prompt: engine.Prompt{Image: f.key, User: strings.ReplaceAll(windtunnel.PromptSolver, "{q}", q)}, N: 1, Sampling: sampling, Key: key})
		about = append(about, f, f)
	}
	said := make([][]string, len(requests))
	for i, q := range requests {
		said[i] = make([]string, q.N)
	}
	err := r.engine.Generate(ctx, engine.Policy, requests, func(c engine.Completion) { said[c.Request][c.Sample] = c.Text })
	if err != nil {
		return err
	}
	for i, texts := range said {
		for _, text := range texts {
			if q, solved := questions[i]; solved {
				about[i].addReasoning(q, text)
			} else {
				about[i].addScreening(text)
			}
		}
	}
	return nil
}

// addScreening adds a screening turn about a question that the model asked.
func (f *figure) addScreening(text string) {
	var qa struct{ Question, Answer string }
	if json.Unmarshal([]byte(text), &qa) == nil && qa.Question != "" && qa.Answer != "" {
		f.turns = append(f.turns, f.scene.ScreenTurn(qa.Question, qa.Answer))
	}
}

// addReasoning adds a grading turn about how the model solved a question.
func (f *figure) addReasoning(question, text string) {
	_, rest, ok := strings.Cut(text, "<think>")
	think, _, closed := strings.Cut(rest, "</think>")
	if !ok || !closed {
		return
	}
	if t, ok := f.scene.ReasoningTurn(question, think); ok {
		f.turns = append(f.turns, t)
	}
}
