package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// ErrGap is returned by Append for records that don't follow the last ones stored: read on from Position.
var ErrGap = errors.New("records are missing between those stored and those given")

// Position returns how much of a run's journal is stored.
func (s *Store) Position(ctx context.Context, run string) (journal.Position, error) {
	return position(ctx, s.pool.QueryRow(ctx, positionQuery, run), run)
}

const positionQuery = `SELECT position, byte_offset, checksum FROM runs WHERE id = $1`

func position(_ context.Context, row pgx.Row, run string) (journal.Position, error) {
	var seq, offset, sum int64
	err := row.Scan(&seq, &offset, &sum)
	return journal.Position{Seq: uint64(seq), Offset: offset, Sum: uint32(sum)}, translate(err, "find the journal position of run %s", run)
}

// Append stores records and the position behind them in one transaction, and returns the position stored, which is
// further on where another writer was faster. Records that are stored already are passed over, so each counts once
// however often it is given. Listeners are notified at the commit.
func (s *Store) Append(ctx context.Context, run string, records []spec.Record, behind journal.Position) (journal.Position, error) {
	stored := behind
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		at, err := position(ctx, tx.QueryRow(ctx, positionQuery+" FOR UPDATE", run), run)
		if err != nil {
			return err
		}
		for len(records) > 0 && records[0].Seq <= at.Seq {
			records = records[1:]
		}
		if len(records) == 0 {
			stored = at
			return nil
		}
		if records[0].Seq != at.Seq+1 {
			return fmt.Errorf("run %s has %d records, next comes %d: %w", run, at.Seq, records[0].Seq, ErrGap)
		}
		current, err := getRun(ctx, tx, run, "")
		if err != nil {
			return err
		}
		a := appender{tx: tx, run: current}
		if err := a.all(ctx, records); err != nil {
			return err
		}
		return a.finish(ctx, behind)
	})
	if err != nil {
		return journal.Position{}, fmt.Errorf("store the journal of run %s: %w", run, err)
	}
	return stored, nil
}

// Reset forgets what was ingested of a run whose journal lost records that had been read from it (journal.ErrDiverged).
// The feed goes on with a rewind to step 0.
func (s *Store) Reset(ctx context.Context, run string) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := getRun(ctx, tx, run, "FOR UPDATE"); err != nil {
			return err
		}
		for _, sql := range []string{
			`DELETE FROM episodes WHERE run = $1`, `DELETE FROM steps WHERE run = $1`, `DELETE FROM checkpoints WHERE run = $1`,
			`UPDATE runs SET position = 0, byte_offset = 0, checksum = 0, done = 0, latest = NULL, phase = NULL WHERE id = $1`,
		} {
			if _, err := tx.Exec(ctx, sql, run); err != nil {
				return err
			}
		}
		return addEvents(ctx, tx, run, []newEvent{{experiment.EventRewind, 0, time.Now(), `{"to_step":0}`}})
	})
	return translate(err, "reset run %s", run)
}

// appender stores records of one run inside a transaction that holds the run's row.
type appender struct {
	tx        pgx.Tx
	run       experiment.Run
	journalID string
	events    []newEvent
}

// all stores records, split at rewinds: what follows one belongs to new episodes.
func (a *appender) all(ctx context.Context, records []spec.Record) error {
	var part segment
	for _, r := range records {
		if err := a.note(r); err != nil {
			return err
		}
		if rewind, ok := r.Data.(*spec.Rewind); ok {
			if err := part.store(ctx, a.tx, a.run.ID); err != nil {
				return err
			}
			part = segment{}
			if err := a.supersede(ctx, rewind.ToStep, r.Seq); err != nil {
				return err
			}
			continue
		}
		if err := part.add(r); err != nil {
			return fmt.Errorf("record %d (%s): %w", r.Seq, r.Kind, err)
		}
	}
	return part.store(ctx, a.tx, a.run.ID)
}

func (a *appender) supersede(ctx context.Context, step int, seq uint64) error {
	for _, table := range []string{"steps", "episodes", "checkpoints"} {
		_, err := a.tx.Exec(ctx, `UPDATE `+table+` SET superseded = $3 WHERE run = $1 AND step >= $2 AND superseded IS NULL`, a.run.ID, step, int64(seq))
		if err != nil {
			return fmt.Errorf("supersede %s from step %d: %w", table, step, err)
		}
	}
	return nil
}

// note moves the run's own fields and adds the record to the feed.
func (a *appender) note(r spec.Record) error {
	kind := experiment.EventKind(r.Kind)
	switch d := r.Data.(type) {
	case *spec.Run:
		a.journalID = d.ID
		a.run.Config, a.run.Steps, a.run.ConfigHash = d.Config, d.Config.Steps, experiment.ConfigHash(d.Config)
		a.run.Model, a.run.Corpus, a.run.Skipped, a.run.Version = text(d.Model), text(d.Corpus), d.Skipped, text(d.Version)
		return a.begin(r)
	case *spec.Rewind:
		a.run.Done = min(a.run.Done, d.ToStep)
		a.run.Phase = nil
		if err := a.begin(r); err != nil {
			return err
		}
	case *spec.Step:
		a.run.Done = r.Step + 1
		if err := a.begin(r); err != nil {
			return err
		}
	case *spec.Phase:
		a.run.Phase = &experiment.Phase{Step: r.Step, Phase: *d}
	case *spec.End:
		status := experiment.Status(d.Status)
		if !status.Terminal() {
			return fmt.Errorf("record %d ends the run with the unknown status %q", r.Seq, d.Status)
		}
		return a.status(r, status, text(d.Reason))
	}
	data, err := encode(r.Data)
	if err != nil {
		return err
	}
	a.events = append(a.events, newEvent{kind, r.Step, r.Time, data})
	return nil
}

// begin marks a run that writes to its journal as running, unless it is asked to pause or stop.
func (a *appender) begin(r spec.Record) error {
	switch a.run.Status {
	case experiment.Running, experiment.Paused, experiment.Stopping:
		return nil
	}
	if a.run.Started == nil {
		t := r.Time.UTC()
		a.run.Started = &t
	}
	return a.status(r, experiment.Running, "")
}

func (a *appender) status(r spec.Record, to experiment.Status, reason string) error {
	if a.run.Status == to {
		return nil
	}
	a.run.Status, a.run.Error, a.run.Ended = to, "", nil
	if to.Terminal() {
		t := r.Time.UTC()
		a.run.Ended, a.run.Phase = &t, nil
		if to != experiment.Completed {
			a.run.Error = reason
		}
	}
	data, err := encode(statusData(a.run))
	if err != nil {
		return err
	}
	a.events = append(a.events, newEvent{experiment.EventStatus, r.Step, r.Time, data})
	return nil
}

// finish stores the run's row with the new position and appends the events.
func (a *appender) finish(ctx context.Context, behind journal.Position) error {
	config, err := encode(a.run.Config)
	if err != nil {
		return err
	}
	var phase *string
	if a.run.Phase != nil {
		p, err := encode(a.run.Phase)
		if err != nil {
			return err
		}
		phase = &p
	}
	_, err = a.tx.Exec(ctx, `UPDATE runs SET status = $2, error = $3, config = $4, config_hash = $5, steps = $6, phase = $7, started = $8,
		ended = $9, model = $10, corpus = $11, skipped = $12, version = $13, journal_id = coalesce(nullif($14, ''), journal_id),
		position = $15, byte_offset = $16, checksum = $17,
		done = coalesce((SELECT max(step) + 1 FROM steps WHERE run = $1 AND superseded IS NULL), 0),
		latest = (SELECT metrics FROM steps WHERE run = $1 AND superseded IS NULL ORDER BY step DESC LIMIT 1)
		WHERE id = $1`,
		a.run.ID, string(a.run.Status), a.run.Error, config, a.run.ConfigHash, a.run.Steps, phase, a.run.Started, a.run.Ended,
		a.run.Model, a.run.Corpus, a.run.Skipped, a.run.Version, a.journalID,
		int64(behind.Seq), behind.Offset, int64(behind.Sum))
	if err != nil {
		return fmt.Errorf("store the run's row: %w", err)
	}
	return addEvents(ctx, a.tx, a.run.ID, a.events)
}
