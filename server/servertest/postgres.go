// Package servertest gives tests a real Postgres: one private cluster a test binary, a database a test.
package servertest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/trinity-lab/trinity/server/pglocal"
	"github.com/trinity-lab/trinity/server/postgres"
)

// Home names the data directory of stores made here.
const Home = "test"

const template = "template_trinity"

// Postgres is a cluster that starts when the first test asks for a database.
type Postgres struct {
	once    sync.Once
	dir     string
	cluster *pglocal.Cluster
	err     error
	mu      sync.Mutex // CREATE DATABASE needs its template to itself
	next    int
}

// Main runs a binary's tests, stops the cluster and fails on leaked goroutines. Call it from TestMain.
func (p *Postgres) Main(m *testing.M) {
	code := m.Run()
	if err := p.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func (p *Postgres) stop() error {
	if p.dir == "" {
		return nil
	}
	defer os.RemoveAll(p.dir)
	if p.cluster == nil {
		return nil
	}
	return p.cluster.Close()
}

func (p *Postgres) start() {
	ctx := context.Background()
	if p.dir, p.err = os.MkdirTemp("", "servertest"); p.err != nil {
		return
	}
	if p.err = os.Chmod(p.dir, 0o755); p.err != nil { // root's cluster runs under another user
		return
	}
	if p.cluster, p.err = pglocal.Open(ctx, p.dir, pglocal.Options{Fast: true}); p.err != nil {
		return
	}
	if p.err = p.exec(ctx, "CREATE DATABASE "+template); p.err != nil {
		return
	}
	var store *postgres.Store
	if store, p.err = postgres.Open(ctx, p.cluster.DSNOf(template), Home); p.err == nil {
		store.Close()
	}
}

func (p *Postgres) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, p.cluster.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// DSN makes a database with the current schema and returns its connection string. It is dropped with the test.
func (p *Postgres) DSN(tb testing.TB) string {
	tb.Helper()
	p.once.Do(p.start)
	if p.err != nil {
		tb.Fatalf("start Postgres for the tests: %v", p.err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	name := "test_" + strconv.Itoa(p.next)
	if err := p.exec(tb.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		tb.Fatalf("make a test database: %v", err)
	}
	tb.Cleanup(func() {
		if err := p.exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("drop the test database: %v", err)
		}
	})
	return p.cluster.DSNOf(name)
}

// Store opens a fresh database.
func (p *Postgres) Store(tb testing.TB) *postgres.Store {
	tb.Helper()
	store, err := postgres.Open(tb.Context(), p.DSN(tb), Home)
	if err != nil {
		tb.Fatalf("open the test database: %v", err)
	}
	tb.Cleanup(store.Close)
	return store
}
