package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/ingest"
	"github.com/trinity-lab/trinity/server/postgres"
	"github.com/trinity-lab/trinity/server/servertest"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

var pg servertest.Postgres

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && (os.Args[1] == "train" || os.Args[1] == "resume") {
		os.Exit(train(os.Args[1:]))
	}
	pg.Main(m)
}

// train stands in for the trainer: it writes a journal and behaves as the run's name says.
func train(args []string) int {
	dir := args[len(args)-1]
	if args[0] == "resume" {
		w, err := journal.Open(dir)
		if err != nil {
			return 1
		}
		w.Append(spec.KindRewind, 0, &spec.Rewind{})
		w.Append(spec.KindEnd, 0, &spec.End{Status: "completed"})
		return 0
	}
	cfg, err := config.Load(args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "trinity:", err)
		return 2
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	fmt.Fprintf(os.Stderr, "training as %s\nprogress 1\rprogress 2\ntime=x level=WARN msg=journalled\n", os.Getenv("TRINITY_RUN_ID"))
	if cfg.Name == "refuses" {
		fmt.Fprintln(os.Stderr, "trinity: corpus.path: no such folder")
		return 2
	}
	w, err := journal.Create(dir)
	if err != nil {
		return 1
	}
	w.Append(spec.KindRun, 0, &spec.Run{ID: os.Getenv("TRINITY_RUN_ID"), Config: cfg})
	for step := range cfg.Steps {
		key := spec.EpisodeKey{Image: servertest.Image(0)}
		w.Append(spec.KindCandidate, step, &spec.Candidate{EpisodeKey: key, Question: "q"})
		w.Append(spec.KindStep, step, &spec.Step{Metrics: map[string]spec.Float{spec.MetricRFact: 1}})
		if cfg.Name == "crashes" && step == 1 {
			panic("the GPU is on fire")
		}
		select {
		case <-terminate:
			if cfg.Name != "stubborn" {
				w.Append(spec.KindEnd, step, &spec.End{Status: "stopped", Reason: "asked to"})
				time.Sleep(300 * time.Millisecond) // the run is stopped in the database before its process has ended
				return 0
			}
		case <-time.After(30 * time.Millisecond):
		}
	}
	w.Append(spec.KindEnd, cfg.Steps-1, &spec.End{Status: "completed"})
	return 0
}

// lab is a store, a runs directory and a running supervisor.
type lab struct {
	t       *testing.T
	store   *postgres.Store
	runs    string
	service *experiment.Service
	stop    func() // ends the supervisor, not the trainers
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, store: pg.Store(t), runs: t.TempDir()}
	l.start()
	t.Cleanup(func() {
		l.stop()
		dirs, err := filepath.Glob(filepath.Join(l.runs, "*"))
		require.NoError(t, err)
		for _, dir := range dirs { // a trainer that has written its end may take a second to exit
			require.Eventually(t, func() bool { _, alive := find(dir); return !alive }, 60*time.Second, 10*time.Millisecond)
		}
	})
	return l
}

func (l *lab) start() {
	log := slog.New(slog.DiscardHandler)
	s := New(Options{Store: l.store, Ingester: ingest.New(l.store, ingest.NewImages(filepath.Join(l.runs, "images")), log),
		RunsDir: l.runs, Program: os.Args[0], Grace: 500 * time.Millisecond, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	l.stop = func() { cancel(); <-done }
	l.service = experiment.NewService(l.store, s, nil, l.runs, time.Now)
}

func (l *lab) create(name string, steps int) experiment.Run {
	l.t.Helper()
	cfg := servertest.Config(l.t, steps)
	cfg.Name = name
	run, err := l.service.Create(l.t.Context(), experiment.Draft{Config: &cfg})
	require.NoError(l.t, err)
	return run
}

func (l *lab) get(id string) experiment.Run {
	l.t.Helper()
	run, err := l.store.Run(l.t.Context(), id)
	require.NoError(l.t, err)
	return run
}

func (l *lab) await(id string, is func(experiment.Run) bool) experiment.Run {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return is(l.get(id)) }, 60*time.Second, 10*time.Millisecond)
	return l.get(id)
}

func terminal(r experiment.Run) bool { return r.Status.Terminal() }
func step(n int) func(experiment.Run) bool {
	return func(r experiment.Run) bool { return r.Done >= n }
}

func TestRunsToTheEndOneAtATime(t *testing.T) {
	l := newLab(t)
	first, second := l.create("works", 60), l.create("works", 2)
	l.await(first.ID, func(r experiment.Run) bool { return r.Status == experiment.Running })
	require.Equal(t, experiment.Queued, l.get(second.ID).Status)
	got := l.await(first.ID, terminal)
	require.Equal(t, experiment.Completed, got.Status)
	require.Equal(t, 60, got.Done)
	require.Equal(t, experiment.Completed, l.await(second.ID, terminal).Status)
	require.False(t, l.get(second.ID).Started.Before(*got.Ended), "the second waits for the first")

	require.Eventually(t, func() bool {
		attempts, err := l.store.Attempts(t.Context(), first.ID)
		return err == nil && len(attempts) == 1 && attempts[0].Exit == "the trainer ended with exit status 0"
	}, 5*time.Second, 10*time.Millisecond)
	logs, err := l.store.LastEvents(t.Context(), first.ID, 10, experiment.EventLog)
	require.NoError(t, err)
	require.Len(t, logs, 2)
	require.Contains(t, string(logs[0].Data), "training as "+first.ID)
	require.Contains(t, string(logs[1].Data), `"progress 2"`)
}

func TestCrashAndRefusalSayWhy(t *testing.T) {
	l := newLab(t)
	crashed, refused := l.create("crashes", 4), l.create("refuses", 4)
	got := l.await(crashed.ID, terminal)
	require.Equal(t, experiment.Failed, got.Status)
	require.Contains(t, got.Error, "ended with exit status 2: panic: the GPU is on fire")
	require.Equal(t, 2, got.Done)
	got = l.await(refused.ID, terminal)
	require.Equal(t, experiment.Failed, got.Status)
	require.Contains(t, got.Error, "corpus.path: no such folder")
}

func TestStop(t *testing.T) {
	l := newLab(t)
	run, waiting := l.create("works", 1000), l.create("works", 1000)
	l.await(run.ID, step(1))
	stopped, err := l.service.Stop(t.Context(), waiting.ID)
	require.NoError(t, err)
	require.Equal(t, experiment.Stopped, stopped.Status, "a queued run stops at once")
	_, err = l.service.Stop(t.Context(), run.ID)
	require.NoError(t, err)
	got := l.await(run.ID, terminal)
	require.Equal(t, experiment.Stopped, got.Status)
	require.Equal(t, "asked to", got.Error)
	_, err = l.service.Stop(t.Context(), run.ID)
	require.ErrorIs(t, err, experiment.ErrConflict)
	_, err = l.service.Stop(t.Context(), "0000000000000000")
	require.ErrorIs(t, err, experiment.ErrNotFound)

	_, err = l.service.Resume(t.Context(), run.ID)
	require.NoError(t, err)
	got = l.await(run.ID, func(r experiment.Run) bool { return r.Status == experiment.Completed })
	require.Empty(t, got.Error)
	attempts, err := l.store.Attempts(t.Context(), run.ID)
	require.NoError(t, err)
	require.Len(t, attempts, 2, "it waited for the first process")
	require.False(t, attempts[1].Started.Before(*attempts[0].Ended))
}

func TestStubbornTrainerIsKilled(t *testing.T) {
	l := newLab(t)
	run := l.create("stubborn", 1000)
	l.await(run.ID, step(1))
	_, err := l.service.Stop(t.Context(), run.ID)
	require.NoError(t, err)
	got := l.await(run.ID, terminal)
	require.Equal(t, experiment.Stopped, got.Status)
	require.Contains(t, got.Error, "signal 9")
}

func TestTrainerOutlivesItsServer(t *testing.T) {
	l := newLab(t)
	run := l.create("works", 40)
	l.await(run.ID, step(2))
	l.stop()
	before := l.get(run.ID).Done
	time.Sleep(150 * time.Millisecond)
	require.Equal(t, before, l.get(run.ID).Done, "nobody ingests")
	l.start()
	l.await(run.ID, step(before+4))
	got := l.await(run.ID, terminal)
	require.Equal(t, experiment.Completed, got.Status)
	require.Equal(t, 40, got.Done)
}

func TestRestartWithoutAProcessFile(t *testing.T) {
	l := newLab(t)
	run := l.create("works", 1000)
	l.await(run.ID, step(2))
	l.stop()
	require.NoError(t, os.Remove(filepath.Join(l.runs, run.ID, pidFile)))
	l.start()
	l.await(run.ID, step(10))
	_, err := l.service.Stop(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, "asked to", l.await(run.ID, terminal).Error)
}

func TestTrainerKilledWhileNoServerWatched(t *testing.T) {
	l := newLab(t)
	run := l.create("works", 1000)
	l.await(run.ID, step(2))
	l.stop()
	p, ok := find(filepath.Join(l.runs, run.ID))
	require.True(t, ok)
	require.NoError(t, syscall.Kill(p.PID, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !p.alive() }, 5*time.Second, 5*time.Millisecond)
	l.start()
	got := l.await(run.ID, terminal)
	require.Equal(t, experiment.Failed, got.Status)
	require.Contains(t, got.Error, "while no server watched it")
}

func TestClaimedButNeverStartedGoesBackToTheQueue(t *testing.T) {
	l := newLab(t)
	l.stop()
	run := l.create("works", 2)
	_, ok, err := l.store.Claim(t.Context(), 1, []string{})
	require.NoError(t, err)
	require.True(t, ok)
	l.start()
	require.Equal(t, experiment.Completed, l.await(run.ID, terminal).Status)
}

// What a trainer killed at its very start leaves cannot be resumed, and must not stop it from being started again.
func TestJournalWithoutARecordIsStartedAnew(t *testing.T) {
	l := newLab(t)
	l.stop()
	run := l.create("works", 2)
	dir := filepath.Join(l.runs, run.ID)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, journal.FileName), nil, 0o600))
	l.start()
	got := l.await(run.ID, terminal)
	require.Equal(t, experiment.Completed, got.Status)
	require.Equal(t, 2, got.Done)
}

func TestProcessNumberUsedAgainIsNotTheTrainer(t *testing.T) {
	dir := t.TempDir()
	p := process{PID: os.Getpid(), Born: "an earlier boot/17"}
	require.NoError(t, p.write(dir))
	_, ok := find(dir)
	require.False(t, ok)
	p.signal(syscall.SIGKILL) // must not reach this process
	require.Empty(t, born(1<<22+1))
}

func TestLogFloodIsBounded(t *testing.T) {
	lines := logLines([]byte(strings.Repeat("x\n", 1000) + strings.Repeat("y", 10000)))
	require.Len(t, lines, maxLogLines+1)
	require.Contains(t, lines[maxLogLines].Message, "801 more lines")
}
