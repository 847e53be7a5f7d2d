-- +goose Up
CREATE TABLE runs (
    id          text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{16}$'),
    journal_id  text UNIQUE,                -- id in the journal's first record; known once the run has begun
    home        text NOT NULL,              -- data directory whose server owns the run's process
    name        text NOT NULL,
    status      text NOT NULL CHECK (status IN ('queued', 'starting', 'running', 'paused', 'stopping', 'stopped', 'completed', 'failed')),
    error       text NOT NULL DEFAULT '',
    config      jsonb NOT NULL,
    config_hash text NOT NULL,
    steps       integer NOT NULL,           -- planned
    done        integer NOT NULL DEFAULT 0, -- committed
    phase       jsonb,                      -- newest progress report
    created     timestamptz NOT NULL,
    queued      timestamptz NOT NULL,       -- when it last entered the queue
    started     timestamptz,
    ended       timestamptz,
    directory   text NOT NULL,
    imported    boolean NOT NULL DEFAULT false,
    launched    boolean NOT NULL DEFAULT false,
    model       text NOT NULL DEFAULT '',
    corpus      text NOT NULL DEFAULT '',
    skipped     integer NOT NULL DEFAULT 0,
    version     text NOT NULL DEFAULT '',
    parent      text REFERENCES runs (id) ON DELETE SET NULL,
    tags        text[] NOT NULL DEFAULT '{}',
    notes       text NOT NULL DEFAULT '',
    latest      jsonb,                      -- metrics of the newest committed step
    last_event  bigint NOT NULL DEFAULT 0,  -- newest events.seq
    position    bigint NOT NULL DEFAULT 0,  -- journal records ingested
    byte_offset bigint NOT NULL DEFAULT 0,  -- of the journal behind them
    checksum    bigint NOT NULL DEFAULT 0,  -- of the last of them
    log_offset  bigint NOT NULL DEFAULT 0   -- bytes of the process's standard error that are in the feed
);
CREATE INDEX runs_newest ON runs (created DESC, id DESC);
CREATE INDEX runs_queue ON runs (queued, id) WHERE status = 'queued';

-- One row a process started for a run.
CREATE TABLE attempts (
    run     text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    number  integer NOT NULL,
    pid     integer NOT NULL,
    started timestamptz NOT NULL,
    ended   timestamptz,
    exit    text NOT NULL DEFAULT '',
    PRIMARY KEY (run, number)
);

-- The feed of a run: seq has no gaps.
CREATE TABLE events (
    run  text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq  bigint NOT NULL,
    kind text NOT NULL,
    step integer NOT NULL,
    time timestamptz NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (run, seq)
);
CREATE INDEX events_kind ON events (run, kind, seq);

-- +goose Down
DROP TABLE events, attempts, runs;
