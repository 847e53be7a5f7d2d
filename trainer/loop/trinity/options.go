package trinity

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Image is one picture of the corpus.
type Image struct {
	SHA256 string // of Bytes, hexadecimal
	Bytes  []byte // encoded, as found
}

// Corpus is where images come from. The loop never learns more of an image than its bytes.
type Corpus interface {
	Len() int
	// At reads image i; its error skips the image for this step.
	At(i int) (Image, error)
	// Draw returns n image numbers for a step, the same for equal arguments.
	Draw(seed uint64, step, n int) []int
}

// Oracle knows the truth about an image, by its SHA-256. It measures the roles and never rewards them.
type Oracle interface {
	Judge(image, question, answer string) spec.OracleVerdict
	// GradeReasoning returns the true reasoning score; ok is false where there is none.
	GradeReasoning(image, question, reasoning string) (score float64, ok bool)
}

// Options is what a run needs.
type Options struct {
	Config    spec.Config
	Engine    engine.Engine
	Corpus    Corpus
	Oracle    Oracle // nil: no truth is known
	Sink      spec.Sink
	Log       *slog.Logger // nil discards
	Dir       string       // run directory; checkpoints go to Dir/checkpoints
	StartStep int          // first step to run; the engine must hold the weights before it
	Control   *Control     // nil: the run cannot be paused
	// OnStep, if set, is called after each commit, for a progress line.
	OnStep func(step int, s spec.Step)
}

// ErrStopped is returned by Run when its context was cancelled or the run was asked to finish early; the journal says so too.
var ErrStopped = errors.New("run stopped before its last step")

func (o *Options) check() error {
	if err := o.Config.Validate(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	switch {
	case o.Engine == nil, o.Corpus == nil, o.Sink == nil:
		return errors.New("trinity loop: engine, corpus and sink must be given")
	case o.Corpus.Len() == 0:
		return errors.New("the corpus has no usable images; put PNG, JPEG, WebP or GIF files into corpus.path")
	case o.StartStep < 0 || o.StartStep > o.Config.Steps:
		return fmt.Errorf("start step %d is outside the run's %d steps", o.StartStep, o.Config.Steps)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
