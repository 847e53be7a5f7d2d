package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trinity-lab/trinity/server/experiment"
)

// ImportRun returns the run whose journal or own id is run.ID, made from run if it is not there yet.
func (s *Store) ImportRun(ctx context.Context, run experiment.Run) (experiment.Run, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+runColumns+` FROM runs WHERE journal_id = $1 OR id = $1 ORDER BY id = $1 DESC LIMIT 1`, run.ID)
	if err != nil {
		return run, translate(err, "look for run %s", run.ID)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanRun)
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return found, translate(err, "look for run %s", run.ID)
	}
	if err := s.CreateRun(ctx, run); err != nil && !errors.Is(err, experiment.ErrConflict) {
		return run, err
	}
	return s.Run(ctx, run.ID)
}

// AddImages lists kept images.
func (s *Store) AddImages(ctx context.Context, images []experiment.Image) error {
	batch := &pgx.Batch{}
	for _, i := range images {
		batch.Queue(`INSERT INTO images (sha256, media_type, width, height, bytes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			i.SHA256, i.MediaType, i.Width, i.Height, i.Bytes)
	}
	return translate(s.pool.SendBatch(ctx, batch).Close(), "list images")
}

// Claim moves the run that has waited longest to starting, unless limit runs of this home are at work. Runs in except
// must wait on: their former process is still being looked after. ok says whether it did.
func (s *Store) Claim(ctx context.Context, limit int, except []string) (run experiment.Run, ok bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('trinity claim ' || $1))`, s.home); err != nil {
			return err
		}
		var id string
		err := tx.QueryRow(ctx, `SELECT id FROM runs WHERE status = 'queued' AND home = $1 AND NOT imported AND id <> ALL ($3)
			AND (SELECT count(*) FROM runs WHERE home = $1 AND NOT imported AND status IN ('starting', 'running', 'paused', 'stopping')) < $2
			ORDER BY queued, id LIMIT 1 FOR UPDATE SKIP LOCKED`, s.home, limit, except).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE runs SET status = 'starting', error = '', ended = NULL WHERE id = $1`, id); err != nil {
			return err
		}
		if run, err = getRun(ctx, tx, id, ""); err != nil {
			return err
		}
		ok = true
		return addStatusEvent(ctx, tx, run)
	})
	return run, ok, translate(err, "take a run from the queue")
}

// Active lists the runs of this home that have or should have a process.
func (s *Store) Active(ctx context.Context) ([]experiment.Run, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+runColumns+` FROM runs WHERE home = $1 AND NOT imported
		AND status IN ('starting', 'running', 'paused', 'stopping') ORDER BY created`, s.home)
	if err != nil {
		return nil, translate(err, "list active runs")
	}
	runs, err := pgx.CollectRows(rows, scanRun)
	return runs, translate(err, "list active runs")
}

// StartAttempt records a started process.
func (s *Store) StartAttempt(ctx context.Context, run string, pid int) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE runs SET launched = true WHERE id = $1`, run); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO attempts (run, number, pid, started)
			VALUES ($1, (SELECT coalesce(max(number), 0) + 1 FROM attempts WHERE run = $1), $2, now())`, run, pid)
		return err
	})
	return translate(err, "record the process of run %s", run)
}

// EndAttempt records how the newest process ended.
func (s *Store) EndAttempt(ctx context.Context, run, exit string) error {
	_, err := s.pool.Exec(ctx, `UPDATE attempts SET ended = now(), exit = $2
		WHERE run = $1 AND ended IS NULL AND number = (SELECT max(number) FROM attempts WHERE run = $1)`, run, text(exit))
	return translate(err, "record the end of run %s's process", run)
}

// LogOffset returns how many bytes of the process's log are in the feed.
func (s *Store) LogOffset(ctx context.Context, run string) (int64, error) {
	var offset int64
	err := s.pool.QueryRow(ctx, `SELECT log_offset FROM runs WHERE id = $1`, run).Scan(&offset)
	return offset, translate(err, "find the log position of run %s", run)
}

// AppendLog adds lines of the process's log to the feed and moves the offset from one place to another. It does nothing
// where the offset stored is another: those lines are in the feed already.
func (s *Store) AppendLog(ctx context.Context, run string, from, to int64, lines []experiment.LogLine) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var offset int64
		var done int
		if err := tx.QueryRow(ctx, `SELECT log_offset, done FROM runs WHERE id = $1 FOR UPDATE`, run).Scan(&offset, &done); err != nil {
			return err
		}
		if offset != from {
			return nil
		}
		if _, err := tx.Exec(ctx, `UPDATE runs SET log_offset = $2 WHERE id = $1`, run, to); err != nil {
			return err
		}
		events := make([]newEvent, len(lines))
		for i, line := range lines {
			data, err := encode(line)
			if err != nil {
				return fmt.Errorf("log line: %w", err)
			}
			events[i] = newEvent{experiment.EventLog, done, time.Now(), data}
		}
		return addEvents(ctx, tx, run, events)
	})
	return translate(err, "append to the log of run %s", run)
}
