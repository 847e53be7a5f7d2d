package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// place is an episode within a run.
type place struct{ step, slot int }

// member is a row of candidates, rollouts, judgements or disputes.
type member struct {
	at    place
	index int // g or k
	seq   int64
	step  int
	time  time.Time
	data  string
}

// segment gathers records between two rewinds and stores them with a few statements.
type segment struct {
	order      []place // of first mention
	image      map[place]string
	time       map[place]time.Time
	candidates map[[3]int]member // step, slot, g: the later record replaces the earlier
	rollouts   map[[3]int]member
	disputes   map[[3]int]member
	judgements []member
	steps      []spec.Record
	points     []spec.Record // checkpoints
}

func (g *segment) add(r spec.Record) error {
	switch d := r.Data.(type) {
	case *spec.Candidate:
		return put(g, &g.candidates, r, d.EpisodeKey, d.G)
	case *spec.Rollout:
		return put(g, &g.rollouts, r, d.EpisodeKey, d.K)
	case *spec.Dispute:
		return put(g, &g.disputes, r, d.EpisodeKey, 0)
	case *spec.Judgement:
		m, err := g.member(r, d.EpisodeKey, d.Target)
		g.judgements = append(g.judgements, m)
		return err
	case *spec.Step:
		g.steps = append(g.steps, r)
	case *spec.Checkpoint:
		g.points = append(g.points, r)
	}
	return nil
}

func put(g *segment, rows *map[[3]int]member, r spec.Record, key spec.EpisodeKey, index int) error {
	m, err := g.member(r, key, index)
	if *rows == nil {
		*rows = map[[3]int]member{}
	}
	(*rows)[[3]int{r.Step, key.Slot, index}] = m
	return err
}

func (g *segment) member(r spec.Record, key spec.EpisodeKey, index int) (member, error) {
	at := place{r.Step, key.Slot}
	if _, ok := g.image[at]; !ok {
		if g.image == nil {
			g.image, g.time = map[place]string{}, map[place]time.Time{}
		}
		g.order = append(g.order, at)
		g.image[at], g.time[at] = text(key.Image), r.Time
	}
	data, err := encode(r.Data)
	return member{at, index, int64(r.Seq), r.Step, r.Time.UTC(), data}, err
}

// store writes the segment.
func (g *segment) store(ctx context.Context, tx pgx.Tx, run string) error {
	ids, err := g.episodes(ctx, tx, run)
	if err != nil {
		return err
	}
	if err := g.members(ctx, tx, run, ids); err != nil {
		return err
	}
	if err := g.commits(ctx, tx, run); err != nil {
		return err
	}
	return g.summarise(ctx, tx, run, ids)
}

// episodes makes the episodes that are new and returns all ids.
func (g *segment) episodes(ctx context.Context, tx pgx.Tx, run string) (map[place]int64, error) {
	ids := map[place]int64{}
	if len(g.order) == 0 {
		return ids, nil
	}
	steps, slots := make([]int, len(g.order)), make([]int, len(g.order))
	images, times := make([]string, len(g.order)), make([]time.Time, len(g.order))
	for i, at := range g.order {
		steps[i], slots[i], images[i], times[i] = at.step, at.slot, g.image[at], g.time[at].UTC()
	}
	_, err := tx.Exec(ctx, `INSERT INTO episodes (run, step, slot, image, time)
		SELECT $1, step, slot, image, time FROM unnest($2::int[], $3::int[], $4::text[], $5::timestamptz[]) AS fresh (step, slot, image, time)
		WHERE NOT EXISTS (SELECT FROM episodes e WHERE e.run = $1 AND e.step = fresh.step AND e.slot = fresh.slot AND e.superseded IS NULL)`,
		run, steps, slots, images, times)
	if err != nil {
		return nil, fmt.Errorf("store episodes: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT step, slot, id FROM episodes JOIN unnest($2::int[], $3::int[]) AS wanted (step, slot) USING (step, slot)
		WHERE run = $1 AND superseded IS NULL`, run, steps, slots)
	if err != nil {
		return nil, fmt.Errorf("find episodes: %w", err)
	}
	var at place
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&at.step, &at.slot, &id}, func() error {
		ids[at] = id
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find episodes: %w", err)
	}
	return ids, nil
}

// columns are a set of members as arrays for unnest.
type columns struct {
	episodes []int64
	indices  []int
	seqs     []int64
	steps    []int
	times    []time.Time
	data     []string
}

func (c *columns) add(ids map[place]int64, m member) {
	c.episodes = append(c.episodes, ids[m.at])
	c.indices = append(c.indices, m.index)
	c.seqs = append(c.seqs, m.seq)
	c.steps = append(c.steps, m.step)
	c.times = append(c.times, m.time)
	c.data = append(c.data, m.data)
}

func (g *segment) members(ctx context.Context, tx pgx.Tx, run string, ids map[place]int64) error {
	for _, table := range []struct {
		rows map[[3]int]member
		sql  string
	}{
		{g.candidates, `INSERT INTO candidates (episode, g, seq, data) SELECT e, i, s, d::jsonb FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[]) AS fresh (e, i, s, d)
			ON CONFLICT (episode, g) DO UPDATE SET seq = excluded.seq, data = excluded.data`},
		{g.rollouts, `INSERT INTO rollouts (episode, k, seq, data) SELECT e, i, s, d::jsonb FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[]) AS fresh (e, i, s, d)
			ON CONFLICT (episode, k) DO UPDATE SET seq = excluded.seq, data = excluded.data`},
		{g.disputes, `INSERT INTO disputes (episode, seq, data) SELECT e, s, d::jsonb FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[]) AS fresh (e, i, s, d)
			ON CONFLICT (episode) DO UPDATE SET seq = excluded.seq, data = excluded.data`},
	} {
		if len(table.rows) == 0 {
			continue
		}
		var c columns
		for _, m := range table.rows {
			c.add(ids, m)
		}
		if _, err := tx.Exec(ctx, table.sql, c.episodes, c.indices, c.seqs, c.data); err != nil {
			return fmt.Errorf("store transcripts: %w", err)
		}
	}
	if len(g.judgements) == 0 {
		return nil
	}
	var c columns
	for _, m := range g.judgements {
		c.add(ids, m)
	}
	_, err := tx.Exec(ctx, `INSERT INTO judgements (run, seq, episode, step, time, data)
		SELECT $1, s, e, p, t, d::jsonb FROM unnest($2::bigint[], $3::bigint[], $4::int[], $5::timestamptz[], $6::text[]) AS fresh (s, e, p, t, d) ORDER BY s`,
		run, c.seqs, c.episodes, c.steps, c.times, c.data)
	if err != nil {
		return fmt.Errorf("store judgements: %w", err)
	}
	return nil
}

// commits stores steps and checkpoints.
func (g *segment) commits(ctx context.Context, tx pgx.Tx, run string) error {
	if len(g.steps) > 0 {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"steps"}, []string{"run", "seq", "step", "time", "metrics", "tokens"},
			pgx.CopyFromSlice(len(g.steps), func(i int) ([]any, error) {
				r := g.steps[i]
				d, ok := r.Data.(*spec.Step)
				if !ok {
					return nil, fmt.Errorf("record %d is not a step", r.Seq)
				}
				metrics := d.Metrics
				if metrics == nil {
					metrics = map[string]spec.Float{}
				}
				m, err := encode(metrics)
				if err != nil {
					return nil, err
				}
				t, err := encode(d.Tokens)
				return []any{run, int64(r.Seq), r.Step, r.Time.UTC(), m, t}, err
			}))
		if err != nil {
			return fmt.Errorf("store steps: %w", err)
		}
	}
	for _, r := range g.points {
		d, ok := r.Data.(*spec.Checkpoint)
		if !ok {
			return fmt.Errorf("record %d is not a checkpoint", r.Seq)
		}
		_, err := tx.Exec(ctx, `INSERT INTO checkpoints (run, seq, step, next, path, time) VALUES ($1, $2, $3, $4, $5, $6)`,
			run, int64(r.Seq), r.Step, d.Next, text(d.Path), r.Time.UTC())
		if err != nil {
			return fmt.Errorf("store a checkpoint: %w", err)
		}
	}
	return nil
}

const summarySQL = `UPDATE episodes SET
	candidates = summary.candidates, question = summary.question, reference = summary.reference, difficulty = summary.difficulty,
	rollouts = summary.rollouts, correct = summary.correct, outcome = summary.outcome
FROM (
	SELECT e.id, c.n AS candidates, coalesce(c.question, '') AS question, coalesce(c.answer, '') AS reference,
		coalesce(c.difficulty, 0) AS difficulty, r.n AS rollouts, r.correct,
		CASE
			WHEN NOT EXISTS (SELECT FROM steps s WHERE s.run = e.run AND s.step = e.step AND s.superseded IS NULL) THEN 'open'
			WHEN c.question IS NULL THEN 'rejected'
			WHEN d.outcome = 'fallback' THEN 'fallback'
			WHEN d.overturned THEN 'overturned'
			WHEN d.outcome IS NOT NULL THEN 'upheld'
			WHEN r.correct = 0 THEN 'unsolved'
			WHEN r.correct >= r.evaluable THEN 'solved'
			ELSE 'mixed'
		END AS outcome
	FROM episodes e
	CROSS JOIN LATERAL (SELECT count(*) AS n, max(question) FILTER (WHERE selected) AS question, max(answer) FILTER (WHERE selected) AS answer,
		max(difficulty) FILTER (WHERE selected) AS difficulty FROM candidates WHERE episode = e.id) c
	CROSS JOIN LATERAL (SELECT count(*) AS n, count(*) FILTER (WHERE correct > 0) AS correct, count(*) FILTER (WHERE evaluable) AS evaluable
		FROM rollouts WHERE episode = e.id) r
	LEFT JOIN disputes d ON d.episode = e.id
	WHERE e.run = $1 AND e.superseded IS NULL AND (e.id = ANY($2) OR e.step = ANY($3))
) summary
WHERE episodes.id = summary.id`

// summarise brings the list columns of touched episodes up to date; a committed step settles all of its episodes.
func (g *segment) summarise(ctx context.Context, tx pgx.Tx, run string, ids map[place]int64) error {
	touched := make([]int64, 0, len(ids))
	for _, id := range ids {
		touched = append(touched, id)
	}
	steps := make([]int, len(g.steps))
	for i, r := range g.steps {
		steps[i] = r.Step
	}
	if len(touched) == 0 && len(steps) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, summarySQL, run, touched, steps); err != nil {
		return fmt.Errorf("summarise episodes: %w", err)
	}
	return nil
}
