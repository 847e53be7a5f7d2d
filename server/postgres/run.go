package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
)

const runColumns = `id, name, status, error, config, config_hash, steps, done, phase, created, started, ended, directory, imported,
	launched, model, corpus, skipped, version, coalesce(parent, ''), tags, notes, latest, last_event, position`

func scanRun(row pgx.CollectableRow) (experiment.Run, error) {
	var r experiment.Run
	var config, phase, latest []byte
	err := row.Scan(&r.ID, &r.Name, &r.Status, &r.Error, &config, &r.ConfigHash, &r.Steps, &r.Done, &phase, &r.Created, &r.Started,
		&r.Ended, &r.Directory, &r.Imported, &r.Launched, &r.Model, &r.Corpus, &r.Skipped, &r.Version, &r.Parent, &r.Tags, &r.Notes,
		&latest, &r.LastEvent, &r.Position)
	if err != nil {
		return r, err
	}
	for _, column := range []struct {
		json []byte
		into any
	}{{config, &r.Config}, {phase, &r.Phase}, {latest, &r.Latest}} {
		if column.json == nil {
			continue
		}
		if err := json.Unmarshal(column.json, column.into); err != nil {
			return r, fmt.Errorf("run %s: %w", r.ID, err)
		}
	}
	return r, nil
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// CreateRun stores a queued run and its first event.
func (s *Store) CreateRun(ctx context.Context, run experiment.Run) error {
	config, err := encode(run.Config)
	if err != nil {
		return err
	}
	if run.Tags == nil {
		run.Tags = []string{}
	}
	var parent *string
	if run.Parent != "" {
		parent = &run.Parent
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO runs (id, home, name, status, config, config_hash, steps, created, queued, directory, imported, parent, tags, notes)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10, $11, $12, $13)`,
			run.ID, s.home, text(run.Name), run.Status, config, run.ConfigHash, run.Steps, run.Created, run.Directory, run.Imported, parent, run.Tags, text(run.Notes))
		if err != nil {
			return err
		}
		return addStatusEvent(ctx, tx, run)
	})
	return translate(err, "create run %s", run.ID)
}

// Run returns one run.
func (s *Store) Run(ctx context.Context, id string) (experiment.Run, error) {
	return getRun(ctx, s.pool, id, "")
}

func getRun(ctx context.Context, q querier, id, lock string) (experiment.Run, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1 `+lock, text(id))
	if err != nil {
		return experiment.Run{}, translate(err, "get run %q", id)
	}
	run, err := pgx.CollectExactlyOneRow(rows, scanRun)
	return run, translate(err, "get run %q", id)
}

// Runs lists runs, newest first.
func (s *Store) Runs(ctx context.Context, q experiment.RunQuery) (experiment.RunPage, error) {
	limit := clamp(q.Limit, 50, 200)
	var after struct {
		Created time.Time `json:"c"`
		ID      string    `json:"i"`
	}
	if err := readCursor(q.Cursor, &after); err != nil {
		return experiment.RunPage{}, err
	}
	rows, err := s.pool.Query(ctx, `SELECT `+runColumns+` FROM runs
		WHERE ($1 = '' OR status = $1) AND ($2 = '' OR (created, id) < ($3, $2)) ORDER BY created DESC, id DESC LIMIT $4`,
		string(q.Status), after.ID, after.Created, limit+1)
	if err != nil {
		return experiment.RunPage{}, translate(err, "list runs")
	}
	runs, err := pgx.CollectRows(rows, scanRun)
	if err != nil {
		return experiment.RunPage{}, translate(err, "list runs")
	}
	page := experiment.RunPage{Runs: runs}
	if len(runs) > limit {
		page.Runs = runs[:limit]
		after.Created, after.ID = runs[limit-1].Created, runs[limit-1].ID
		page.Next = cursor(after)
	}
	return page, nil
}

// SetStatus moves a run to a status; see experiment.Store.
func (s *Store) SetStatus(ctx context.Context, id string, to experiment.Status, reason string, from ...experiment.Status) (experiment.Run, error) {
	var run experiment.Run
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var err error
		if run, err = getRun(ctx, tx, id, "FOR UPDATE"); err != nil {
			return err
		}
		if len(from) > 0 && !slices.Contains(from, run.Status) {
			return fmt.Errorf("run %s is %s: %w", id, run.Status, experiment.ErrConflict)
		}
		if run.Status == to {
			return nil
		}
		now := time.Now().UTC()
		run.Status, run.Error = to, text(reason)
		if to.Terminal() {
			run.Ended, run.Phase = &now, nil
		} else {
			run.Ended = nil
		}
		if to == experiment.Queued {
			run.Phase = nil
		}
		if run.Started == nil && to == experiment.Running {
			run.Started = &now
		}
		_, err = tx.Exec(ctx, `UPDATE runs SET status = $2, error = $3, started = $4, ended = $5,
			phase = CASE WHEN $2 = ANY('{queued,stopped,completed,failed}') THEN NULL ELSE phase END,
			queued = CASE WHEN $2 = 'queued' THEN $6 ELSE queued END WHERE id = $1`,
			id, string(run.Status), run.Error, run.Started, run.Ended, now)
		if err != nil {
			return translate(err, "set the status of run %s", id)
		}
		return addStatusEvent(ctx, tx, run)
	})
	return run, err
}

// Attempts lists the processes started for a run.
func (s *Store) Attempts(ctx context.Context, run string) ([]experiment.Attempt, error) {
	rows, err := s.pool.Query(ctx, `SELECT number, pid, started, ended, exit FROM attempts WHERE run = $1 ORDER BY number`, run)
	if err != nil {
		return nil, translate(err, "list the attempts of run %s", run)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[experiment.Attempt])
	return all, translate(err, "list the attempts of run %s", run)
}

// Steps returns the committed steps of a run that count, ascending.
func (s *Store) Steps(ctx context.Context, run string) ([]experiment.StepMetrics, error) {
	rows, err := s.pool.Query(ctx, `SELECT step, metrics, tokens FROM steps WHERE run = $1 AND superseded IS NULL ORDER BY step`, run)
	if err != nil {
		return nil, translate(err, "list the steps of run %s", run)
	}
	steps, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (experiment.StepMetrics, error) {
		var m experiment.StepMetrics
		var metrics, tokens []byte
		if err := row.Scan(&m.Step, &metrics, &tokens); err != nil {
			return m, err
		}
		m.Metrics = map[string]spec.Float{}
		if err := json.Unmarshal(metrics, &m.Metrics); err != nil {
			return m, fmt.Errorf("metrics of step %d: %w", m.Step, err)
		}
		if tokens != nil {
			if err := json.Unmarshal(tokens, &m.Tokens); err != nil {
				return m, fmt.Errorf("tokens of step %d: %w", m.Step, err)
			}
		}
		return m, nil
	})
	return steps, translate(err, "list the steps of run %s", run)
}

func clamp(limit, usual, most int) int {
	if limit <= 0 {
		return usual
	}
	return min(limit, most)
}

// cursor encodes a page's last key opaquely.
func cursor(key any) string {
	b, err := json.Marshal(key)
	if err != nil { // keys are plain structs
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(s string, key any) error {
	if s == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		dec := json.NewDecoder(strings.NewReader(string(b)))
		dec.DisallowUnknownFields()
		err = dec.Decode(key)
	}
	if err != nil {
		return experiment.Invalid("cursor", "is not one that this server gave; leave it out to start at the first page")
	}
	return nil
}
