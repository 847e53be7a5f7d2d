// Package runner starts trainers, watches them, takes them over after a restart and works through the queue.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/journal"
)

// Store is what the supervisor needs of the database.
type Store interface {
	Run(ctx context.Context, id string) (experiment.Run, error)
	SetStatus(ctx context.Context, id string, to experiment.Status, reason string, from ...experiment.Status) (experiment.Run, error)
	Claim(ctx context.Context, limit int, except []string) (experiment.Run, bool, error)
	Active(ctx context.Context) ([]experiment.Run, error)
	StartAttempt(ctx context.Context, run string, pid int) error
	EndAttempt(ctx context.Context, run, exit string) error
	LogOffset(ctx context.Context, run string) (int64, error)
	AppendLog(ctx context.Context, run string, from, to int64, lines []experiment.LogLine) error
}

// Ingester moves a run directory's journal into the database.
type Ingester interface {
	Follow(ctx context.Context, run, dir string) error
	Drain(ctx context.Context, run, dir string) error
}

// Options configure a Supervisor.
type Options struct {
	Store    Store
	Ingester Ingester
	RunsDir  string        // absolute; a run lives in RunsDir/ID
	Program  string        // trinity's executable
	Parallel int           // runs at work at once; default 1
	Grace    time.Duration // between asking a trainer to stop and ending it; default 60 s
	Log      *slog.Logger
}

// Supervisor owns the trainers of one data directory. Trainers outlive it.
type Supervisor struct {
	Options
	store Store
	log   *slog.Logger
	wake  chan struct{}

	mu      sync.Mutex
	watched map[string]*watch
}

// watch is a run whose process is looked after.
type watch struct{ stop chan struct{} } // closed once to ask the process to stop

var _ experiment.Supervisor = (*Supervisor)(nil)

// New returns a Supervisor; Run makes it work.
func New(o Options) *Supervisor {
	o.Parallel = max(o.Parallel, 1)
	if o.Grace <= 0 {
		o.Grace = 60 * time.Second
	}
	return &Supervisor{Options: o, store: o.Store, log: o.Log, wake: make(chan struct{}, 1), watched: map[string]*watch{}}
}

// Wake makes the supervisor look at the queue.
func (s *Supervisor) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Stop asks a run's process to stop: SIGTERM to its group, SIGKILL after the grace.
func (s *Supervisor) Stop(id string) {
	s.stopWatched(id)
	s.Wake() // where the process is not watched yet, the next look finds the run stopping
}

// Run takes over the processes that a former server left, then works through the queue until ctx ends. It leaves the
// trainers running and returns when nothing of its own is at work any more.
func (s *Supervisor) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		if err := s.look(ctx, &wg); err != nil && ctx.Err() == nil {
			s.log.Warn("the queue could not be read; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-tick.C:
		}
	}
}

// look watches active runs that nobody watches, and starts queued ones.
func (s *Supervisor) look(ctx context.Context, wg *sync.WaitGroup) error {
	active, err := s.store.Active(ctx)
	if err != nil {
		return err
	}
	for _, run := range active {
		s.mu.Lock()
		w := s.watched[run.ID]
		s.mu.Unlock()
		if w == nil {
			if err := s.takeOver(ctx, wg, run); err != nil {
				return err
			}
		}
		if run.Status == experiment.Stopping {
			s.stopWatched(run.ID)
		}
	}
	for {
		// A run resumed at once waits until its former process has ended and what it left is stored.
		run, ok, err := s.store.Claim(ctx, s.Parallel, s.watching())
		if err != nil || !ok {
			return err
		}
		s.launch(ctx, wg, run)
	}
}

func (s *Supervisor) watching() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.watched))
	for id := range s.watched {
		ids = append(ids, id)
	}
	return ids
}

func (s *Supervisor) stopWatched(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watched[id]; w != nil {
		select {
		case <-w.stop:
		default:
			close(w.stop)
		}
	}
}

func (s *Supervisor) dir(id string) string { return filepath.Join(s.RunsDir, id) }

// takeOver deals with a run that is active in the database but not watched: the server was restarted.
func (s *Supervisor) takeOver(ctx context.Context, wg *sync.WaitGroup, run experiment.Run) error {
	p, ok := find(s.dir(run.ID))
	if ok {
		s.log.Info("took over a run", "run", run.ID, "pid", p.PID)
		s.watch(ctx, wg, run.ID, p)
		return nil
	}
	if run.Status == experiment.Starting && !run.Launched {
		_, err := s.store.SetStatus(ctx, run.ID, experiment.Queued, "", experiment.Starting)
		return err
	}
	s.watch(ctx, wg, run.ID, process{}) // ended already: settles what it left
	return nil
}

// launch starts a claimed run's process.
func (s *Supervisor) launch(ctx context.Context, wg *sync.WaitGroup, run experiment.Run) {
	p, err := s.start(run)
	if err == nil {
		err = s.store.StartAttempt(ctx, run.ID, p.PID)
	}
	if p.PID != 0 {
		s.watch(ctx, wg, run.ID, p)
	}
	if err == nil {
		s.log.Info("started a run", "run", run.ID, "pid", p.PID)
		return
	}
	s.log.Error("a run could not be started", "run", run.ID, "error", err)
	if p.PID != 0 {
		return
	}
	if _, err := s.store.SetStatus(ctx, run.ID, experiment.Failed, err.Error(), experiment.Starting, experiment.Stopping); err != nil && ctx.Err() == nil {
		s.log.Error("a failed start could not be stored", "run", run.ID, "error", err)
	}
}

// start starts a trainer, which continues what is in the journal; a new run's configuration is written first.
func (s *Supervisor) start(run experiment.Run) (process, error) {
	dir := s.dir(run.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return process{}, fmt.Errorf("make the run directory: %w", err)
	}
	args := []string{"resume", dir}
	if !journal.Exists(dir) {
		file := filepath.Join(dir, "launch.yaml")
		text, err := config.Marshal(run.Config)
		if err != nil {
			return process{}, fmt.Errorf("write the run's configuration: %w", err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return process{}, fmt.Errorf("write the run's configuration: %w", err)
		}
		args = []string{"train", "-f", file, "-o", dir}
	}
	cmd := exec.Command(s.Program, args...)
	cmd.Env = append(os.Environ(), "TRINITY_RUN_ID="+run.ID)
	return spawn(cmd, dir)
}

// watch looks after a process in the background until it has ended and all that it left is stored, or ctx ends.
func (s *Supervisor) watch(ctx context.Context, wg *sync.WaitGroup, id string, p process) {
	w := &watch{stop: make(chan struct{})}
	s.mu.Lock()
	s.watched[id] = w
	s.mu.Unlock()
	wg.Go(func() {
		how, ended := s.follow(ctx, id, p, w.stop)
		if ended {
			s.settle(ctx, id, how)
		}
		s.mu.Lock()
		delete(s.watched, id)
		s.mu.Unlock()
		if ended {
			s.Wake()
		}
	})
}

// follow ingests while the process lives and returns how it ended. ended is false where ctx ended first.
func (s *Supervisor) follow(ctx context.Context, id string, p process, stop <-chan struct{}) (how string, ended bool) {
	if p.PID == 0 {
		return "ended while no server watched it", true
	}
	following, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if err := s.Ingester.Follow(following, id, s.dir(id)); err != nil && following.Err() == nil {
			s.log.Error("the run's journal can't be ingested", "run", id, "error", err)
		}
	})
	wg.Go(func() { s.tail(following, id, s.dir(id)) })
	over := make(chan struct{})
	defer close(over)
	wg.Go(func() { s.terminate(following, p, stop, over) })
	return p.wait(ctx.Done())
}

// terminate waits for the wish to stop, asks the process, and ends it after the grace.
func (s *Supervisor) terminate(ctx context.Context, p process, stop, over <-chan struct{}) {
	select {
	case <-stop:
	case <-over:
		return
	case <-ctx.Done():
		return
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-time.After(s.Grace):
		s.log.Warn("the trainer did not stop in time and is ended", "pid", p.PID)
		p.signal(syscall.SIGKILL)
	case <-over:
	case <-ctx.Done():
	}
}

// settle stores what an ended process left and gives the run a terminal status.
func (s *Supervisor) settle(ctx context.Context, id, how string) {
	dir := s.dir(id)
	for {
		err := s.settleOnce(ctx, id, dir, how)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.log.Warn("the end of a run could not be stored; trying again", "run", id, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
	}
}

func (s *Supervisor) settleOnce(ctx context.Context, id, dir, how string) error {
	damage := s.Ingester.Drain(ctx, id, dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.moveLog(ctx, id, dir, true); err != nil {
		return err
	}
	if err := s.store.EndAttempt(ctx, id, "the trainer "+how); err != nil {
		return err
	}
	run, err := s.store.Run(ctx, id)
	if errors.Is(err, experiment.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	to, reason := experiment.Failed, "the trainer "+how
	if words := lastWords(dir); words != "" {
		reason += ": " + words
	}
	if damage != nil {
		reason = damage.Error()
	}
	switch {
	case run.Status.Terminal() || run.Status == experiment.Queued:
		return nil
	case run.Status == experiment.Stopping && damage == nil:
		to, reason = experiment.Stopped, "stopped; the trainer "+how
	}
	_, err = s.store.SetStatus(ctx, id, to, reason, experiment.Starting, experiment.Running, experiment.Paused, experiment.Stopping)
	if errors.Is(err, experiment.ErrConflict) {
		return nil
	}
	return err
}
