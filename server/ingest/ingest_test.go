package ingest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/ingest"
	"github.com/trinity-lab/trinity/server/postgres"
	"github.com/trinity-lab/trinity/server/servertest"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

var pg servertest.Postgres

func TestMain(m *testing.M) {
	if dsn := os.Getenv("INGEST_TEST_DSN"); dsn != "" {
		follow(dsn, os.Getenv("INGEST_TEST_RUN"), os.Getenv("INGEST_TEST_DIR"))
	}
	pg.Main(m)
}

// follow ingests until it is killed.
func follow(dsn, run, dir string) {
	ctx := context.Background()
	store, err := postgres.Open(ctx, dsn, servertest.Home)
	if err == nil {
		fmt.Println("ready")
		err = ingester(store, filepath.Join(dir, "kept")).Follow(ctx, run, dir)
	}
	fmt.Println(err)
	os.Exit(1)
}

func ingester(store *postgres.Store, images string) *ingest.Ingester {
	return ingest.New(store, ingest.NewImages(images), slog.New(slog.DiscardHandler))
}

func count(t *testing.T, store *postgres.Store, run string) (events, judgements, episodes int) {
	t.Helper()
	all, err := store.Events(t.Context(), run, 0, 1_000_000)
	require.NoError(t, err)
	for i, e := range all {
		require.Equal(t, int64(i+1), e.Seq)
	}
	for q := (experiment.JudgementQuery{Limit: 500}); ; {
		page, err := store.Judgements(t.Context(), run, q)
		require.NoError(t, err)
		judgements += len(page.Judgements)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	for q := (experiment.EpisodeQuery{Limit: 200}); ; {
		page, err := store.Episodes(t.Context(), run, q)
		require.NoError(t, err)
		episodes += len(page.Episodes)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	return len(all), judgements, episodes
}

// Two ingesters at once are killed again and again while the trainer writes; each record is stored once.
func TestKilledIngestersStoreEachRecordOnce(t *testing.T) {
	const steps, slots = 60, 4
	dsn := pg.DSN(t)
	store, err := postgres.Open(t.Context(), dsn, servertest.Home)
	require.NoError(t, err)
	defer store.Close()
	run := servertest.Run(t, steps)
	require.NoError(t, store.CreateRun(t.Context(), run))
	dir := t.TempDir()
	written := make(chan error, 1)
	go func() { written <- writeSlowly(t, dir, run.ID, steps, slots) }()
	for round := range 6 {
		a, b := child(t, dsn, run.ID, dir), child(t, dsn, run.ID, dir)
		time.Sleep(time.Duration(3+round*17) * time.Millisecond)
		for _, c := range []*exec.Cmd{a, b} {
			require.NoError(t, c.Process.Kill())
			c.Wait()
		}
	}
	require.NoError(t, <-written)
	require.NoError(t, ingester(store, t.TempDir()).Drain(t.Context(), run.ID, dir))
	require.NoError(t, ingester(store, t.TempDir()).Drain(t.Context(), run.ID, dir), "again, without effect")

	records := 0
	for _, err := range journal.Read(dir, 0) {
		require.NoError(t, err)
		records++
	}
	events, judgements, episodes := count(t, store, run.ID)
	require.Equal(t, records+1, events, "one an event, and the queued status")
	require.Equal(t, steps*slots*2, judgements)
	require.Equal(t, steps*slots, episodes)
	got, err := store.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, experiment.Completed, got.Status)
	require.Equal(t, steps, got.Done)
	all, err := store.Steps(t.Context(), run.ID)
	require.NoError(t, err)
	require.Len(t, all, steps)
}

func writeSlowly(t *testing.T, dir, id string, steps, slots int) error {
	w, err := journal.Create(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Append(spec.KindRun, 0, &spec.Run{ID: id, Config: servertest.Config(t, steps)}); err != nil {
		return err
	}
	for step := range steps {
		servertest.WriteSteps(t, w, step, step+1, slots)
		time.Sleep(10 * time.Millisecond)
	}
	return w.Append(spec.KindEnd, steps-1, &spec.End{Status: "completed"})
}

func child(t *testing.T, dsn, run, dir string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "INGEST_TEST_DSN="+dsn, "INGEST_TEST_RUN="+run, "INGEST_TEST_DIR="+dir)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line := make([]byte, 100)
	n, _ := out.Read(line)
	require.Equal(t, "ready\n", string(line[:n]))
	return c
}

// flaky fails transactions before and after the commit, as a lost connection does.
type flaky struct {
	*postgres.Store
	calls int
}

func (f *flaky) Append(ctx context.Context, run string, records []spec.Record, behind journal.Position) (journal.Position, error) {
	f.calls++
	if f.calls%3 == 1 {
		return journal.Position{}, fmt.Errorf("connection lost before the commit")
	}
	at, err := f.Store.Append(ctx, run, records, behind)
	if err == nil && f.calls%3 == 2 {
		return journal.Position{}, fmt.Errorf("connection lost after the commit")
	}
	return at, err
}

func TestLostConnections(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 300)
	require.NoError(t, store.CreateRun(t.Context(), run))
	dir := t.TempDir()
	w, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(spec.KindRun, 0, &spec.Run{ID: run.ID, Config: servertest.Config(t, 300)}))
	servertest.WriteSteps(t, w, 0, 300, 1)
	require.NoError(t, w.Close())
	i := ingest.New(&flaky{Store: store}, ingest.NewImages(t.TempDir()), slog.New(slog.DiscardHandler))
	ingest.SetRetry(i, time.Millisecond)
	require.NoError(t, i.Drain(t.Context(), run.ID, dir))
	_, judgements, episodes := count(t, store, run.ID)
	require.Equal(t, 600, judgements)
	require.Equal(t, 300, episodes)
}

// A power failure took records that had been ingested: the run is read again, and nothing of the lost future stays.
func TestJournalThatLostRecordsIsReadAgain(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	require.NoError(t, store.CreateRun(t.Context(), run))
	dir := t.TempDir()
	w, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(spec.KindRun, 0, &spec.Run{ID: run.ID, Config: servertest.Config(t, 9)}))
	servertest.WriteSteps(t, w, 0, 2, 2)
	cut := w.Position()
	servertest.WriteSteps(t, w, 2, 5, 2)
	require.NoError(t, w.Close())
	i := ingester(store, t.TempDir())
	require.NoError(t, i.Drain(t.Context(), run.ID, dir))
	require.NoError(t, os.Truncate(filepath.Join(dir, journal.FileName), cut.Offset))
	require.NoError(t, i.Drain(t.Context(), run.ID, dir))
	got, err := store.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, 2, got.Done)
	_, judgements, episodes := count(t, store, run.ID)
	require.Equal(t, 8, judgements)
	require.Equal(t, 4, episodes)
}

func TestDamagedJournalIsReported(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	require.NoError(t, store.CreateRun(t.Context(), run))
	dir := t.TempDir()
	w, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(spec.KindRun, 0, &spec.Run{ID: run.ID, Config: servertest.Config(t, 9)}))
	servertest.WriteSteps(t, w, 0, 2, 2)
	require.NoError(t, w.Close())
	name := filepath.Join(dir, journal.FileName)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, bytes.Replace(b, []byte("three bars"), []byte("seven bars"), 1), 0o600))
	err = ingester(store, t.TempDir()).Drain(t.Context(), run.ID, dir)
	require.ErrorAs(t, err, new(*journal.CorruptError))
}

func pngBytes(t *testing.T) ([]byte, string) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))))
	sum := sha256.Sum256(b.Bytes())
	return b.Bytes(), hex.EncodeToString(sum[:])
}

func TestImagesAreKeptByContent(t *testing.T) {
	b, sha := pngBytes(t)
	images, runDir := ingest.NewImages(t.TempDir()), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(runDir, "images"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(runDir, "images", sha+".png"), b, 0o644))
	info, err := images.AddFromRun(runDir, sha)
	require.NoError(t, err)
	require.Equal(t, experiment.Image{SHA256: sha, MediaType: "image/png", Width: 3, Height: 2, Bytes: int64(len(b))}, info)
	f, err := images.Open(sha)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	for _, bad := range []string{"", "../../etc/passwd", strings.Repeat("a", 64), strings.Repeat("A", 64)} {
		_, err := images.Open(bad)
		require.ErrorIs(t, err, experiment.ErrNotFound)
		_, err = images.AddFromRun(runDir, bad)
		require.Error(t, err)
	}
	_, err = images.Add(strings.Repeat("a", 64), bytes.NewReader(b))
	require.ErrorIs(t, err, experiment.ErrInvalid)
	text := sha256.Sum256([]byte("no image"))
	_, err = images.Add(hex.EncodeToString(text[:]), strings.NewReader("no image"))
	require.ErrorIs(t, err, experiment.ErrInvalid)

	secret := filepath.Join(t.TempDir(), "secret.png") // a link out of the run directory is not followed
	require.NoError(t, os.WriteFile(secret, append(b, 0), 0o644))
	sum := sha256.Sum256(append(b, 0))
	other := hex.EncodeToString(sum[:])
	require.NoError(t, os.Symlink(secret, filepath.Join(runDir, "images", other)))
	_, err = images.AddFromRun(runDir, other)
	require.Error(t, err)
}

func TestImport(t *testing.T) {
	store := pg.Store(t)
	i := ingester(store, t.TempDir())
	dir := t.TempDir()
	_, err := ingest.Import(t.Context(), store, i, dir)
	require.ErrorContains(t, err, "name a run directory")

	w, err := journal.Create(dir)
	require.NoError(t, err)
	id := experiment.NewRunID()
	require.NoError(t, w.Append(spec.KindRun, 0, &spec.Run{ID: id, Config: servertest.Config(t, 2)}))
	servertest.WriteSteps(t, w, 0, 1, 1)
	run, err := ingest.Import(t.Context(), store, i, dir)
	require.NoError(t, err)
	require.Equal(t, experiment.Running, run.Status, "its trainer is at work")
	require.True(t, run.Imported)
	require.NoError(t, w.Close())
	run, err = ingest.Import(t.Context(), store, i, dir)
	require.NoError(t, err)
	require.Equal(t, experiment.Failed, run.Status, "its trainer was killed")

	w, err = journal.Open(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(spec.KindRewind, 1, &spec.Rewind{ToStep: 1}))
	servertest.WriteSteps(t, w, 1, 2, 1)
	require.NoError(t, w.Append(spec.KindEnd, 1, &spec.End{Status: "completed"}))
	require.NoError(t, w.Close())
	for range 2 {
		run, err = ingest.Import(t.Context(), store, i, dir)
		require.NoError(t, err)
		require.Equal(t, experiment.Completed, run.Status)
		require.Equal(t, id, run.ID)
		require.Equal(t, 2, run.Done)
	}
	page, err := store.Runs(t.Context(), experiment.RunQuery{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
}
