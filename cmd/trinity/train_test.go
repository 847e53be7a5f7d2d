package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// invoke runs the program as main does.
func invoke(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(&Context{Ctx: context.Background(), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err}, args)
	return code, out.String(), err.String()
}

func TestTrainRefusesBadInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("extends: windtunnel\nsolver:\n  sample: 3\n"), 0o644))
	for want, args := range map[string][]string{
		`did you mean "windtunnel"?`:                  {"train", "-f", "windtunel", "-o", dir},
		`bad.yaml:3: solver.sample: is not a setting`: {"train", "-f", bad, "-o", dir},
		`steps: is 0; use 1 or more`:                  {"train", "-f", "windtunnel", "-o", dir, "--set", "steps=0"},
		`did you mean "gspo.clip_low"?`:               {"train", "-f", "windtunnel", "-o", dir, "--set", "clip_low=0.1"},
		`corpus.path`:                                 {"train", "-f", "windtunnel", "-o", dir, "--set", "corpus.path=/nonexistent"},
		`no checkpoint in`:                            {"train", "-f", "windtunnel", "-o", dir, "--set", "model.path=/nonexistent"},
		`holds no run`:                                {"resume", dir},
		`missing flags`:                               {"train"},
	} {
		code, stdout, stderr := invoke(args...)
		require.Equal(t, 2, code, args)
		require.Contains(t, stderr, want)
		require.Contains(t, stderr, "trinity: ")
		require.Empty(t, stdout)
		require.NoDirExists(t, dir)
	}
}

// record writes a small journal.
func record(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	w, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(spec.KindRun, 0, &spec.Run{ID: "0011223344556677"}))
	require.NoError(t, w.Append(spec.KindLog, 0, &spec.Log{Level: "info", Message: "<b>"}))
	require.NoError(t, w.Append(spec.KindStep, 0, &spec.Step{Metrics: map[string]spec.Float{"x": spec.Float(math.NaN())}}))
	require.NoError(t, w.Append(spec.KindStep, 1, &spec.Step{}))
	require.NoError(t, w.Append(spec.KindRewind, 1, &spec.Rewind{ToStep: 1}))
	require.NoError(t, w.Close())
	return dir
}

func TestJournalCommands(t *testing.T) {
	dir := record(t)
	lines := func(args ...string) []map[string]any {
		t.Helper()
		code, stdout, stderr := invoke(append([]string{"journal", "cat", dir}, args...)...)
		require.Zero(t, code, stderr)
		var out []map[string]any
		for line := range strings.Lines(stdout) {
			var m map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &m))
			out = append(out, m)
		}
		return out
	}
	all := lines()
	require.Len(t, all, 5)
	for i, m := range all {
		require.EqualValues(t, i+1, m["seq"])
	}
	require.Equal(t, "run", all[0]["kind"])
	require.Equal(t, "NaN", all[2]["data"].(map[string]any)["metrics"].(map[string]any)["x"])
	require.Len(t, lines("--after", "3"), 2)
	require.Len(t, lines("--kind", "step"), 2)
	require.Len(t, lines("--kind", "step", "--committed"), 1)

	code, stdout, _ := invoke("journal", "digest", dir)
	require.Zero(t, code)
	require.Regexp(t, `^[0-9a-f]{64}\n$`, stdout)
	code, asJSON, _ := invoke("--json", "journal", "digest", dir)
	require.Zero(t, code)
	require.JSONEq(t, `{"digest":"`+strings.TrimSpace(stdout)+`"}`, asJSON)
	code, stdout, _ = invoke("journal", "verify", dir)
	require.Zero(t, code)
	require.Contains(t, stdout, "5 records, 1 committed steps")

	name := filepath.Join(dir, journal.FileName)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[100] ^= 1
	require.NoError(t, os.WriteFile(name, b, 0o644))
	for _, sub := range []string{"cat", "digest", "verify"} {
		code, _, stderr := invoke("journal", sub, dir)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "damaged at byte 0")
		code, _, stderr = invoke("journal", sub, t.TempDir())
		require.Equal(t, 2, code)
		require.Contains(t, stderr, "holds no run")
	}
	code, _, stderr := invoke("journal", "cat", dir, "--kind", "gossip")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "gossip")
}

func TestProgressAndHowARunEnds(t *testing.T) {
	train := func(err error) func(trainer.Options) error {
		return func(o trainer.Options) error {
			o.OnStart(spec.Run{ID: "ab", Model: "tiny", Corpus: "9 images", Skipped: 2, Config: spec.Config{Steps: 120}}, 3)
			o.OnStep(3, spec.Step{Metrics: map[string]spec.Float{spec.MetricRFact: .5, spec.MetricRDiff: .25, spec.MetricRCorrect: spec.Float(math.NaN()), spec.MetricRReason: 1, spec.MetricRChal: 0}})
			return err
		}
	}
	for _, test := range []struct {
		err     error
		code    int
		message string
	}{
		{nil, 0, ""},
		{trainer.ErrStopped, 0, "stopped; continue with: trinity resume D"},
		{trainer.ErrCompleted, 0, "complete"},
		{errors.Join(trainer.ErrStopped, errors.New("disk full")), 1, "disk full"},
		{errors.New("device lost"), 1, "device lost; continue with: trinity resume D"},
		{trainer.ErrInput, 2, "bad input"},
	} {
		var out, errs bytes.Buffer
		c := &Context{Stdout: &out, Stderr: &errs, JSON: true}
		require.Equal(t, test.code, report(c, finish(c, "D", train(test.err))))
		require.Contains(t, errs.String(), "run ab: tiny on 9 images, steps 4 to 120 of 120\n2 files of the corpus could not be used\n")
		require.Regexp(t, `step   4/120  fact 0.50 diff 0.25 correct    - reason 1.00 chal 0.00  0.0 s\n`, errs.String())
		require.Contains(t, errs.String(), test.message)
		require.Equal(t, test.code == 0, out.Len() > 0)
	}
}
