package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/trinity-lab/trinity/server/config"
	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/ingest"
	"github.com/trinity-lab/trinity/server/pglocal"
	"github.com/trinity-lab/trinity/server/postgres"
	trainerconfig "github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Lab is an open data directory with its database, for a server or for a command that works without one.
type Lab struct {
	Data     string // absolute
	Store    *postgres.Store
	Images   *ingest.Images
	Ingester *ingest.Ingester

	cluster *pglocal.Cluster // nil with a database URL
}

// OpenLab opens the database: the one at the configured URL, or the data directory's private Postgres, which may be
// running for another process already.
func OpenLab(ctx context.Context, c config.Config, log *slog.Logger) (*Lab, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // Postgres's user has to pass through
	}
	if err := os.MkdirAll(c.Data, mode); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	l := &Lab{Data: c.Data, Images: ingest.NewImages(filepath.Join(c.Data, "images"))}
	home, err := homeID(c.Data)
	if err != nil {
		return nil, err
	}
	dsn := c.DatabaseURL
	if dsn == "" {
		if l.cluster, err = pglocal.Open(ctx, c.Data, pglocal.Options{Log: log}); err != nil {
			return nil, err
		}
		dsn = l.cluster.DSN()
	}
	if l.Store, err = postgres.Open(ctx, dsn, home); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.Ingester = ingest.New(l.Store, l.Images, log)
	return l, nil
}

// homeID names the data directory, also after it was moved: a file of random digits.
func homeID(data string) (string, error) {
	path := filepath.Join(data, "home")
	b, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(b)); err == nil && len(id) == 16 {
		if _, err := hex.DecodeString(id); err == nil {
			return id, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the data directory's name (it may belong to another user; choose one with --data): %w", err)
	}
	id := experiment.NewRunID()
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("name the data directory: %w", err)
	}
	return id, nil
}

// RunsDir is where launched runs live.
func (l *Lab) RunsDir() string { return filepath.Join(l.Data, "runs") }

func (l *Lab) keep(ctx context.Context) {
	if l.cluster != nil {
		l.cluster.Keep(ctx)
	}
}

// Close leaves the database, and stops it where this process started it.
func (l *Lab) Close() error {
	if l.Store != nil {
		l.Store.Close()
	}
	if l.cluster != nil {
		return l.cluster.Close()
	}
	return nil
}

// tryLock takes a lock file that the system frees when the process ends. held says that another process has it.
func tryLock(path string) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		f.Close()
		return nil, errors.Is(err, syscall.EWOULDBLOCK), ignoreWouldBlock(err)
	}
	return f, false, nil
}

func ignoreWouldBlock(err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	return err
}

// presets are the trainer's embedded ones. Files are not offered: a request must not read the server's disk.
type presets struct{}

// Names implements experiment.Presets.
func (presets) Names() []string { return trainerconfig.Presets() }

// Load implements experiment.Presets.
func (presets) Load(name string) (spec.Config, error) {
	c, _, err := trainerconfig.Preset(name)
	return c, err
}

// Set implements experiment.Presets.
func (presets) Set(c *spec.Config, key string, value any) error {
	return trainerconfig.SetValue(c, key, value)
}
