package trinity

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-lab/trinity/trainer/engine"
	prompts "github.com/trinity-lab/trinity/trainer/prompt"
	"github.com/trinity-lab/trinity/trainer/spec"
)

type (
	template = prompts.Template
	values   = prompts.Values
)

// runner is a run in progress.
type runner struct {
	Options
	prompts prompts.Set
	sinkMu  sync.Mutex
	saved   int  // the last checkpoint's Next; -1 before the first
	dirty   bool // an update has begun and is not committed: the weights belong to no step
}

// Run trains from StartStep to the last step. It writes every record but the run's first; the last one, an end record, is
// written unless the sink itself failed. Where a Verifier elsewhere cannot be asked, the run stops with its committed steps
// saved, and the error wraps engine.ErrUnavailable. Once ctx is cancelled, a step that has not reached its update is dropped, another is
// finished; then the weights are checkpointed. Run returns ErrStopped after a stop, and nil once all steps are done.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	set, err := prompts.Load(o.Config.Prompts)
	if err != nil {
		return err
	}
	r := &runner{Options: o, prompts: set, saved: -1}
	if o.StartStep > 0 {
		r.saved = o.StartStep
	}
	next, err := r.steps(ctx)
	return r.end(ctx, next, err)
}

// steps runs until the last step, a stop or a failure, and returns the first step not committed.
func (r *runner) steps(ctx context.Context) (int, error) {
	for n := r.StartStep; n < r.Config.Steps; n++ {
		if !r.Control.wait(ctx) {
			return n, ErrStopped
		}
		s := &step{runner: r, n: n, tokens: map[string]int{}, seconds: map[string]float64{}}
		if err := s.run(ctx); err != nil {
			return n, err
		}
		if asked := r.Control.takeCheckpoint(); asked || (n+1)%r.Config.Checkpoint.Every == 0 || n+1 == r.Config.Steps {
			if err := r.checkpoint(ctx, n+1); err != nil {
				return n + 1, err
			}
		}
	}
	return r.Config.Steps, nil
}

// end writes how the run ended. A stopped run is saved where it stands, so that resuming loses no committed step.
func (r *runner) end(ctx context.Context, next int, err error) error {
	stopped := errors.Is(err, ErrStopped) || ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
	unavailable := errors.Is(err, engine.ErrUnavailable)
	end := spec.End{Status: "completed"}
	switch {
	case stopped, unavailable:
		end = spec.End{Status: "stopped", Reason: fmt.Sprintf("stopped before step %d", next)}
		if unavailable {
			end.Reason += ": " + err.Error()
		} else {
			err = ErrStopped
		}
		if !r.dirty && next > 0 && r.saved != next {
			if failed := r.checkpoint(context.WithoutCancel(ctx), next); failed != nil {
				err = errors.Join(err, failed)
			}
		}
	case err != nil:
		end = spec.End{Status: "failed", Reason: err.Error()}
	}
	if failed := r.append(spec.KindEnd, max(0, next-1), &end); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// append writes a record; callers may be concurrent.
func (r *runner) append(kind spec.Kind, step int, data any) error {
	r.sinkMu.Lock()
	defer r.sinkMu.Unlock()
	return r.Sink.Append(kind, step, data)
}

// append writes a record of the step.
func (s *step) append(kind spec.Kind, data any) error { return s.runner.append(kind, s.n, data) }

// log writes a line to the journal and the process's log.
func (s *step) log(level, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	switch level {
	case "warn":
		s.Log.Warn(message, "step", s.n)
	default:
		s.Log.Info(message, "step", s.n)
	}
	return s.append(spec.KindLog, &spec.Log{Level: level, Message: message})
}
