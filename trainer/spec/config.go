package spec

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strings"
)

// Builtin prefixes a model or corpus path that names something embedded in the binary, such as "builtin:windtunnel".
const Builtin = "builtin:"

// Config is a whole run. Every constant of the paper is here with its source; presets carry the papers' values.
// YAML and JSON use the same keys; unknown keys are refused by the readers.
type Config struct {
	Name       string           `yaml:"name" json:"name"`             // preset or experiment name, shown in lists
	Loop       string           `yaml:"loop" json:"loop"`             // training algorithm: "trinity"
	Seed       uint64           `yaml:"seed" json:"seed"`             // every random choice of the run derives from it
	Steps      int              `yaml:"steps" json:"steps"`           // outer steps (A.2: 300 for 8B, 500 for 7B)
	Model      ModelConfig      `yaml:"model" json:"model"`           // the policy
	Corpus     CorpusConfig     `yaml:"corpus" json:"corpus"`         // unlabeled images
	Prompts    string           `yaml:"prompts" json:"prompts"`       // prompt set: "windtunnel" or "trinity"
	Questioner RoleConfig       `yaml:"questioner" json:"questioner"` // G candidates an image
	Solver     RoleConfig       `yaml:"solver" json:"solver"`         // K completions a selected question
	Verifier   VerifierConfig   `yaml:"verifier" json:"verifier"`     // EMA copy that judges
	Dispute    DisputeConfig    `yaml:"dispute" json:"dispute"`       // when a consensus contradicts the reference
	Reward     RewardConfig     `yaml:"reward" json:"reward"`         // coefficients of Eq. 1 and Eq. 2
	Optimizer  OptimizerConfig  `yaml:"optimizer" json:"optimizer"`   // AdamW and its schedule
	GSPO       GSPOConfig       `yaml:"gspo" json:"gspo"`             // Eq. 3
	Checkpoint CheckpointConfig `yaml:"checkpoint" json:"checkpoint"` // how often weights are saved
	Threads    int              `yaml:"threads" json:"threads"`       // CPU engine threads; 0 means all cores. Does not change results
}

// ModelConfig names the checkpoint and which of its weights are trained.
type ModelConfig struct {
	Path         string     `yaml:"path" json:"path"`                   // folder in Hugging Face layout, or "builtin:windtunnel"
	Train        string     `yaml:"train" json:"train"`                 // "full" or "lora"
	FreezeVision bool       `yaml:"freeze_vision" json:"freeze_vision"` // A.2: vision encoder and merger are frozen
	LoRA         LoRAConfig `yaml:"lora" json:"lora"`                   // used when train is "lora"
	MinPixels    int        `yaml:"min_pixels" json:"min_pixels"`       // smallest image area after resizing, pixels; 0 keeps the checkpoint's
	MaxPixels    int        `yaml:"max_pixels" json:"max_pixels"`       // largest image area after resizing, pixels; 0 keeps the checkpoint's
	DecodeBatch  int        `yaml:"decode_batch" json:"decode_batch"`   // completions a thread decodes together; 0 means 256. Does not change results
	// GradientCheckpointing keeps only the layers' inputs for the backward pass and computes the rest again. Does not change results.
	GradientCheckpointing bool `yaml:"gradient_checkpointing" json:"gradient_checkpointing,omitempty"`
}

// LoRAConfig is a low-rank adapter on the seven decoder linears (A.2). The update is scaled by Alpha/Rank.
type LoRAConfig struct {
	Rank  int     `yaml:"rank" json:"rank"`
	Alpha float64 `yaml:"alpha" json:"alpha"`
}

// CorpusConfig names the images. Only pixels are read.
type CorpusConfig struct {
	Path          string `yaml:"path" json:"path"`                       // folder of PNG, JPEG, WebP or GIF, or "builtin:windtunnel"
	Size          int    `yaml:"size" json:"size"`                       // figures drawn for "builtin:windtunnel"; ignored for a folder
	ImagesPerStep int    `yaml:"images_per_step" json:"images_per_step"` // A.2: 16 globally for 8B, 32 for 7B
}

// RoleConfig is a generating role.
type RoleConfig struct {
	Samples  int            `yaml:"samples" json:"samples"` // completions an image: G for the Questioner, K for the Solver
	Sampling SamplingConfig `yaml:"sampling" json:"sampling"`
	Thinking string         `yaml:"thinking" json:"thinking"` // "none", "optional", "required", or "prefix" (opening tag in the prompt)
}

// SamplingConfig are decoding settings. Temperature 0 is greedy; TopP 1 and TopK 0 switch those filters off.
type SamplingConfig struct {
	Temperature float64 `yaml:"temperature" json:"temperature"`
	TopP        float64 `yaml:"top_p" json:"top_p"`
	TopK        int     `yaml:"top_k" json:"top_k"`
	MaxTokens   int     `yaml:"max_tokens" json:"max_tokens"`
}

// VerifierConfig is the judge. Its weights start as Model's (or those at Path) and follow the policy by EMA, unless it is
// another model.
type VerifierConfig struct {
	Path     string         `yaml:"path" json:"path"`     // other weights; empty means the policy's. With update "ema" of the same architecture
	Update   string         `yaml:"update" json:"update"` // who judges: "ema" follows the policy, "fixed" never moves, "endpoint" is asked over HTTP
	Endpoint EndpointConfig `yaml:"endpoint,omitempty" json:"endpoint,omitzero"`
	EMADecay float64        `yaml:"ema_decay" json:"ema_decay"`         // A.2: 0.999
	EMABF16  bool           `yaml:"ema_bf16" json:"ema_bf16,omitempty"` // store the average in bfloat16 rather than float32, to show that it stalls
	Gate     bool           `yaml:"gate" json:"gate"`                   // false takes every format-valid candidate as grounded and right: the ablation without a Verifier gate
	Retries  int            `yaml:"retries" json:"retries"`             // A.3: 0 for ordinary calls
	Thinking SamplingConfig `yaml:"thinking" json:"thinking"`           // screening and dispute (A.2: temperature 1.0, top-p 0.95, top-k 20)
	Judging  SamplingConfig `yaml:"judging" json:"judging"`             // response evaluation (A.2: temperature 0.7, top-p 0.8, top-k 20)
}

// EndpointConfig is an OpenAI-compatible server with image input. The key stays in the environment.
type EndpointConfig struct {
	URL            string  `yaml:"url" json:"url"`                                             // base, such as http://127.0.0.1:8000/v1
	Model          string  `yaml:"model" json:"model"`                                         // by the server's name for it
	KeyEnv         string  `yaml:"key_env,omitempty" json:"key_env,omitempty"`                 // environment variable that holds the key, such as OPENAI_API_KEY; empty sends none
	Concurrency    int     `yaml:"concurrency,omitempty" json:"concurrency,omitempty"`         // calls at once; 0 means 8
	Timeout        float64 `yaml:"timeout,omitempty" json:"timeout,omitempty"`                 // of a whole call, seconds; 0 means 300
	ConnectTimeout float64 `yaml:"connect_timeout,omitempty" json:"connect_timeout,omitempty"` // seconds; 0 means 10
	Attempts       int     `yaml:"attempts,omitempty" json:"attempts,omitempty"`               // tries of a call, the first included; 0 means 10
}

// DisputeConfig is dispute resolution (section 2 and A.3).
type DisputeConfig struct {
	Enabled   bool    `yaml:"enabled" json:"enabled"`
	Threshold float64 `yaml:"threshold" json:"threshold"` // majority share of formatted answers, rounded up: 0.75
	MinimumN  int     `yaml:"minimum_n" json:"minimum_n"` // formatted answers needed: 2
	Retries   int     `yaml:"retries" json:"retries"`     // at least 2; after them the majority is adopted
}

// RewardConfig are the coefficients of Eq. 1 (alpha_q, beta_q, rho_f) and Eq. 2 (w_c, w_r, w_f).
type RewardConfig struct {
	AlphaQ float64 `yaml:"alpha_q" json:"alpha_q"`
	BetaQ  float64 `yaml:"beta_q" json:"beta_q"`
	RhoF   float64 `yaml:"rho_f" json:"rho_f"`
	WC     float64 `yaml:"w_c" json:"w_c"`
	WR     float64 `yaml:"w_r" json:"w_r"`
	WF     float64 `yaml:"w_f" json:"w_f"`
}

// OptimizerConfig is AdamW with linear warm-up and cosine decay over the run's steps.
type OptimizerConfig struct {
	LearningRate  float64 `yaml:"learning_rate" json:"learning_rate"` // A.2: 1e-5
	WeightDecay   float64 `yaml:"weight_decay" json:"weight_decay"`   // A.2: 0.1
	Beta1         float64 `yaml:"beta1" json:"beta1"`
	Beta2         float64 `yaml:"beta2" json:"beta2"`
	Epsilon       float64 `yaml:"epsilon" json:"epsilon"`
	WarmupSteps   int     `yaml:"warmup_steps" json:"warmup_steps"`     // A.2: 5
	MinimumFactor float64 `yaml:"minimum_factor" json:"minimum_factor"` // cosine ends at this share of the peak
	GradientClip  float64 `yaml:"gradient_clip" json:"gradient_clip"`   // global L2 norm; 0 switches clipping off
	Epochs        int     `yaml:"epochs" json:"epochs"`                 // A.2: 1 pass over the retained rollouts
	MiniBatches   int     `yaml:"mini_batches" json:"mini_batches"`     // optimiser updates a pass; clipping acts from the second on
	Alternate     int     `yaml:"alternate" json:"alternate,omitempty"` // steps a role is updated before the other's turn, the Questioner first; 0 updates both at once
}

// GSPOConfig is the sequence-level clipped objective with the old-policy regulariser (Eq. 3).
type GSPOConfig struct {
	ClipLow     float64 `yaml:"clip_low" json:"clip_low"`       // A.2: 3e-4
	ClipHigh    float64 `yaml:"clip_high" json:"clip_high"`     // A.2: 4e-4
	Regulariser float64 `yaml:"regulariser" json:"regulariser"` // A.2: 0.10
}

// CheckpointConfig says when a run saves itself.
type CheckpointConfig struct {
	Every int `yaml:"every" json:"every"` // steps between checkpoints; the last step always saves
	Keep  int `yaml:"keep" json:"keep"`   // newest checkpoints kept
}

// FieldError is one invalid setting; Field is its dotted key, such as "gspo.clip_low".
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (e FieldError) Error() string { return e.Field + ": " + e.Message }

// Validate checks ranges and names. The error joins one FieldError per fault.
func (c *Config) Validate() error {
	var v validator
	v.oneOf("loop", c.Loop, "trinity")
	v.atLeast("steps", c.Steps, 1)
	v.notEmpty("model.path", c.Model.Path)
	v.oneOf("model.train", c.Model.Train, "full", "lora")
	if c.Model.Train == "lora" {
		v.atLeast("model.lora.rank", c.Model.LoRA.Rank, 1)
		v.positive("model.lora.alpha", c.Model.LoRA.Alpha)
	}
	v.atLeast("model.min_pixels", c.Model.MinPixels, 0)
	v.atLeast("model.max_pixels", c.Model.MaxPixels, c.Model.MinPixels)
	v.atLeast("model.decode_batch", c.Model.DecodeBatch, 0)
	v.notEmpty("corpus.path", c.Corpus.Path)
	v.atLeast("corpus.images_per_step", c.Corpus.ImagesPerStep, 1)
	if strings.HasPrefix(c.Corpus.Path, Builtin) {
		v.atLeast("corpus.size", c.Corpus.Size, c.Corpus.ImagesPerStep)
	}
	v.oneOf("prompts", c.Prompts, "windtunnel", "trinity")
	c.validateRoles(&v)
	c.validateOptimization(&v)
	v.atLeast("checkpoint.every", c.Checkpoint.Every, 1)
	v.atLeast("checkpoint.keep", c.Checkpoint.Keep, 1)
	v.atLeast("threads", c.Threads, 0)
	return errors.Join(v.errs...)
}

func (c *Config) validateRoles(v *validator) {
	v.atLeast("questioner.samples", c.Questioner.Samples, 1)
	v.sampling("questioner.sampling", c.Questioner.Sampling)
	v.oneOf("questioner.thinking", c.Questioner.Thinking, "none", "optional", "required", "prefix")
	v.atLeast("solver.samples", c.Solver.Samples, 1)
	v.sampling("solver.sampling", c.Solver.Sampling)
	v.oneOf("solver.thinking", c.Solver.Thinking, "required", "prefix")
	v.oneOf("verifier.update", c.Verifier.Update, "ema", "fixed", "endpoint")
	c.validateEndpoint(v)
	v.within("verifier.ema_decay", c.Verifier.EMADecay, 0, 1)
	v.atLeast("verifier.retries", c.Verifier.Retries, 0)
	v.sampling("verifier.thinking", c.Verifier.Thinking)
	v.sampling("verifier.judging", c.Verifier.Judging)
	v.within("dispute.threshold", c.Dispute.Threshold, 0.5, 1)
	v.atLeast("dispute.minimum_n", c.Dispute.MinimumN, 2)
	v.atLeast("dispute.retries", c.Dispute.Retries, 2)
	for _, w := range []struct {
		field string
		value float64
	}{{"alpha_q", c.Reward.AlphaQ}, {"beta_q", c.Reward.BetaQ}, {"rho_f", c.Reward.RhoF}, {"w_c", c.Reward.WC}, {"w_r", c.Reward.WR}, {"w_f", c.Reward.WF}} {
		v.within("reward."+w.field, w.value, 0, 10)
	}
}

// keyName is what a variable with a key may be called: a run cannot be made to send other secrets of its machine.
var keyName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*_API_KEY$`)

// validateEndpoint never repeats what may be a secret in the wrong place.
func (c *Config) validateEndpoint(v *validator) {
	e := c.Verifier.Endpoint
	if c.Verifier.Update != "endpoint" {
		if e.URL != "" {
			v.fail("verifier.endpoint.url", "is given, but verifier.update is %q; set verifier.update to endpoint, or leave the address out", c.Verifier.Update)
		}
		return
	}
	if c.Verifier.Path != "" {
		v.fail("verifier.path", "is given, but verifier.update is endpoint, which has weights of its own; leave it empty")
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		v.fail("verifier.endpoint.url", "is no address; give one such as http://127.0.0.1:8000/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		v.fail("verifier.endpoint.url", "has a user, a query or a fragment; give the bare address, and the key by verifier.endpoint.key_env")
	}
	v.notEmpty("verifier.endpoint.model", e.Model)
	if e.KeyEnv != "" && !keyName.MatchString(e.KeyEnv) {
		v.fail("verifier.endpoint.key_env", "is not the name of an environment variable that ends in _API_KEY; put the key into one, such as VERIFIER_API_KEY, and give its name")
	}
	if e.Concurrency < 0 || e.Concurrency > 1024 {
		v.fail("verifier.endpoint.concurrency", "is %d; use 1 to 1024, or 0 for 8", e.Concurrency)
	}
	v.within("verifier.endpoint.timeout", e.Timeout, 0, 86400)
	v.within("verifier.endpoint.connect_timeout", e.ConnectTimeout, 0, 3600)
	if e.Attempts < 0 || e.Attempts > 1000 {
		v.fail("verifier.endpoint.attempts", "is %d; use 1 to 1000, or 0 for 10", e.Attempts)
	}
}

func (c *Config) validateOptimization(v *validator) {
	v.positive("optimizer.learning_rate", c.Optimizer.LearningRate)
	v.within("optimizer.weight_decay", c.Optimizer.WeightDecay, 0, 1)
	v.within("optimizer.beta1", c.Optimizer.Beta1, 0, 0.9999)
	v.within("optimizer.beta2", c.Optimizer.Beta2, 0, 0.99999)
	v.positive("optimizer.epsilon", c.Optimizer.Epsilon)
	v.atLeast("optimizer.warmup_steps", c.Optimizer.WarmupSteps, 0)
	v.within("optimizer.minimum_factor", c.Optimizer.MinimumFactor, 0, 1)
	v.within("optimizer.gradient_clip", c.Optimizer.GradientClip, 0, 1e6)
	v.atLeast("optimizer.epochs", c.Optimizer.Epochs, 1)
	v.atLeast("optimizer.mini_batches", c.Optimizer.MiniBatches, 1)
	v.atLeast("optimizer.alternate", c.Optimizer.Alternate, 0)
	v.within("gspo.clip_low", c.GSPO.ClipLow, 0, 1)
	v.within("gspo.clip_high", c.GSPO.ClipHigh, 0, 10)
	v.within("gspo.regulariser", c.GSPO.Regulariser, 0, 100)
}

// validator collects field errors.
type validator struct{ errs []error }

func (v *validator) fail(field, format string, args ...any) {
	v.errs = append(v.errs, FieldError{field, fmt.Sprintf(format, args...)})
}

func (v *validator) notEmpty(field, s string) {
	if strings.TrimSpace(s) == "" {
		v.fail(field, "is empty; give a value")
	}
}

func (v *validator) oneOf(field, s string, allowed ...string) {
	for _, a := range allowed {
		if s == a {
			return
		}
	}
	v.fail(field, "is %q; use one of %s", s, strings.Join(allowed, ", "))
}

func (v *validator) atLeast(field string, n, low int) {
	if n < low {
		v.fail(field, "is %d; use %d or more", n, low)
	}
}

func (v *validator) positive(field string, x float64) {
	if !(x > 0) || math.IsInf(x, 0) {
		v.fail(field, "is %g; use a positive number", x)
	}
}

func (v *validator) within(field string, x, low, high float64) {
	if !(x >= low && x <= high) {
		v.fail(field, "is %g; use %g to %g", x, low, high)
	}
}

func (v *validator) sampling(field string, s SamplingConfig) {
	v.within(field+".temperature", s.Temperature, 0, 10)
	if !(s.TopP > 0 && s.TopP <= 1) {
		v.fail(field+".top_p", "is %g; use above 0, up to 1", s.TopP)
	}
	v.atLeast(field+".top_k", s.TopK, 0)
	v.atLeast(field+".max_tokens", s.MaxTokens, 1)
}
