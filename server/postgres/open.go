// Package postgres stores runs and what was ingested of them.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/trinity-lab/trinity/migrations"
	"github.com/trinity-lab/trinity/server/experiment"
)

// Store is a database with the current schema. It implements experiment.Store.
type Store struct {
	pool *pgxpool.Pool
	home string
}

var _ experiment.Store = (*Store)(nil)

// Open connects, brings the schema up to date under an advisory lock, and returns the store. home names the data
// directory whose server supervises the runs created through it.
func Open(ctx context.Context, dsn, home string) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the database URL (use postgres://user:password@host:5432/name): %w", err)
	}
	cfg.MaxConns = max(cfg.MaxConns, 16)
	cfg.ConnConfig.RuntimeParams["application_name"] = "trinity"
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	s := &Store{pool: pool, home: home}
	if err := s.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("bring the database's schema up to date: %w", err)
	}
	return s, nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600), lock.WithUnlockTimeout(1, 30))
	if err != nil {
		return err
	}
	sql, err := fs.Sub(migrations.FS, ".")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, sql, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	known, err := provider.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	if newest := provider.ListSources(); len(newest) > 0 && known > newest[len(newest)-1].Version {
		return fmt.Errorf("it has version %d, newer than this trinity's %d; use a newer trinity", known, newest[len(newest)-1].Version)
	}
	_, err = provider.Up(ctx)
	return err
}

// Ping checks that the database answers.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	return nil
}

// Close ends all connections.
func (s *Store) Close() { s.pool.Close() }

// inTx runs fn in a transaction.
func (s *Store) inTx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, fn)
}

// translate turns a driver's error into the domain's.
func translate(err error, what string, args ...any) error {
	if err == nil {
		return nil
	}
	what = fmt.Sprintf(what, args...)
	var refused *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%s: %w", what, experiment.ErrNotFound)
	case errors.As(err, &refused) && refused.Code == "23505":
		return fmt.Errorf("%s: it exists already: %w", what, experiment.ErrConflict)
	}
	return fmt.Errorf("%s: %w", what, err)
}
