package trainer

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// killedAfterThree runs four steps with a checkpoint after each, and makes the directory what a kill in the fourth leaves. It
// returns the digest of the whole run, too.
func killedAfterThree(t *testing.T) (dir, want string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, Run(context.Background(), tinyRun(t, "checkpoint.every=1", "checkpoint.keep=4"), dir, Options{}))
	want = digest(t, dir)
	cut(t, dir, 3)
	require.NoError(t, os.Rename(checkpoint(dir, "000004"), checkpoint(dir, "000004.partial")))
	return dir, want
}

func checkpoint(dir string, path ...string) string {
	return filepath.Join(append([]string{dir, "checkpoints"}, path...)...)
}

// saved names what lies in the checkpoints folder.
func saved(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(checkpoint(dir))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// spoil alters one file of a checkpoint.
func spoil(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, how(b), 0o644))
}

func truncate(b []byte) []byte { return b[:len(b)/2] }
func flip(b []byte) []byte     { b[len(b)/3] ^= 4; return b }

// A damaged checkpoint costs the steps since the one before: the run goes on from there and ends as if nothing had been.
func TestDamagedCheckpointFallsBackToTheOneBefore(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(t *testing.T, dir string)
		from   int
	}{
		"whole":       {func(*testing.T, string) {}, 3},
		"truncated":   {func(t *testing.T, dir string) { spoil(t, checkpoint(dir, "000003", "state.safetensors"), truncate) }, 2},
		"flipped":     {func(t *testing.T, dir string) { spoil(t, checkpoint(dir, "000003", "state.safetensors"), flip) }, 2},
		"flipped sum": {func(t *testing.T, dir string) { spoil(t, checkpoint(dir, "000003", "state.sha256"), flip) }, 2},
		"file missing": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(checkpoint(dir, "000003", "state.safetensors")))
		}, 2},
		"folder missing": {func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(checkpoint(dir, "000003"))) }, 2},
		"two": {func(t *testing.T, dir string) {
			spoil(t, checkpoint(dir, "000003", "state.safetensors"), flip)
			spoil(t, checkpoint(dir, "000002", "state.safetensors"), truncate)
		}, 1},
		"all": {func(t *testing.T, dir string) {
			for _, n := range []string{"000001", "000002", "000003"} {
				spoil(t, checkpoint(dir, n, "state.safetensors"), flip)
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, want := killedAfterThree(t)
			test.damage(t, dir)
			require.NoError(t, Resume(context.Background(), dir, Options{}))
			require.Equal(t, want, digest(t, dir))
			var warnings []string
			for r, err := range journal.Read(dir, 0) {
				require.NoError(t, err)
				switch d := r.Data.(type) {
				case *spec.Log:
					warnings = append(warnings, d.Message)
				case *spec.Rewind:
					require.Equal(t, test.from, d.ToStep)
				}
			}
			require.Contains(t, warnings[0], "unfinished record")
			if _, err := os.Stat(checkpoint(dir, "000003")); name != "whole" && name != "folder missing" {
				require.NoError(t, err)
				require.Contains(t, warnings[1], `000003": the checkpoint is damaged`)
			}
			require.Equal(t, []string{"000001", "000002", "000003", "000004"}, saved(t, dir), "replaced, and what was left unfinished is gone")
		})
	}
}

// What cannot be read may still be whole: nothing is rewound, and the run goes on once that is mended.
func TestUnreadableCheckpointIsNotPassedOver(t *testing.T) {
	dir, want := killedAfterThree(t)
	sum := checkpoint(dir, "000003", "state.sha256")
	require.NoError(t, os.Rename(sum, sum+".away"))
	require.NoError(t, os.Mkdir(sum, 0o755))
	require.ErrorContains(t, Resume(context.Background(), dir, Options{}), "mend that, or delete the folder")
	require.NoError(t, os.Remove(sum))
	require.NoError(t, os.Rename(sum+".away", sum))
	from := -1
	require.NoError(t, Resume(context.Background(), dir, Options{OnStart: func(_ spec.Run, n int) { from = n }}))
	require.Equal(t, 3, from)
	require.Equal(t, want, digest(t, dir))
}

func TestTheLastCheckpointsAreKept(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Run(context.Background(), tinyRun(t, "checkpoint.every=1", "checkpoint.keep=2", "steps=5"), dir, Options{}))
	require.Equal(t, []string{"000004", "000005"}, saved(t, dir))
	dir = t.TempDir()
	require.NoError(t, Run(context.Background(), tinyRun(t, "checkpoint.every=2", "checkpoint.keep=9", "steps=5"), dir, Options{}))
	require.Equal(t, []string{"000002", "000004", "000005"}, saved(t, dir), "the last step always saves")
}
