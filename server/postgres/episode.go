package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
)

const episodeColumns = `id, run, step, slot, image, outcome, question, reference, difficulty, candidates, rollouts, correct, superseded IS NOT NULL, time`

func scanEpisode(row pgx.CollectableRow) (experiment.EpisodeSummary, error) {
	return pgx.RowToStructByPos[experiment.EpisodeSummary](row)
}

// episodeKey orders a run's episodes.
type episodeKey struct {
	Step int   `json:"s"`
	Slot int   `json:"l"`
	ID   int64 `json:"i"`
}

// Episodes lists a run's episodes, newest first.
func (s *Store) Episodes(ctx context.Context, run string, q experiment.EpisodeQuery) (experiment.EpisodePage, error) {
	var after episodeKey
	if err := readCursor(q.Cursor, &after); err != nil {
		return experiment.EpisodePage{}, err
	}
	if _, err := s.Run(ctx, run); err != nil {
		return experiment.EpisodePage{}, err
	}
	limit := clamp(q.Limit, 50, 200)
	where := []string{"run = @run", "superseded IS NULL"}
	args := pgx.NamedArgs{"run": run, "limit": limit + 1}
	if q.Outcome != "" {
		where = append(where, "outcome = @outcome")
		args["outcome"] = string(q.Outcome)
	}
	if q.Step != nil {
		where = append(where, "step = @step")
		args["step"] = *q.Step
	}
	if words := strings.TrimSpace(text(q.Text)); words != "" {
		where = append(where, `id IN (
			SELECT episode FROM candidates WHERE to_tsvector('simple', left(data ->> 'text', 200000)) @@ websearch_to_tsquery('simple', @words)
			UNION SELECT episode FROM rollouts WHERE to_tsvector('simple', left(data ->> 'text', 200000)) @@ websearch_to_tsquery('simple', @words)
			UNION SELECT episode FROM judgements WHERE to_tsvector('simple', left(data ->> 'text', 200000)) @@ websearch_to_tsquery('simple', @words))`)
		args["words"] = words
	}
	if q.Cursor != "" {
		where = append(where, "(step, slot, id) < (@cs, @cl, @ci)")
		args["cs"], args["cl"], args["ci"] = after.Step, after.Slot, after.ID
	}
	rows, err := s.pool.Query(ctx, `SELECT `+episodeColumns+` FROM episodes WHERE `+strings.Join(where, " AND ")+
		` ORDER BY step DESC, slot DESC, id DESC LIMIT @limit`, args)
	if err != nil {
		return experiment.EpisodePage{}, translate(err, "list the episodes of run %s", run)
	}
	episodes, err := pgx.CollectRows(rows, scanEpisode)
	if err != nil {
		return experiment.EpisodePage{}, translate(err, "list the episodes of run %s", run)
	}
	page := experiment.EpisodePage{Episodes: episodes}
	if len(episodes) > limit {
		page.Episodes = episodes[:limit]
		last := episodes[limit-1]
		page.Next = cursor(episodeKey{last.Step, last.Slot, last.ID})
	}
	return page, nil
}

// Episode returns one episode whole.
func (s *Store) Episode(ctx context.Context, id int64) (experiment.Episode, error) {
	var e experiment.Episode
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+episodeColumns+` FROM episodes WHERE id = $1`, id)
		if err != nil {
			return err
		}
		if e.EpisodeSummary, err = pgx.CollectExactlyOneRow(rows, scanEpisode); err != nil {
			return err
		}
		if e.CandidateList, err = collect[spec.Candidate](ctx, tx, `SELECT data FROM candidates WHERE episode = $1 ORDER BY g`, id); err != nil {
			return err
		}
		if e.RolloutList, err = collect[spec.Rollout](ctx, tx, `SELECT data FROM rollouts WHERE episode = $1 ORDER BY k`, id); err != nil {
			return err
		}
		disputes, err := collect[spec.Dispute](ctx, tx, `SELECT data FROM disputes WHERE episode = $1`, id)
		if err != nil {
			return err
		}
		if len(disputes) > 0 {
			e.Dispute = &disputes[0]
		}
		rows, err = tx.Query(ctx, `SELECT id, run, episode, step, time, data FROM judgements WHERE episode = $1 ORDER BY seq`, id)
		if err != nil {
			return err
		}
		if e.Judgements, err = pgx.CollectRows(rows, scanJudgement); err != nil {
			return err
		}
		return neighbours(ctx, tx, &e)
	})
	return e, translate(err, "get episode %d", id)
}

func neighbours(ctx context.Context, tx pgx.Tx, e *experiment.Episode) error {
	for _, n := range []struct {
		into *int64
		sql  string
	}{
		{&e.Previous, `SELECT id FROM episodes WHERE run = $1 AND superseded IS NULL AND (step, slot) < ($2, $3) ORDER BY step DESC, slot DESC LIMIT 1`},
		{&e.Next, `SELECT id FROM episodes WHERE run = $1 AND superseded IS NULL AND (step, slot) > ($2, $3) ORDER BY step, slot LIMIT 1`},
	} {
		if err := tx.QueryRow(ctx, n.sql, e.Run, e.Step, e.Slot).Scan(n.into); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	return nil
}

// collect reads a jsonb column into values.
func collect[T any](ctx context.Context, q querier, sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) {
		var value T
		var data []byte
		if err := row.Scan(&data); err != nil {
			return value, err
		}
		return value, json.Unmarshal(data, &value)
	})
}

func scanJudgement(row pgx.CollectableRow) (experiment.Judgement, error) {
	var j experiment.Judgement
	var data []byte
	if err := row.Scan(&j.ID, &j.Run, &j.Episode, &j.Step, &j.Time, &data); err != nil {
		return j, err
	}
	return j, json.Unmarshal(data, &j.Judgement)
}

// Judgements lists a run's judgements, newest first, without those of superseded episodes.
func (s *Store) Judgements(ctx context.Context, run string, q experiment.JudgementQuery) (experiment.JudgementPage, error) {
	var after struct {
		ID int64 `json:"i"`
	}
	if err := readCursor(q.Cursor, &after); err != nil {
		return experiment.JudgementPage{}, err
	}
	if _, err := s.Run(ctx, run); err != nil {
		return experiment.JudgementPage{}, err
	}
	limit := clamp(q.Limit, 100, 500)
	where := []string{"j.run = @run", "e.superseded IS NULL"}
	args := pgx.NamedArgs{"run": run, "limit": limit + 1}
	add := func(condition, name string, value any) {
		where = append(where, condition)
		args[name] = value
	}
	if q.Judge != "" {
		add("j.judge = @judge", "judge", string(q.Judge))
	}
	if q.Step != nil {
		add("j.step = @step", "step", *q.Step)
	}
	if q.Parsed != nil {
		add("j.format_ok = @parsed", "parsed", *q.Parsed)
	}
	if q.Episode != 0 {
		add("j.episode = @episode", "episode", q.Episode)
	}
	if q.Cursor != "" {
		add("j.id < @after", "after", after.ID)
	}
	rows, err := s.pool.Query(ctx, `SELECT j.id, j.run, j.episode, j.step, j.time, j.data FROM judgements j JOIN episodes e ON e.id = j.episode
		WHERE `+strings.Join(where, " AND ")+` ORDER BY j.id DESC LIMIT @limit`, args)
	if err != nil {
		return experiment.JudgementPage{}, translate(err, "list the judgements of run %s", run)
	}
	judgements, err := pgx.CollectRows(rows, scanJudgement)
	if err != nil {
		return experiment.JudgementPage{}, translate(err, "list the judgements of run %s", run)
	}
	page := experiment.JudgementPage{Judgements: judgements}
	if len(judgements) > limit {
		page.Judgements = judgements[:limit]
		after.ID = judgements[limit-1].ID
		page.Next = cursor(after)
	}
	return page, nil
}

// Count returns how many episodes and judgements of a run count: those that no rewind took back.
func (s *Store) Count(ctx context.Context, run string) (episodes, judgements int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM episodes WHERE run = $1 AND superseded IS NULL),
		(SELECT count(*) FROM judgements j JOIN episodes e ON e.id = j.episode WHERE j.run = $1 AND e.superseded IS NULL)`, run).Scan(&episodes, &judgements)
	return episodes, judgements, translate(err, "count run %s", run)
}
