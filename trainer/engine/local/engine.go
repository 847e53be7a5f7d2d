// Package local is the CPU engine: it runs a Qwen-VL checkpoint in this process, in plain Go and assembly.
//
// Results depend on the weights, the samples and the seed alone: work is cut into a fixed number of lanes whose gradients
// are added in order, so that the number of threads changes nothing.
package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/imageproc"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/optim"
	"github.com/trinity-lab/trinity/trainer/policy"
	"github.com/trinity-lab/trinity/trainer/sample"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/trainer/tokenizer"
)

// lanes is the number of parts that the samples of an update are cut into. It bounds parallelism and is part of what
// makes results reproducible: gradients are summed within a lane, then over lanes in order.
const lanes = 4

// Options say how to open a checkpoint.
type Options struct {
	Model     spec.ModelConfig // Path is not read; dir is given to Open
	Verifier  string           // folder of other initial Verifier weights; empty means the policy's
	Optimizer spec.OptimizerConfig
	Threads   int    // 0 means all cores
	Seed      uint64 // of the adapters' initial values
	// Rate is the factor on the learning rate of a tensor, by its Hugging Face name; nil means 1. Training from scratch uses it.
	Rate func(name string) float64
}

// Engine implements engine.Engine.
type Engine struct {
	dir       string
	opts      Options
	config    qwenvl.Config
	processor imageproc.Config
	tokens    *tokenizer.Tokenizer
	template  template

	policy, verifier *qwenvl.Weights
	initial          []float32 // the policy's weights when opened: the base of the Verifier's delta
	delta            []float32 // verifier - initial, kept in float32 so that a slow average does not stall (reference g)
	adapters         *qwenvl.AdapterSet
	adapterGrads     []*qwenvl.AdapterSet
	grads            []*qwenvl.Weights // one a lane
	optimizer        *optim.AdamW
	params           []optim.Parameter
	frozenVision     bool

	workers []*worker // one a thread
	images  map[string]*picture
}

var _ engine.Engine = (*Engine)(nil)

// worker is one thread's nets and buffers.
type worker struct {
	vision  *qwenvl.VisionNet
	text    *qwenvl.TextNet
	sampler *sample.Sampler
	gemm    cpu.Gemm
}

// picture is a loaded image and, per slot, its features under that slot's vision weights.
type picture struct {
	input    qwenvl.Image
	features map[engine.Slot]qwenvl.Features
}

// Open loads the checkpoint in dir (config.json, tokenizer.json, preprocessor_config.json, *.safetensors).
func Open(dir string, opts Options) (*Engine, error) {
	e := &Engine{dir: dir, opts: opts, images: map[string]*picture{}}
	var err error
	if e.config, err = qwenvl.LoadConfig(filepath.Join(dir, "config.json")); err != nil {
		return nil, err
	}
	if e.tokens, err = tokenizer.Load(filepath.Join(dir, "tokenizer.json")); err != nil {
		return nil, err
	}
	if n := e.tokens.VocabSize(); n > e.config.Text.VocabSize {
		return nil, fmt.Errorf("model %q: tokenizer.json has %d tokens, config.json's text_config.vocab_size is %d; they belong to different models", dir, n, e.config.Text.VocabSize)
	}
	if e.processor, err = imageproc.LoadConfig(filepath.Join(dir, "preprocessor_config.json")); err != nil {
		return nil, err
	}
	if err := e.limitPixels(); err != nil {
		return nil, err
	}
	if e.template, err = newTemplate(&e.config, e.tokens); err != nil {
		return nil, fmt.Errorf("model %q: %w", dir, err)
	}
	if e.policy, err = loadWeights(dir, e.config); err != nil {
		return nil, err
	}
	from := e.policy
	if opts.Verifier != "" {
		if from, err = e.loadVerifier(opts.Verifier); err != nil {
			return nil, err
		}
	}
	e.verifier = qwenvl.NewWeights(e.config, nil)
	copy(e.verifier.Flat, from.Flat)
	e.initial = slices.Clone(e.policy.Flat)
	e.delta = make([]float32, len(e.initial))
	for i, v := range e.verifier.Flat {
		e.delta[i] = v - e.initial[i]
	}
	e.prepareTraining()
	threads := opts.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	for range min(threads, lanes) {
		text := qwenvl.NewTextNet(&e.config)
		e.workers = append(e.workers, &worker{vision: qwenvl.NewVisionNet(&e.config.Vision), text: text,
			sampler: sample.NewSampler(&e.config, text, e.template.stops)})
	}
	return e, nil
}

func (e *Engine) loadVerifier(dir string) (*qwenvl.Weights, error) {
	c, err := qwenvl.LoadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	if fmt.Sprint(c) != fmt.Sprint(e.config) {
		return nil, fmt.Errorf("verifier model %q: its config.json differs from the policy's; the EMA Verifier must have the same architecture", dir)
	}
	return loadWeights(dir, c)
}

// limitPixels applies the run's image bounds over the checkpoint's.
func (e *Engine) limitPixels() error {
	if n := e.opts.Model.MinPixels; n > 0 {
		e.processor.MinPixels = n
	}
	if n := e.opts.Model.MaxPixels; n > 0 {
		e.processor.MaxPixels = n
	}
	v := &e.config.Vision
	if e.processor.PatchSize != v.PatchSize || e.processor.MergeSize != v.SpatialMergeSize || e.processor.TemporalPatchSize != v.TemporalPatchSize {
		return fmt.Errorf("model %q: preprocessor_config.json's patch_size, merge_size and temporal_patch_size are %d, %d, %d; config.json's vision_config says %d, %d, %d",
			e.dir, e.processor.PatchSize, e.processor.MergeSize, e.processor.TemporalPatchSize, v.PatchSize, v.SpatialMergeSize, v.TemporalPatchSize)
	}
	return nil
}

// prepareTraining allocates what is trained: adapters, or all weights but a frozen vision encoder.
func (e *Engine) prepareTraining() {
	m := e.opts.Model
	lora := m.Train == "lora"
	e.frozenVision = m.FreezeVision || lora
	trained := func(name string) bool { return !lora && !(e.frozenVision && qwenvl.IsVision(name)) }
	for range lanes {
		e.grads = append(e.grads, qwenvl.NewWeights(e.config, trained))
	}
	rate := func(name string) float32 {
		if e.opts.Rate == nil {
			return 1
		}
		return float32(e.opts.Rate(name))
	}
	if lora {
		rng := rand.New(rand.NewPCG(e.opts.Seed, 0x10ad))
		e.adapters, e.adapterGrads = qwenvl.AttachLoRA(e.config, e.policy, e.grads, m.LoRA.Rank, float32(m.LoRA.Alpha/float64(m.LoRA.Rank)), rng)
		for i, t := range e.adapters.Tensors {
			e.params = append(e.params, optim.Parameter{Weight: t.Data, Grad: e.adapterGrads[0].Tensors[i].Data, Decay: true, Rate: rate(t.Name)})
		}
	} else {
		weights := map[string]qwenvl.Tensor{}
		for _, t := range e.policy.Tensors {
			weights[t.Name] = t
		}
		for _, g := range e.grads[0].Tensors {
			e.params = append(e.params, optim.Parameter{Weight: weights[g.Name].Data, Grad: g.Data, Decay: qwenvl.Decayed(g.Name, g.Shape), Rate: rate(g.Name)})
		}
	}
	e.optimizer = optim.NewAdamW(e.opts.Optimizer, e.trainable())
}

func (e *Engine) trainable() int {
	n := 0
	for _, p := range e.params {
		n += len(p.Weight)
	}
	return n
}

// Info implements engine.Engine.
func (e *Engine) Info() engine.Info {
	return engine.Info{Architecture: "Qwen3-VL", Parameters: len(e.policy.Flat), Trainable: e.trainable(), VocabSize: e.config.Text.VocabSize,
		Device: fmt.Sprintf("cpu, %d threads, %s", len(e.workers), cpu.Path())}
}

// Close implements engine.Engine.
func (e *Engine) Close() error { return nil }

func (e *Engine) weights(slot engine.Slot) (*qwenvl.Weights, error) {
	switch slot {
	case engine.Policy:
		return e.policy, nil
	case engine.Verifier:
		return e.verifier, nil
	}
	return nil, fmt.Errorf("weight slot %q: the CPU engine has %q and %q", slot, engine.Policy, engine.Verifier)
}

// Average implements engine.Engine for the Verifier as an average of the policy: D <- decay D + (1-decay)(theta - W0), phi = W0 + D.
func (e *Engine) Average(ctx context.Context, dst, src engine.Slot, decay float64) error {
	if dst != engine.Verifier || src != engine.Policy {
		return fmt.Errorf("average %q into %q: the CPU engine averages %q into %q", src, dst, engine.Policy, engine.Verifier)
	}
	if err := policy.AverageDelta(e.delta, e.initial, e.policy.Flat, decay); err != nil {
		return err
	}
	if err := policy.Merge(e.verifier.Flat, e.initial, e.delta); err != nil {
		return err
	}
	e.forgetFeatures(engine.Verifier)
	return ctx.Err()
}

// parallel runs f(worker, job) for jobs 0..n-1. Which worker takes a job must not matter to its result.
func (e *Engine) parallel(n int, f func(w *worker, job int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for _, w := range e.workers[:min(n, len(e.workers))] {
		wg.Go(func() {
			for i := range next {
				errs[i] = f(w, i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
