package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/postgres"
	"github.com/trinity-lab/trinity/server/servertest"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

var pg servertest.Postgres

func TestMain(m *testing.M) { pg.Main(m) }

// write makes a journal of complete steps and returns its records.
func write(t *testing.T, dir, id string, fill func(*journal.Writer)) []spec.Record {
	t.Helper()
	w, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, w.Append(spec.KindRun, 0, &spec.Run{ID: id, Config: servertest.Config(t, 9), Model: "tiny"}))
	fill(w)
	require.NoError(t, w.Close())
	return read(t, dir)
}

func read(t *testing.T, dir string) []spec.Record {
	t.Helper()
	var all []spec.Record
	for r, err := range journal.Read(dir, 0) {
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func behind(records []spec.Record) journal.Position {
	return journal.Position{Seq: records[len(records)-1].Seq}
}

func TestIngestedRecordsComeBackWhole(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	ctx := t.Context()
	require.NoError(t, store.CreateRun(ctx, run))
	records := write(t, t.TempDir(), run.ID, func(w *journal.Writer) {
		servertest.WriteSteps(t, w, 0, 2, 3)
		servertest.WriteSteps(t, w, 2, 3, 1)
		require.NoError(t, w.Append(spec.KindEnd, 2, &spec.End{Status: "completed"}))
	})
	_, err := store.Append(ctx, run.ID, records, behind(records))
	require.NoError(t, err)

	got, err := store.Run(ctx, run.ID)
	require.NoError(t, err)
	require.Equal(t, experiment.Completed, got.Status)
	require.Equal(t, 3, got.Done)
	require.Equal(t, "tiny", got.Model)
	require.Equal(t, run.Config.Reward, got.Config.Reward)
	require.NotNil(t, got.Started)
	require.NotNil(t, got.Ended)
	require.Equal(t, uint64(len(records)), got.Position)

	steps, err := store.Steps(ctx, run.ID)
	require.NoError(t, err)
	require.Len(t, steps, 3)
	require.True(t, math.IsNaN(float64(steps[1].Metrics[spec.MetricLoss])))
	require.True(t, math.IsInf(float64(steps[1].Metrics[spec.MetricKL]), 1))
	require.Equal(t, spec.Float(0.1+0.2), steps[1].Metrics[spec.MetricRQ], "not a bit is lost")

	page, err := store.Episodes(ctx, run.ID, experiment.EpisodeQuery{})
	require.NoError(t, err)
	require.Len(t, page.Episodes, 7)
	require.Equal(t, experiment.OutcomeMixed, page.Episodes[0].Outcome)
	e, err := store.Episode(ctx, page.Episodes[2].ID)
	require.NoError(t, err)
	require.Equal(t, experiment.OutcomeOverturned, e.Outcome)
	require.True(t, e.Dispute.Overturned)
	require.Equal(t, page.Episodes[3].ID, e.Previous)
	require.Equal(t, page.Episodes[1].ID, e.Next)
	require.Len(t, e.CandidateList, 2)
	require.Len(t, e.RolloutList, 2)
	require.Len(t, e.JudgementsOf(spec.JudgeScreening, 1), 1)
	require.Equal(t, "How many bars in step 1?", e.Selected().Question)
	require.Equal(t, 0.1+0.2, e.Selected().Reward)
	require.True(t, e.Selected().Final)
	require.Equal(t, "</script><img src=x onerror=alert(1)>\uFFFD \\u0000 \\\\u0000 \"é雪\u2028", e.Selected().Text)
	require.True(t, math.IsNaN(float64(e.Judgements[0].Fields["corr_a"])))
}

func TestEventsHaveNoGapsAndNameEveryRecord(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	ctx := t.Context()
	require.NoError(t, store.CreateRun(ctx, run))
	records := write(t, t.TempDir(), run.ID, func(w *journal.Writer) { servertest.WriteSteps(t, w, 0, 2, 2) })
	for i, r := range records { // one transaction a record
		_, err := store.Append(ctx, run.ID, records[i:i+1], journal.Position{Seq: r.Seq})
		require.NoError(t, err)
	}
	events, err := store.Events(ctx, run.ID, 0, 1000)
	require.NoError(t, err)
	require.Len(t, events, len(records)+1, "every record, the first as a status, and the queued status")
	for i, e := range events {
		require.Equal(t, int64(i+1), e.Seq)
		require.Equal(t, run.ID, e.Run)
	}
	newest, err := store.LastEvents(ctx, run.ID, 1, experiment.EventStep)
	require.NoError(t, err)
	require.Equal(t, events[len(events)-1], newest[0])
}

func TestAppendCountsEachRecordOnce(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	ctx := t.Context()
	require.NoError(t, store.CreateRun(ctx, run))
	records := write(t, t.TempDir(), run.ID, func(w *journal.Writer) { servertest.WriteSteps(t, w, 0, 4, 3) })
	var wg sync.WaitGroup
	for i := range 4 { // four servers with batches of different sizes
		wg.Go(func() {
			for from := 0; from < len(records); {
				batch := records[from:min(len(records), from+5+3*i)]
				at, err := store.Append(ctx, run.ID, batch, behind(batch))
				if err != nil {
					t.Error(err)
					return
				}
				from = int(at.Seq)
			}
		})
	}
	wg.Wait()
	checkComplete(t, store, run.ID, records, 4, 3)
	_, err := store.Append(ctx, run.ID, []spec.Record{{Seq: uint64(len(records)) + 2, Kind: spec.KindLog, Data: &spec.Log{}}}, journal.Position{})
	require.ErrorIs(t, err, postgres.ErrGap)
}

func checkComplete(t *testing.T, store *postgres.Store, id string, records []spec.Record, steps, slots int) {
	t.Helper()
	got, err := store.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, uint64(len(records)), got.Position)
	require.Equal(t, steps, got.Done)
	events, err := store.Events(t.Context(), id, 0, 100000)
	require.NoError(t, err)
	require.Len(t, events, len(records)+1)
	judgements, err := store.Judgements(t.Context(), id, experiment.JudgementQuery{Limit: 500})
	require.NoError(t, err)
	require.Len(t, judgements.Judgements, steps*slots*2)
	page, err := store.Episodes(t.Context(), id, experiment.EpisodeQuery{Limit: 200})
	require.NoError(t, err)
	require.Len(t, page.Episodes, steps*slots)
}

func TestRewindSupersedesAndNeverMixes(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	ctx := t.Context()
	require.NoError(t, store.CreateRun(ctx, run))
	dir := t.TempDir()
	records := write(t, dir, run.ID, func(w *journal.Writer) {
		servertest.WriteSteps(t, w, 0, 4, 2)
		require.NoError(t, w.Append(spec.KindCandidate, 4, &spec.Candidate{EpisodeKey: spec.EpisodeKey{Image: servertest.Image(0)}}))
		require.NoError(t, w.Append(spec.KindEnd, 4, &spec.End{Status: "failed", Reason: "killed"}))
		require.NoError(t, w.Append(spec.KindRewind, 2, &spec.Rewind{ToStep: 2}))
		servertest.WriteSteps(t, w, 2, 3, 1)
	})
	_, err := store.Append(ctx, run.ID, records, behind(records))
	require.NoError(t, err)
	got, err := store.Run(ctx, run.ID)
	require.NoError(t, err)
	require.Equal(t, experiment.Running, got.Status)
	require.Empty(t, got.Error)
	require.Equal(t, 3, got.Done)
	steps, err := store.Steps(ctx, run.ID)
	require.NoError(t, err)
	require.Len(t, steps, 3)
	page, err := store.Episodes(ctx, run.ID, experiment.EpisodeQuery{})
	require.NoError(t, err)
	require.Len(t, page.Episodes, 5, "two steps of two slots, one of one")
	judgements, err := store.Judgements(ctx, run.ID, experiment.JudgementQuery{})
	require.NoError(t, err)
	require.Len(t, judgements.Judgements, 10)
}

func TestListsPageSearchAndFilter(t *testing.T) {
	store := pg.Store(t)
	ctx := t.Context()
	var ids []string
	for range 5 {
		run := servertest.Run(t, 9)
		require.NoError(t, store.CreateRun(ctx, run))
		ids = append(ids, run.ID)
	}
	seen := map[string]bool{}
	for q := (experiment.RunQuery{Limit: 2}); ; {
		page, err := store.Runs(ctx, q)
		require.NoError(t, err)
		for _, r := range page.Runs {
			require.False(t, seen[r.ID])
			seen[r.ID] = true
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	require.Len(t, seen, 5)
	_, err := store.Runs(ctx, experiment.RunQuery{Cursor: "no cursor"})
	require.ErrorIs(t, err, experiment.ErrInvalid)
	_, err = store.Run(ctx, "0000000000000000")
	require.ErrorIs(t, err, experiment.ErrNotFound)
	_, err = store.Run(ctx, "\x00' OR 1=1")
	require.ErrorIs(t, err, experiment.ErrNotFound)
	require.ErrorIs(t, store.CreateRun(ctx, func() experiment.Run { r := servertest.Run(t, 1); r.ID = ids[0]; return r }()), experiment.ErrConflict)

	records := write(t, t.TempDir(), ids[0], func(w *journal.Writer) {
		servertest.WriteSteps(t, w, 0, 3, 3)
		c := &spec.Candidate{EpisodeKey: spec.EpisodeKey{Image: servertest.Image(0)}}
		c.Text = "a zebra crossing"
		require.NoError(t, w.Append(spec.KindCandidate, 3, c))
	})
	_, err = store.Append(ctx, ids[0], records, behind(records))
	require.NoError(t, err)
	var slots []string
	for q := (experiment.EpisodeQuery{Limit: 4}); ; {
		page, err := store.Episodes(ctx, ids[0], q)
		require.NoError(t, err)
		for _, e := range page.Episodes {
			slots = append(slots, fmt.Sprintf("%d.%d", e.Step, e.Slot))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	require.Equal(t, []string{"3.0", "2.2", "2.1", "2.0", "1.2", "1.1", "1.0", "0.2", "0.1", "0.0"}, slots)
	two := 2
	for _, test := range []struct {
		q    experiment.EpisodeQuery
		want int
	}{
		{experiment.EpisodeQuery{Outcome: experiment.OutcomeOverturned}, 3},
		{experiment.EpisodeQuery{Outcome: experiment.OutcomeOpen}, 1},
		{experiment.EpisodeQuery{Step: &two}, 3},
		{experiment.EpisodeQuery{Text: "zebra"}, 1},
		{experiment.EpisodeQuery{Text: "zebra -crossing"}, 0},
		{experiment.EpisodeQuery{Text: `"' \ ) & |`}, 0},
	} {
		page, err := store.Episodes(ctx, ids[0], test.q)
		require.NoError(t, err)
		require.Len(t, page.Episodes, test.want, "%+v", test.q)
	}
}

func TestStatusMovesOnlyFromWhereItIs(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	ctx := t.Context()
	require.NoError(t, store.CreateRun(ctx, run))
	_, err := store.SetStatus(ctx, run.ID, experiment.Stopping, "", experiment.Running)
	require.ErrorIs(t, err, experiment.ErrConflict)
	got, err := store.SetStatus(ctx, run.ID, experiment.Stopped, "by hand", experiment.Queued)
	require.NoError(t, err)
	require.Equal(t, "by hand", got.Error)
	require.NotNil(t, got.Ended)
	events, err := store.Events(ctx, run.ID, 0, 10)
	require.NoError(t, err)
	require.Len(t, events, 2)
	var data experiment.StatusData
	require.NoError(t, json.Unmarshal(events[1].Data, &data))
	require.Equal(t, experiment.Stopped, data.Status)
}

func TestListenHearsCommits(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan string, 10)
	done := make(chan error)
	go func() { done <- store.Listen(ctx, func(id string) { heard <- id }) }()
	require.Equal(t, "", <-heard)
	require.NoError(t, store.CreateRun(ctx, run))
	require.Equal(t, run.ID, <-heard)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestOpenTwiceAtOnceMigratesOnce(t *testing.T) {
	dsn := pg.DSN(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s, err := postgres.Open(context.Background(), dsn, servertest.Home)
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}

// TestIngestRate guards the order of magnitude: 25,000 metric points a second on two shared cores.
func TestIngestRate(t *testing.T) {
	if testing.Short() {
		t.Skip("a measurement")
	}
	store, run := pg.Store(t), servertest.Run(t, 2000)
	require.NoError(t, store.CreateRun(t.Context(), run))
	metrics := map[string]spec.Float{}
	for i := range 40 {
		metrics[fmt.Sprintf("metric/%02d", i)] = spec.Float(1 / float64(i+1))
	}
	var records []spec.Record
	for i := range 2000 {
		records = append(records, spec.Record{Seq: uint64(i + 1), Kind: spec.KindStep, Step: i, Time: time.Now(), Data: &spec.Step{Metrics: metrics}})
	}
	began := time.Now()
	for at := 0; at < len(records); at += 500 {
		_, err := store.Append(t.Context(), run.ID, records[at:at+500], behind(records[:at+500]))
		require.NoError(t, err)
	}
	rate := 2000 * 40 / time.Since(began).Seconds()
	t.Logf("%.0f metric points/s", rate)
	require.Greater(t, rate, 10000.0)
}
