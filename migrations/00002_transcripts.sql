-- +goose Up

-- superseded is the journal sequence number of the rewind that took a row back; NULL counts.
CREATE TABLE steps (
    run        text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq        bigint NOT NULL, -- of the journal record
    step       integer NOT NULL,
    time       timestamptz NOT NULL,
    metrics    jsonb NOT NULL,  -- name to number; NaN and the infinities are strings
    tokens     jsonb,
    superseded bigint,
    PRIMARY KEY (run, seq)
);
CREATE UNIQUE INDEX steps_current ON steps (run, step) WHERE superseded IS NULL;

CREATE TABLE checkpoints (
    run        text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq        bigint NOT NULL,
    step       integer NOT NULL,
    next       integer NOT NULL, -- first step after restoring
    path       text NOT NULL,    -- relative to the run's directory
    time       timestamptz NOT NULL,
    superseded bigint,
    PRIMARY KEY (run, seq)
);

-- Pixels lie on disk under DATA/images, named by their hash.
CREATE TABLE images (
    sha256     text PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    media_type text NOT NULL,
    width      integer NOT NULL,
    height     integer NOT NULL,
    bytes      bigint NOT NULL,
    added      timestamptz NOT NULL DEFAULT now()
);

-- One image in one step.
CREATE TABLE episodes (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run        text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step       integer NOT NULL,
    slot       integer NOT NULL,
    image      text NOT NULL,
    time       timestamptz NOT NULL,
    superseded bigint,
    outcome    text NOT NULL DEFAULT 'open',
    question   text NOT NULL DEFAULT '',
    reference  text NOT NULL DEFAULT '',
    difficulty double precision NOT NULL DEFAULT 0,
    candidates integer NOT NULL DEFAULT 0,
    rollouts   integer NOT NULL DEFAULT 0,
    correct    integer NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX episodes_current ON episodes (run, step, slot) WHERE superseded IS NULL;
CREATE INDEX episodes_list ON episodes (run, step DESC, slot DESC, id DESC);
CREATE INDEX episodes_outcome ON episodes (run, outcome, step DESC, slot DESC, id DESC);

-- data is the journal record whole; the other columns are read from it.
CREATE TABLE candidates (
    episode      bigint NOT NULL REFERENCES episodes (id) ON DELETE CASCADE,
    g            integer NOT NULL,
    seq          bigint NOT NULL,
    data         jsonb NOT NULL,
    format_ok    boolean GENERATED ALWAYS AS ((data ->> 'format_ok')::boolean) STORED,
    question     text GENERATED ALWAYS AS (data ->> 'question') STORED,
    answer       text GENERATED ALWAYS AS (data ->> 'answer') STORED,
    screened     boolean GENERATED ALWAYS AS ((data ->> 'screened')::boolean) STORED,
    fact_q       double precision GENERATED ALWAYS AS ((data ->> 'fact_q')::double precision) STORED,
    corr_a       double precision GENERATED ALWAYS AS ((data ->> 'corr_a')::double precision) STORED,
    difficulty   double precision GENERATED ALWAYS AS ((data ->> 'difficulty')::double precision) STORED,
    selected     boolean GENERATED ALWAYS AS ((data ->> 'selected')::boolean) STORED,
    final        boolean GENERATED ALWAYS AS ((data ->> 'final')::boolean) STORED,
    r_fact       double precision GENERATED ALWAYS AS ((data ->> 'r_fact')::double precision) STORED,
    r_diff_tilde double precision GENERATED ALWAYS AS ((data ->> 'r_diff_tilde')::double precision) STORED,
    r_chal       double precision GENERATED ALWAYS AS ((data ->> 'r_chal')::double precision) STORED,
    reward       double precision GENERATED ALWAYS AS ((data ->> 'reward')::double precision) STORED,
    advantage    double precision GENERATED ALWAYS AS ((data ->> 'advantage')::double precision) STORED,
    retained     boolean GENERATED ALWAYS AS ((data ->> 'retained')::boolean) STORED,
    PRIMARY KEY (episode, g)
);

CREATE TABLE rollouts (
    episode   bigint NOT NULL REFERENCES episodes (id) ON DELETE CASCADE,
    k         integer NOT NULL,
    seq       bigint NOT NULL,
    data      jsonb NOT NULL,
    format_ok boolean GENERATED ALWAYS AS ((data ->> 'format_ok')::boolean) STORED,
    answer    text GENERATED ALWAYS AS (data ->> 'answer') STORED,
    correct   double precision GENERATED ALWAYS AS ((data ->> 'correct')::double precision) STORED,
    reason    double precision GENERATED ALWAYS AS ((data ->> 'reason')::double precision) STORED,
    evaluable boolean GENERATED ALWAYS AS ((data ->> 'evaluable')::boolean) STORED,
    final     boolean GENERATED ALWAYS AS ((data ->> 'final')::boolean) STORED,
    reward    double precision GENERATED ALWAYS AS ((data ->> 'reward')::double precision) STORED,
    advantage double precision GENERATED ALWAYS AS ((data ->> 'advantage')::double precision) STORED,
    retained  boolean GENERATED ALWAYS AS ((data ->> 'retained')::boolean) STORED,
    PRIMARY KEY (episode, k)
);

CREATE TABLE judgements (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run       text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq       bigint NOT NULL,
    episode   bigint NOT NULL REFERENCES episodes (id) ON DELETE CASCADE,
    step      integer NOT NULL,
    time      timestamptz NOT NULL,
    data      jsonb NOT NULL,
    judge     text GENERATED ALWAYS AS (data ->> 'judge') STORED,
    target    integer GENERATED ALWAYS AS ((data ->> 'target')::integer) STORED,
    format_ok boolean GENERATED ALWAYS AS ((data ->> 'format_ok')::boolean) STORED,
    ema_step  integer GENERATED ALWAYS AS ((data -> 'verifier' ->> 'ema_step')::integer) STORED,
    UNIQUE (run, seq)
);
CREATE INDEX judgements_list ON judgements (run, id DESC);
CREATE INDEX judgements_episode ON judgements (episode, id);

CREATE TABLE disputes (
    episode    bigint PRIMARY KEY REFERENCES episodes (id) ON DELETE CASCADE,
    seq        bigint NOT NULL,
    data       jsonb NOT NULL,
    outcome    text GENERATED ALWAYS AS (data ->> 'outcome') STORED,
    overturned boolean GENERATED ALWAYS AS ((data ->> 'overturned')::boolean) STORED
);

-- Full-text search. A tsvector holds at most 1 MB, so only the first part of an endless completion is indexed.
CREATE INDEX candidates_text ON candidates USING gin (to_tsvector('simple', left(data ->> 'text', 200000)));
CREATE INDEX rollouts_text ON rollouts USING gin (to_tsvector('simple', left(data ->> 'text', 200000)));
CREATE INDEX judgements_text ON judgements USING gin (to_tsvector('simple', left(data ->> 'text', 200000)));

-- Transcripts compress better and faster with lz4, where this Postgres was built with it.
-- +goose StatementBegin
DO $$
DECLARE
    target text;
BEGIN
    FOREACH target IN ARRAY ARRAY['candidates', 'rollouts', 'judgements', 'events', 'steps'] LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET COMPRESSION lz4', target, CASE target WHEN 'steps' THEN 'metrics' ELSE 'data' END);
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'lz4 is not available; transcripts are compressed with pglz';
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE disputes, judgements, rollouts, candidates, episodes, images, checkpoints, steps;
