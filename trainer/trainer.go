// Package trainer runs a training from its configuration: it opens the corpus, the model and the journal, and hands them to
// the loop. The command line and the server's child processes both start here.
package trainer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/loop/trinity"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Files of a run directory beside the journal and checkpoints.
const (
	ConfigFile  = "config.yaml" // the configuration as it ran
	PIDFile     = "pid"         // of the running process; gone when none runs
	ModelDir    = "model"       // a built-in model, written out
	VerifierDir = "verifier"    // the same of verifier.path
	ImagesDir   = "images"      // every image used, by its SHA-256
)

// ErrInput is wrapped by errors about what the caller gave: configuration, paths, run directory.
var ErrInput = errors.New("bad input")

// ErrCompleted is returned by Resume where every step is done.
var ErrCompleted = errors.New("the run is complete; nothing is left to do")

// ErrStopped is returned where the run was stopped before its last step. Resume continues it.
var ErrStopped = trinity.ErrStopped

// Options are optional.
type Options struct {
	Log     *slog.Logger
	Version string // of the program, for the run record
	ID      string // of a new run: 16 hexadecimal digits; empty draws one
	Control *trinity.Control
	// OnEngine is called with the run's engine once it is open.
	OnEngine func(engine.Engine)
	// OnStart is called once the journal is open and the model loaded; OnStep after each commit.
	OnStart func(run spec.Run, from int)
	OnStep  func(step int, s spec.Step)
}

// Run starts a run in dir, which must hold no journal yet. Relative paths in cfg are taken from the working directory.
// It returns nil when every step is done, ErrStopped after a cancelled ctx, and an error wrapping ErrInput where nothing
// was started because of what was given.
func Run(ctx context.Context, cfg spec.Config, dir string, o Options) error {
	if err := cfg.Validate(); err != nil {
		return input(fmt.Errorf("configuration: %w", err))
	}
	if err := absolutePaths(&cfg); err != nil {
		return input(err)
	}
	if o.ID != "" && !validID.MatchString(o.ID) {
		return input(fmt.Errorf("run id %q: use 16 hexadecimal digits in lower case", o.ID))
	}
	source, err := openSource(cfg)
	if err != nil {
		return input(err)
	}
	defer source.close()
	if err := checkModel("model.path", cfg.Model.Path); err != nil {
		return input(err)
	}
	if err := checkVerifier(cfg); err != nil {
		return input(err)
	}
	w, err := journal.Create(dir)
	if errors.Is(err, journal.ErrExists) || errors.Is(err, journal.ErrLocked) {
		return input(err)
	}
	if err != nil {
		return err
	}
	defer w.Close()
	if o.ID == "" {
		o.ID = newID()
	}
	run := spec.Run{ID: o.ID, Config: cfg, Corpus: source.name, Skipped: source.skipped, Version: o.Version}
	return start(ctx, w, source, past{run: run}, dir, o)
}

// Resume continues the run in dir from its last checkpoint that is whole, or from the start if it has none. Later steps are
// rewound.
func Resume(ctx context.Context, dir string, o Options) error {
	w, err := journal.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return input(fmt.Errorf("%q holds no run: %w", dir, err))
	}
	if errors.Is(err, journal.ErrLocked) {
		return input(err)
	}
	if err != nil {
		return err
	}
	defer w.Close()
	past, err := readPast(dir)
	if err != nil {
		return err
	}
	if past.completed {
		return ErrCompleted
	}
	source, err := openSource(past.run.Config)
	if err != nil {
		return input(err)
	}
	defer source.close()
	return start(ctx, w, source, past, dir, o)
}

// start opens the engine and runs the loop. A new run's first record is written here, or where a resumed one goes on, and the
// end record if the engine cannot be opened: from there on the loop writes it.
func start(ctx context.Context, w *journal.Writer, source *source, p past, dir string, o Options) error {
	source.keep = filepath.Join(dir, ImagesDir)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	remove, err := writePID(dir)
	if err != nil {
		return err
	}
	defer remove()
	run, from, fresh := p.run, p.last(), w.Position().Seq == 0
	warn := func(format string, args ...any) error {
		message := fmt.Sprintf(format, args...)
		o.Log.Warn(message)
		return w.Append(spec.KindLog, from, &spec.Log{Level: "warn", Message: message})
	}
	if n := w.Torn(); n > 0 && !fresh {
		if err := warn("%d bytes of an unfinished record were cut off the journal", n); err != nil {
			return err
		}
	}
	e, err := openEngine(dir, run.Config)
	if err == nil {
		defer func() { _ = e.Close() }()
		if o.OnEngine != nil {
			o.OnEngine(e)
		}
		var with engine.Engine
		if with, err = openVerifier(dir, run.Config, e, o.Log); err == nil {
			e = with
		}
	}
	if err == nil {
		info := e.Info()
		run.Model = fmt.Sprintf("%s %s", info.Architecture, count(info.Parameters))
		from, err = p.restore(ctx, e, warn)
	}
	if fresh {
		err = errors.Join(err, writeConfig(dir, run.Config), w.Append(spec.KindRun, 0, &run))
	}
	if err != nil {
		return errors.Join(err, w.Append(spec.KindEnd, max(0, from-1), &spec.End{Status: "failed", Reason: err.Error()}))
	}
	if !fresh {
		if err := w.Append(spec.KindRewind, from, &spec.Rewind{ToStep: from}); err != nil {
			return err
		}
	}
	if o.OnStart != nil {
		o.OnStart(run, from)
	}
	loop := trinity.Options{Config: run.Config, Engine: e, Corpus: source, Sink: w, Log: o.Log, Dir: dir, StartStep: from, Control: o.Control, OnStep: o.OnStep}
	if source.oracle != nil {
		loop.Oracle = source.oracle
	}
	return trinity.Run(ctx, loop)
}

// absolutePaths makes the run independent of the working directory, so that it can be resumed from anywhere.
func absolutePaths(cfg *spec.Config) error {
	for _, p := range []*string{&cfg.Model.Path, &cfg.Corpus.Path, &cfg.Verifier.Path} {
		if *p == "" || strings.HasPrefix(*p, spec.Builtin) {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("path %q: %w", *p, err)
		}
		*p = abs
	}
	return nil
}

func writeConfig(dir string, cfg spec.Config) error {
	text, err := config.Marshal(cfg)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ConfigFile), text, 0o644)
}

// writePID leaves this process's number in dir and returns how to take it away again.
func writePID(dir string) (func(), error) {
	name := filepath.Join(dir, PIDFile)
	if err := os.WriteFile(name, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
		return nil, fmt.Errorf("write pid file: %w", err)
	}
	return func() { _ = os.Remove(name) }, nil
}

var validID = regexp.MustCompile(`^[0-9a-f]{16}$`)

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// count writes a number of parameters as people do: 1.2M, 8.8B.
func count(n int) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0fK", float64(n)/1e3)
}

func input(err error) error { return fmt.Errorf("%w: %w", ErrInput, err) }
