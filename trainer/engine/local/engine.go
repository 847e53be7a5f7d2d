// Package local is the CPU engine: it runs a Qwen-VL checkpoint in this process, in plain Go and assembly.
//
// Results depend on the weights, the samples and the seed alone: work is cut into a fixed number of lanes whose gradients
// are added in order, so that the number of threads changes nothing.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
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

// Options say how to open a checkpoint.
type Options struct {
	// Model says what is trained. Path is not read; dir is given to Open. Where Train is empty nothing is, and the weights are
	// held once.
	Model        spec.ModelConfig
	Adapter      string // folder of a LoRA adapter in PEFT's format that the policy starts from; empty means none
	Verifier     string // folder of other initial Verifier weights; empty means the policy's
	NoVerifier   bool   // another model judges: the Verifier slot does not exist and holds no weights
	VerifierBF16 bool   // keep the Verifier in bfloat16, in which a slow average stalls
	Optimizer    spec.OptimizerConfig
	Threads      int    // 0 means all cores
	Seed         uint64 // of the adapters' initial values
	// Rate is the factor on the learning rate of a tensor, by its Hugging Face name; nil means 1. Training from scratch uses it.
	Rate func(name string) float64
	// IgnoreStop lets completions run to MaxTokens, as benchmarks need.
	IgnoreStop bool
}

// Engine implements engine.Engine.
type Engine struct {
	dir       string
	opts      Options
	config    qwenvl.Config
	processor imageproc.Config
	tokens    *tokenizer.Tokenizer
	template  template
	// templateFile is where the chat template was found; empty: the default one.
	templateFile string
	defaults     Defaults

	policy, verifier *qwenvl.Weights
	base             *qwenvl.Weights // the checkpoint's weights, its Flat those that are averaged: the base of the adapters and of the delta
	delta            []float32       // verifier - base, kept in float32 so that a slow average does not stall (reference g)
	adapters         *qwenvl.AdapterSet
	adapterGrads     []*qwenvl.AdapterSet
	grads            []*qwenvl.Weights // as many as Options.gradients says; the first is the sum
	optimizer        *optim.AdamW
	params           []optim.Parameter
	frozenVision     bool

	workers []*worker // one a thread
	work    Work
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

func newEngine(dir string, opts Options) *Engine {
	return &Engine{dir: dir, opts: opts, images: map[string]*picture{}, frozenVision: opts.Model.FreezeVision || opts.Model.Train != "full"}
}

// Open loads the checkpoint in dir (config.json, tokenizer.json, preprocessor_config.json, *.safetensors; its chat template and
// generation_config.json where it has them).
func Open(dir string, opts Options) (*Engine, error) {
	e := newEngine(dir, opts)
	for _, p := range e.parts() {
		if err := p.read(); err != nil {
			return nil, err
		}
	}
	var err error
	if e.policy, err = loadWeights(dir, e.config); err != nil {
		return nil, err
	}
	if err := e.prepareTraining(); err != nil {
		return nil, err
	}
	if err := e.prepareVerifier(); err != nil {
		return nil, err
	}
	stops := e.stops()
	if opts.IgnoreStop {
		stops = nil
	}
	for range opts.threads() {
		text, vision := qwenvl.NewTextNet(&e.config), qwenvl.NewVisionNet(&e.config.Vision)
		text.Checkpointing, vision.Checkpointing = opts.Model.GradientCheckpointing, opts.Model.GradientCheckpointing
		e.workers = append(e.workers, &worker{vision: vision, text: text,
			sampler: sample.NewSampler(&e.config, text, stops, opts.Model.DecodeBatch)})
	}
	return e, nil
}

// prepareVerifier makes the second set of weights: a copy of what differs from the policy or will.
func (e *Engine) prepareVerifier() error {
	if e.opts.NoVerifier {
		return nil
	}
	e.verifier = e.policy
	if e.opts.Verifier != "" {
		c, err := qwenvl.LoadConfig(filepath.Join(e.opts.Verifier, "config.json"))
		if err != nil {
			return err
		}
		if fmt.Sprint(c) != fmt.Sprint(e.config) {
			return fmt.Errorf("verifier model %q: its config.json differs from the policy's; the EMA Verifier must have the same architecture", e.opts.Verifier)
		}
		if e.verifier, err = loadWeights(e.opts.Verifier, c); err != nil {
			return err
		}
	}
	if e.base == nil {
		return nil
	}
	if e.verifier == e.policy {
		e.verifier = e.policy.Fork(e.config, e.averaged)
	}
	e.delta = make([]float32, len(e.base.Flat))
	for i, v := range e.verifier.Flat {
		e.delta[i] = v - e.base.Flat[i]
	}
	return e.mergeVerifier()
}

// mergeVerifier brings the Verifier's weights in line with its delta. Also initial weights are rounded as after every
// average, so that a resumed run judges with the same.
func (e *Engine) mergeVerifier() error {
	if e.opts.NoVerifier {
		return nil
	}
	if err := policy.Merge(e.verifier.Flat, e.base.Flat, e.delta); err != nil || !e.opts.VerifierBF16 {
		return err
	}
	return policy.RoundToBF16(e.verifier.Flat, e.base.Flat, e.delta)
}

// trained says whether an update moves a tensor, be it through an adapter.
func (e *Engine) trained(name string) bool {
	if e.opts.Model.Train == "lora" {
		return qwenvl.IsAdapted(name)
	}
	return !e.frozenVision || !qwenvl.IsVision(name)
}

// averaged says whether the Verifier has a tensor of its own. One that starts from other weights differs everywhere.
func (e *Engine) averaged(name string) bool { return e.opts.Verifier != "" || e.trained(name) }

const (
	configFile   = "config.json"
	templatePart = "chat template"
)

// part is a file of the checkpoint folder other than weights.
type part struct {
	name string
	read func() error
}

// parts lists what is read before the weights, in this order.
func (e *Engine) parts() []part {
	return []part{{configFile, e.readConfig}, {"tokenizer.json", e.readTokenizer}, {imageproc.ConfigFile, e.readProcessor},
		{templatePart, e.readTemplate}, {generationFile, e.readDefaults}}
}

func (e *Engine) readConfig() (err error) {
	e.config, err = qwenvl.LoadConfig(filepath.Join(e.dir, configFile))
	return err
}

func (e *Engine) readTokenizer() (err error) {
	if e.tokens, err = tokenizer.Load(filepath.Join(e.dir, "tokenizer.json")); err != nil {
		return err
	}
	if n := e.tokens.VocabSize(); n > e.config.Text.VocabSize {
		return fmt.Errorf("model %q: tokenizer.json has %d tokens, config.json's text_config.vocab_size is %d; they belong to different models", e.dir, n, e.config.Text.VocabSize)
	}
	return nil
}

// readTemplate needs the tokenizer.
func (e *Engine) readTemplate() error {
	source, file, err := readTemplate(e.dir)
	e.templateFile = file
	if err == nil && e.tokens != nil {
		e.template, err = newTemplate(source, &e.config, e.tokens)
	}
	if err != nil {
		return fmt.Errorf("model %q: chat template of %s: %w", e.dir, cmp.Or(file, "trinity, as the folder has none"), err)
	}
	return nil
}

// readProcessor applies the run's image bounds over the checkpoint's.
func (e *Engine) readProcessor() (err error) {
	if e.processor, err = imageproc.LoadConfig(e.dir); err != nil {
		return err
	}
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

var errReadOnly = errors.New("the engine was opened for reading: it has nothing to train, to average or to save")

var errNoVerifier = errors.New("the engine was opened without a Verifier: another model judges")

// prepareTraining allocates what is trained: adapters, or all weights but a frozen vision encoder. An initial adapter is
// trained on, or merged into the weights where there is nothing to go on with.
func (e *Engine) prepareTraining() error {
	m := e.opts.Model
	lora := m.Train == "lora"
	var initial *adapter
	if e.opts.Adapter != "" {
		var err error
		if initial, err = readAdapter(e.opts.Adapter, &e.config); err != nil {
			return err
		}
		if lora && (initial.rank != m.LoRA.Rank || initial.alpha != m.LoRA.Alpha) {
			return fmt.Errorf("adapter %q has rank %d and alpha %g, model.lora.rank and alpha are %d and %g; set model.lora.rank=%d and model.lora.alpha=%g",
				e.opts.Adapter, initial.rank, initial.alpha, m.LoRA.Rank, m.LoRA.Alpha, initial.rank, initial.alpha)
		}
		if !lora {
			initial.mergeInto(e.policy, e.config)
		}
	}
	if m.Train == "" {
		return nil
	}
	e.base = e.policy.Fork(e.config, e.averaged)
	for range e.opts.gradients() {
		e.grads = append(e.grads, qwenvl.NewWeights(e.config, func(name string) bool { return !lora && e.trained(name) }))
	}
	if lora {
		e.prepareAdapters(initial)
	} else {
		weights := map[string]qwenvl.Tensor{}
		for _, t := range e.policy.Tensors {
			weights[t.Name] = t
		}
		for _, g := range e.grads[0].Tensors {
			e.params = append(e.params, optim.Parameter{Weight: weights[g.Name].Data, Grad: g.Data, Decay: qwenvl.Decayed(g.Name, g.Shape), Rate: e.rate(g.Name)})
		}
	}
	e.optimizer = optim.NewAdamW(e.opts.Optimizer, e.trainable())
	return nil
}

func (e *Engine) prepareAdapters(initial *adapter) {
	m, rng := e.opts.Model.LoRA, rand.New(rand.NewPCG(e.opts.Seed, 0x10ad))
	e.adapters, e.adapterGrads = qwenvl.AttachLoRA(e.config, e.policy, e.base, e.grads, m.Rank, float32(m.Alpha/float64(m.Rank)), rng)
	if initial != nil {
		initial.copyTo(e.adapters)
		e.policy.MergeLoRA(new(cpu.Gemm))
	}
	for i, t := range e.adapters.Tensors {
		e.params = append(e.params, optim.Parameter{Weight: t.Data, Grad: e.adapterGrads[0].Tensors[i].Data, Decay: true, Rate: e.rate(t.Name)})
	}
}

func (e *Engine) rate(name string) float32 {
	if e.opts.Rate == nil {
		return 1
	}
	return float32(e.opts.Rate(name))
}

// trainable is the number of parameters that an update moves.
func (e *Engine) trainable() int {
	n := 0
	switch e.opts.Model.Train {
	case "lora":
		for _, t := range qwenvl.AdapterTensors(e.config, e.opts.Model.LoRA.Rank) {
			n += t.Size()
		}
	case "full":
		for _, t := range qwenvl.Layout(e.config) {
			if e.trained(t.Name) {
				n += t.Size()
			}
		}
	}
	return n
}

// Info implements engine.Engine.
func (e *Engine) Info() engine.Info {
	return engine.Info{Architecture: e.architecture(), Parameters: len(e.policy.Flat), Trainable: e.trainable(), VocabSize: e.config.Text.VocabSize,
		Device: fmt.Sprintf("cpu, %d threads, %s", len(e.workers), cpu.Path())}
}

func (e *Engine) architecture() string { return e.config.Architecture() }

// Close implements engine.Engine.
func (e *Engine) Close() error { return nil }

func (e *Engine) weights(slot engine.Slot) (*qwenvl.Weights, error) {
	switch slot {
	case engine.Policy:
		return e.policy, nil
	case engine.Verifier:
		if e.opts.NoVerifier {
			return nil, errNoVerifier
		}
		return e.verifier, nil
	}
	return nil, fmt.Errorf("weight slot %q: the CPU engine has %q and %q", slot, engine.Policy, engine.Verifier)
}

// Average implements engine.Engine for the Verifier as an average of the policy: D <- decay D + (1-decay)(theta - W0), phi = W0 + D.
func (e *Engine) Average(ctx context.Context, dst, src engine.Slot, decay float64) (drift float64, err error) {
	if dst != engine.Verifier || src != engine.Policy {
		return 0, fmt.Errorf("average %q into %q: the CPU engine averages %q into %q", src, dst, engine.Policy, engine.Verifier)
	}
	if e.base == nil {
		return 0, errReadOnly
	}
	if e.opts.NoVerifier {
		return 0, errNoVerifier
	}
	at := 0
	policyWent := 0. // squared distance from the base
	for _, t := range e.policy.Tensors {
		if !e.averaged(t.Name) {
			continue
		}
		end := at + len(t.Data)
		if err := policy.AverageDelta(e.delta[at:end], e.base.Flat[at:end], t.Data, decay); err != nil {
			return 0, err
		}
		d, err := policy.SquaredDistance(t.Data, e.base.Flat[at:end])
		if err != nil {
			return 0, err
		}
		policyWent += d
		at = end
	}
	if err := e.mergeVerifier(); err != nil {
		return 0, err
	}
	e.forgetFeatures(engine.Verifier)
	verifierWent, err := policy.SquaredDistance(e.verifier.Flat, e.base.Flat)
	if err != nil {
		return 0, err
	}
	return math.Sqrt(verifierWent / policyWent), ctx.Err()
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
