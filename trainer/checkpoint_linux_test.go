package trainer

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// A checkpoint that cannot be written ends the run and says why; the one before is still there, and the run goes on from it.
func TestFailedSaveLeavesTheCheckpointBefore(t *testing.T) {
	cfg, whole := tinyRun(t), t.TempDir()
	require.NoError(t, Run(context.Background(), cfg, whole, Options{}))
	for name, test := range map[string]struct {
		hinder func(t *testing.T, dir string) (undo func())
		reason string
	}{
		"the disk takes no more":           {limitFiles, "file too large"},
		"the folder may not be written to": {forbid, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			undo := func() {}
			err := Run(context.Background(), cfg, dir, Options{OnStep: func(n int, _ spec.Step) {
				if n == 3 {
					undo = test.hinder(t, dir)
				}
			}})
			undo()
			require.ErrorContains(t, err, test.reason)
			require.ErrorContains(t, err, "000004")
			require.Equal(t, []string{"000002"}, saved(t, dir), "nothing half-written takes up the disk")
			var last spec.Record
			for r, err := range journal.Read(dir, 0) {
				require.NoError(t, err)
				last = r
			}
			require.Contains(t, last.Data.(*spec.End).Reason, test.reason)

			from := -1
			require.NoError(t, Resume(context.Background(), dir, Options{OnStart: func(_ spec.Run, n int) { from = n }}))
			require.Equal(t, 2, from)
			require.Equal(t, digest(t, whole), digest(t, dir))
		})
	}
}

// limitFiles bounds the size of files below that of a saved state, which fails in the middle of a write as a full disk does.
func limitFiles(t *testing.T, dir string) (undo func()) {
	state, err := os.Stat(checkpoint(dir, "000002", "state.safetensors"))
	require.NoError(t, err)
	records, err := os.Stat(dir + "/" + journal.FileName)
	require.NoError(t, err)
	require.Less(t, records.Size()+4096, state.Size(), "the journal must still grow")
	signal.Ignore(unix.SIGXFSZ)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	limit := before
	limit.Cur = uint64(state.Size() - 1)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	return func() {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
		signal.Reset(unix.SIGXFSZ)
	}
}

// forbid keeps this goroutine from writing to the checkpoints. Root may write anywhere, so it acts as another user meanwhile.
func forbid(t *testing.T, dir string) (undo func()) {
	if os.Getuid() != 0 {
		require.NoError(t, os.Chmod(checkpoint(dir), 0o555))
		return func() { require.NoError(t, os.Chmod(checkpoint(dir), 0o755)) }
	}
	const nobody = 65534
	runtime.LockOSThread()
	_, err := unix.SetfsuidRetUid(nobody)
	require.NoError(t, err)
	return func() {
		_, err := unix.SetfsuidRetUid(0)
		require.NoError(t, err)
		runtime.UnlockOSThread()
	}
}
