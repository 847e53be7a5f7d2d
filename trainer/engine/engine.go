// Package engine is what a training loop asks of a model: named weight slots over one loaded checkpoint, sampling,
// scoring, optimiser updates and averaging. Only text, tokens, images, log-probs and numbers cross it, never tensors.
package engine

import (
	"context"
	"errors"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Slot names a set of weights. Policy is trained; Verifier is its EMA.
type Slot string

// The slots of the Trinity loop.
const (
	Policy   Slot = "policy"
	Verifier Slot = "verifier"
)

// Prompt is one conversation turn to complete, rendered by the engine with the checkpoint's chat template: an optional
// system message, then a user message made of the image (if any) followed by the text. Text is untrusted: special
// tokens inside it are encoded as plain characters. Prompts that agree up to the image share one prefill.
type Prompt struct {
	System string
	Image  string // key given to LoadImage; empty for text only
	User   string
	Prefix string // start of the assistant's turn, such as "<think>\n"; not part of the completion
}

// Key places a completion's randomness: equal keys and weights give equal completions, however requests are batched.
type Key struct {
	Seed    uint64
	Step    int
	Role    string // questioner, solver, screening, ...
	Slot    int    // image slot within the step
	Index   int    // candidate or rollout the call is about
	Attempt int
}

// Request asks for N completions of one prompt; sample n of it draws from Key with the sample number n.
type Request struct {
	Prompt   Prompt
	N        int
	Sampling spec.SamplingConfig
	Key      Key
}

// Completion is one finished sample.
type Completion struct {
	Request int     // index into the requests given to Generate
	Sample  int     // 0..N-1
	Tokens  []int32 // nil of a model that tells their number alone
	// LogProbs are natural log-probabilities [len(Tokens)] over the full vocabulary at temperature 1, so that they compare
	// with Score whatever filters were used for sampling.
	LogProbs  []float32
	Text      string // without special tokens
	Truncated bool   // MaxTokens was reached before the end of the turn
	Counted   int    // where Tokens is nil: how many there were, 0 if that is not known
	Refused   string // why there is no text: the model's server turned the prompt down
}

// Length is the number of tokens.
func (c Completion) Length() int {
	if c.Tokens == nil {
		return c.Counted
	}
	return len(c.Tokens)
}

// Sequence is a prompt with its completion's tokens, as sampled.
type Sequence struct {
	Prompt Prompt
	Tokens []int32
}

// Sample is one rollout of an update.
type Sample struct {
	Sequence
	OldLogProbs []float32 // rollout-policy log-probs [len(Tokens)]; unused by supervised objectives
	Advantage   float64   // unused by supervised objectives
	Weight      float64   // supervised objectives: weight of this sequence's token losses; 0 counts as 1
}

// Objective is a loss. Its kinds are GSPO (Trinity Eq. 3: mean over samples of the sequence-level clipped surrogate plus
// the old-policy regulariser) and Supervised (mean token cross-entropy over all completion tokens).
type Objective struct {
	Kind ObjectiveKind
	GSPO spec.GSPOConfig
}

// ObjectiveKind selects a loss.
type ObjectiveKind string

// The objectives.
const (
	GSPO       ObjectiveKind = "gspo"
	Supervised ObjectiveKind = "supervised"
)

// UpdateStats are means over the samples of one optimiser update.
type UpdateStats struct {
	Loss         float64 // total
	PolicyLoss   float64 // clipped surrogate, or cross-entropy
	Regulariser  float64 // already multiplied by its coefficient
	ClipFraction float64 // share of samples whose gradient clipping removed
	RatioMean    float64
	KL           float64 // mean over tokens of e^l - l - 1
	GradNorm     float64 // before clipping
}

// Format is what Export writes.
type Format string

// The formats. A checkpoint has Hugging Face's layout and merged weights; PEFT is the Policy's LoRA adapter alone.
const (
	CheckpointF32  Format = "f32"
	CheckpointBF16 Format = "bf16" // rounded to nearest: half the size, but small updates are lost
	PEFT           Format = "peft"
)

// Info describes the loaded checkpoint.
type Info struct {
	Architecture string // such as "Qwen3-VL"
	Parameters   int
	Trainable    int
	VocabSize    int
	Device       string // such as "cpu, 2 threads, AVX2"
}

// ErrDamaged is wrapped by Restore where a saved state is incomplete or altered: an older one may be whole.
var ErrDamaged = errors.New("the checkpoint is damaged")

// ErrUnavailable is wrapped by Generate where a model elsewhere cannot be asked at present. Weights are as they were: what was
// asked can be asked again.
var ErrUnavailable = errors.New("the model cannot be asked")

// Engine runs one checkpoint. Methods are called from one goroutine at a time; each returns early with ctx's error.
type Engine interface {
	Info() Info
	// LoadImage decodes and encodes an image under key; a loaded key is kept as it is. The error of an image that cannot be
	// decoded or used wraps imageproc's reason.
	LoadImage(ctx context.Context, key string, encoded []byte) error
	// DropImages forgets all images but those in keep.
	DropImages(keep ...string)
	// Generate samples completions and hands each to emit as soon as it is finished, in no particular order.
	Generate(ctx context.Context, slot Slot, requests []Request, emit func(Completion)) error
	// Score returns log-probs of each sequence's tokens under the training forward pass.
	Score(ctx context.Context, slot Slot, sequences []Sequence) ([][]float32, error)
	// Update does one optimiser update of the policy over all samples at the given learning rate.
	Update(ctx context.Context, samples []Sample, objective Objective, learningRate float64) (UpdateStats, error)
	// Average moves dst towards src: dst <- decay dst + (1-decay) src, on merged weights, in float32. It returns how far dst
	// has come from the checkpoint's weights, as a share of how far src has (L2 norms; NaN where src has not moved).
	Average(ctx context.Context, dst, src Slot, decay float64) (drift float64, err error)
	// Save writes weights of every slot and the optimiser state into dir, whole or not at all, also after a power failure.
	Save(ctx context.Context, dir string) error
	// Restore reads them back exactly. Where files are missing or do not match their checksum the error wraps ErrDamaged; after
	// any error the engine is as it was.
	Restore(ctx context.Context, dir string) error
	// Export writes the slot's weights into the folder dir, for other programs.
	Export(ctx context.Context, slot Slot, format Format, dir string) error
	Close() error
}
