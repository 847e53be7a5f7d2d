package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trinity-lab/trinity/server/experiment"
)

// Channel is the NOTIFY channel; the payload is a run's id.
const Channel = "trinity_run"

func notify(ctx context.Context, tx pgx.Tx, run string) error {
	_, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, run)
	return err
}

func statusData(run experiment.Run) experiment.StatusData {
	return experiment.StatusData{Status: run.Status, Error: run.Error, Done: run.Done, Steps: run.Steps, Started: run.Started, Ended: run.Ended}
}

// addStatusEvent appends the run's status to its feed. The caller holds the run's row.
func addStatusEvent(ctx context.Context, tx pgx.Tx, run experiment.Run) error {
	data, err := encode(statusData(run))
	if err != nil {
		return err
	}
	return addEvents(ctx, tx, run.ID, []newEvent{{experiment.EventStatus, run.Done, time.Now(), data}})
}

type newEvent struct {
	kind experiment.EventKind
	step int
	time time.Time
	data string
}

// addEvents appends to the feed and notifies. The caller holds the run's row, so seq has no gaps.
func addEvents(ctx context.Context, tx pgx.Tx, run string, events []newEvent) error {
	if len(events) == 0 {
		return nil
	}
	var last int64
	err := tx.QueryRow(ctx, `UPDATE runs SET last_event = last_event + $2 WHERE id = $1 RETURNING last_event`, run, len(events)).Scan(&last)
	if err != nil {
		return fmt.Errorf("number the events of run %s: %w", run, err)
	}
	first := last - int64(len(events)) + 1
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"events"}, []string{"run", "seq", "kind", "step", "time", "data"},
		pgx.CopyFromSlice(len(events), func(i int) ([]any, error) {
			e := events[i]
			return []any{run, first + int64(i), string(e.kind), e.step, e.time.UTC(), e.data}, nil
		}))
	if err != nil {
		return fmt.Errorf("append to the feed of run %s: %w", run, err)
	}
	return notify(ctx, tx, run)
}

// Events returns up to limit events behind after.
func (s *Store) Events(ctx context.Context, run string, after int64, limit int) ([]experiment.Event, error) {
	rows, err := s.pool.Query(ctx, `SELECT run, seq, kind, step, time, data FROM events WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3`, run, after, limit)
	if err != nil {
		return nil, translate(err, "read the feed of run %s", run)
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	return events, translate(err, "read the feed of run %s", run)
}

// LastEvents returns up to limit newest events of the kinds, ascending.
func (s *Store) LastEvents(ctx context.Context, run string, limit int, kinds ...experiment.EventKind) ([]experiment.Event, error) {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	rows, err := s.pool.Query(ctx, `SELECT * FROM (SELECT run, seq, kind, step, time, data FROM events
		WHERE run = $1 AND (cardinality($3::text[]) = 0 OR kind = ANY($3)) ORDER BY seq DESC LIMIT $2) newest ORDER BY seq`, run, limit, names)
	if err != nil {
		return nil, translate(err, "read the feed of run %s", run)
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	return events, translate(err, "read the feed of run %s", run)
}

func scanEvent(row pgx.CollectableRow) (experiment.Event, error) {
	var e experiment.Event
	var data []byte
	err := row.Scan(&e.Run, &e.Seq, &e.Kind, &e.Step, &e.Time, &data)
	e.Data = json.RawMessage(data)
	return e, err
}

// Listen calls fn with the run's id after each commit that added to a run's feed, and with "" after it has connected,
// when anything may have been missed. It returns ctx's error, or that of the lost connection.
func (s *Store) Listen(ctx context.Context, fn func(run string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("listen for changes: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+Channel); err != nil {
		return fmt.Errorf("listen for changes: %w", err)
	}
	fn("")
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("listen for changes: %w", err)
		}
		fn(n.Payload)
	}
}
