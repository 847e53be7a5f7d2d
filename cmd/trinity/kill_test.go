package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// trial is a run of this program in a process of its own.
type trial struct {
	t   *testing.T
	dir string
}

// short are settings that make a wind-tunnel run of twenty steps a matter of seconds, in which policy and Verifier move so
// fast that a part of the state forgotten in a checkpoint shows.
var short = []string{"steps=20", "corpus.images_per_step=2", "corpus.size=40", "questioner.samples=3", "solver.samples=2", "checkpoint.every=1", "checkpoint.keep=2", "threads=2",
	"optimizer.learning_rate=2e-3", "optimizer.warmup_steps=0", "verifier.ema_decay=0.5", "verifier.thinking.temperature=1"}

// start trains, or resumes once the directory holds a run.
func (r trial) start() *exec.Cmd {
	args := []string{"resume", r.dir}
	if !journal.Exists(r.dir) {
		args = []string{"train", "-f", "windtunnel", "-o", r.dir}
		for _, s := range short {
			args = append(args, "--set", s)
		}
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = new(bytes.Buffer)
	require.NoError(r.t, cmd.Start())
	return cmd
}

func (r trial) finish() {
	cmd := r.start()
	require.NoError(r.t, cmd.Wait(), "%s", cmd.Stderr)
}

func (r trial) size() int64 {
	info, err := os.Stat(filepath.Join(r.dir, journal.FileName))
	if err != nil {
		return 0
	}
	return info.Size()
}

// kill ends a process with SIGKILL once the journal has grown by some bytes and a while has passed.
func (r trial) kill(grown int64, after time.Duration) {
	from := r.size()
	cmd := r.start()
	deadline := time.Now().Add(time.Minute)
	for r.size() < from+grown {
		require.True(r.t, time.Now().Before(deadline), "the journal does not grow")
		time.Sleep(time.Millisecond)
	}
	time.Sleep(after)
	require.NoError(r.t, cmd.Process.Kill())
	cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(r.t, status.Signaled() && status.Signal() == syscall.SIGKILL, "it ended before it was killed: %s", cmd.Stderr)
}

func (r trial) records() []spec.Record {
	var out []spec.Record
	for record, err := range journal.Read(r.dir, 0) {
		require.NoError(r.t, err)
		out = append(out, record)
	}
	return out
}

func (r trial) digest() string {
	d, err := journal.Digest(r.dir)
	require.NoError(r.t, err)
	return d
}

// A run that is killed ten times, at random moments, and resumed each time computes what a run left alone computes. The
// draws follow from a seed that is logged and can be set with TRINITY_TEST_SEED; where they fall depends on the machine.
func TestKilledTenTimesAndResumedGivesTheDigestOfAWholeRun(t *testing.T) {
	const kills = 10
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TRINITY_TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))

	whole := trial{t, filepath.Join(t.TempDir(), "whole")}
	begun := time.Now()
	whole.finish()
	all := whole.records()
	load := all[0].Time.Sub(begun)
	steps := all[0].Data.(*spec.Run).Config.Steps
	stepTime := all[len(all)-1].Time.Sub(all[0].Time) / time.Duration(steps)
	stepBytes := float64(whole.size()) / float64(steps)

	// Three kills go by the clock, also while the model is loaded; seven come when up to two and a half steps are written, one
	// in each seventh of that, so that some resumed runs go on from a checkpoint and no run ends before its kill.
	killed := trial{t, filepath.Join(t.TempDir(), "killed")}
	for i, kind := range rng.Perm(kills) {
		grown, after := int64(0), time.Duration(rng.Float64()*float64(load+stepTime))
		if kind -= 3; kind >= 0 {
			grown, after = int64((float64(kind)+rng.Float64())/7*2.5*stepBytes), time.Duration(rng.Float64()*float64(stepTime))
		}
		killed.kill(grown, after)
		where := "before the run's first record"
		if journal.Exists(killed.dir) {
			past := killed.records()
			last := past[len(past)-1]
			where = fmt.Sprintf("behind %d records, the last a %s of step %d", last.Seq, last.Kind, last.Step)
		}
		t.Logf("kill %d: %d bytes and %v on, %s", i+1, grown, after.Round(time.Millisecond), where)
	}
	killed.finish()
	require.Equal(t, whole.digest(), killed.digest())
	sum, err := journal.Verify(killed.dir)
	require.NoError(t, err)
	require.Equal(t, steps, sum.Steps)
	restored := 0
	for _, record := range killed.records() {
		if d, ok := record.Data.(*spec.Rewind); ok && d.ToStep > 0 {
			restored++
		}
	}
	require.GreaterOrEqual(t, restored, 3, "resumed from checkpoints")
}
