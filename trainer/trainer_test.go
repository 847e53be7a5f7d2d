package trainer

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/engine/enginetest"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// tinyModel writes an untrained checkpoint of the real architecture: it babbles, but every part of the trainer runs.
func tinyModel(t testing.TB) string {
	t.Helper()
	text, tok, processor := enginetest.TinyFiles(t, true)
	dir := t.TempDir()
	require.NoError(t, local.Create(dir, local.Files{Config: text, Tokenizer: tok, Preprocessor: processor}, 1))
	return dir
}

func tinyRun(t testing.TB, set ...string) spec.Config {
	t.Helper()
	cfg, err := config.Load("windtunnel")
	require.NoError(t, err)
	require.NoError(t, config.Apply(&cfg, append([]string{"model.path=" + tinyModel(t), "steps=4", "corpus.images_per_step=2", "corpus.size=9", "questioner.samples=2",
		"questioner.sampling.max_tokens=6", "checkpoint.every=2", "seed=3"}, set...)...))
	return cfg
}

func digest(t testing.TB, dir string) string {
	t.Helper()
	d, err := journal.Digest(dir)
	require.NoError(t, err)
	return d
}

// The real CPU engine: the same seed gives the same digest, on one thread or two, whole or stopped and resumed.
func TestRunsWithOneSeedAreEqual(t *testing.T) {
	cfg := tinyRun(t)
	first := t.TempDir()
	require.NoError(t, Run(context.Background(), cfg, first, Options{Version: "one"}))
	want := digest(t, first)
	sum, err := journal.Verify(first)
	require.NoError(t, err)
	require.Equal(t, 4, sum.Steps)
	require.True(t, sum.Completed)
	require.NoFileExists(t, filepath.Join(first, PIDFile))
	for r, err := range journal.Read(first, 0) {
		require.NoError(t, err)
		if d, ok := r.Data.(*spec.Step); ok {
			require.Greater(t, float64(d.Metrics[spec.MetricGradNorm]), 0.0, "the policy is really trained")
			require.Less(t, float64(d.Metrics[spec.MetricMismatch]), 1e-5)
		}
	}
	back, err := config.Load(filepath.Join(first, ConfigFile))
	require.NoError(t, err)
	require.Equal(t, cfg, back)
	require.ErrorIs(t, Resume(context.Background(), first, Options{}), ErrCompleted)
	require.ErrorIs(t, Run(context.Background(), cfg, first, Options{}), ErrInput)

	cfg.Threads = 1
	second := t.TempDir()
	require.NoError(t, Run(context.Background(), cfg, second, Options{Version: "two"}))
	require.Equal(t, want, digest(t, second))

	third := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	err = Run(ctx, cfg, third, Options{OnStep: func(n int, _ spec.Step) {
		if n == 0 {
			cancel()
		}
	}})
	require.Equal(t, ErrStopped, err)
	torn, err := os.OpenFile(filepath.Join(third, journal.FileName), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = torn.WriteString("12345678 {\"seq")
	require.NoError(t, err)
	require.NoError(t, torn.Close())
	from := -1
	require.NoError(t, Resume(context.Background(), third, Options{OnStart: func(_ spec.Run, n int) { from = n }}))
	require.Equal(t, 1, from, "the stop saved the first step")
	require.Equal(t, want, digest(t, third))

	fourth := t.TempDir() // killed: nothing but the journal and the last checkpoint count
	require.NoError(t, os.CopyFS(fourth, os.DirFS(first)))
	cut(t, fourth, 3)
	require.NoError(t, os.RemoveAll(filepath.Join(fourth, "checkpoints", "000004")))
	require.NoError(t, Resume(context.Background(), fourth, Options{OnStart: func(_ spec.Run, n int) { from = n }}))
	require.Equal(t, 2, from)
	require.Equal(t, want, digest(t, fourth))
}

// cut ends a journal behind the first records of a step, as a kill would.
func cut(t *testing.T, dir string, step int) {
	t.Helper()
	name := filepath.Join(dir, journal.FileName)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	at := bytes.Index(b, fmt.Appendf(nil, `"kind":"candidate","step":%d`, step))
	require.Positive(t, at)
	require.NoError(t, os.Truncate(name, int64(at+40)))
}

func TestFolderOfOrdinaryImages(t *testing.T) {
	folder := t.TempDir()
	save := func(name string, encode func(*bytes.Buffer) error) {
		var b bytes.Buffer
		require.NoError(t, encode(&b))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o644))
	}
	grey := image.NewGray(image.Rect(0, 0, 50, 20))
	alpha := image.NewNRGBA(image.Rect(0, 0, 24, 40))
	alpha.Set(3, 3, color.NRGBA{255, 0, 0, 90})
	save("grey.jpg", func(b *bytes.Buffer) error { return jpeg.Encode(b, grey, nil) })
	save("alpha.png", func(b *bytes.Buffer) error { return png.Encode(b, alpha) })
	save("broken.png", func(b *bytes.Buffer) error { b.WriteString("\x89PNG\r\n\x1a\nnot really"); return nil })
	save("notes.txt", func(b *bytes.Buffer) error { b.WriteString("hello"); return nil })
	cfg := tinyRun(t, "corpus.path="+folder, "steps=2", "model.train=full")
	dir := t.TempDir()
	var run spec.Run
	require.NoError(t, Run(context.Background(), cfg, dir, Options{OnStart: func(r spec.Run, _ int) { run = r }}))
	require.Positive(t, run.Skipped)
	require.Contains(t, run.Corpus, "2 images in "+folder)
	require.Regexp(t, `^Qwen3-VL \d+K$`, run.Model)
	require.Regexp(t, `^[0-9a-f]{16}$`, run.ID)
}

func TestBadInputStartsNothing(t *testing.T) {
	for name, set := range map[string][]string{
		"empty folder":     {"corpus.path=" + t.TempDir()},
		"no such folder":   {"corpus.path=/nonexistent"},
		"no such corpus":   {"corpus.path=builtin:nothing"},
		"no such model":    {"model.path=/nonexistent"},
		"no built-in":      {"model.path=builtin:nothing"},
		"outside built-in": {"model.path=builtin:../presets"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		err := Run(context.Background(), tinyRun(t, set...), dir, Options{})
		require.ErrorIs(t, err, ErrInput, name)
		require.NoDirExists(t, dir, name)
	}
	cfg := tinyRun(t)
	cfg.Steps = 0
	require.ErrorIs(t, Run(context.Background(), cfg, t.TempDir(), Options{}), ErrInput)
	require.ErrorIs(t, Resume(context.Background(), t.TempDir(), Options{}), ErrInput)
}

// A model that cannot be loaded fails the run with a record that says why, and resuming tries again.
func TestBrokenModelIsRecorded(t *testing.T) {
	cfg := tinyRun(t)
	tokens := filepath.Join(cfg.Model.Path, "tokenizer.json")
	good, err := os.ReadFile(tokens)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tokens, []byte("{"), 0o644))
	dir := t.TempDir()
	require.Error(t, Run(context.Background(), cfg, dir, Options{}))
	var kinds []spec.Kind
	for r, err := range journal.Read(dir, 0) {
		require.NoError(t, err)
		kinds = append(kinds, r.Kind)
	}
	require.Equal(t, []spec.Kind{spec.KindRun, spec.KindEnd}, kinds)
	require.NoError(t, os.WriteFile(tokens, good, 0o644))
	require.NoError(t, Resume(context.Background(), dir, Options{}))
}

func TestOpenCheckpointOfAStep(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	_, _, err := OpenCheckpointAt(ctx, filepath.Join(dir, "absent"), 0)
	require.ErrorIs(t, err, ErrInput)
	require.NoError(t, Run(ctx, tinyRun(t, "steps=6", "checkpoint.keep=2"), dir, Options{}))
	for step, want := range map[int]int{0: 6, 4: 4, 6: 6} {
		e, n, err := OpenCheckpointAt(ctx, dir, step)
		require.NoError(t, err)
		require.Equal(t, want, n)
		require.NoError(t, e.Close())
	}
	_, _, err = OpenCheckpointAt(ctx, dir, 2)
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, "no checkpoint after 2 steps; it keeps those after 4, 6")
}
