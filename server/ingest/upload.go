package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Uploads takes in journals that come over the network; each gets a run directory under Dir, named by the run's id.
type Uploads struct {
	Dir      string
	Store    ImportStore
	Ingester *Ingester
}

// Import stores an uploaded journal. A later upload of the same run replaces the earlier; what is new is added.
func (u *Uploads) Import(ctx context.Context, r io.Reader) (experiment.Run, error) {
	if err := os.MkdirAll(u.Dir, 0o700); err != nil {
		return experiment.Run{}, fmt.Errorf("keep the upload: %w", err)
	}
	fresh, err := os.MkdirTemp(u.Dir, "new-")
	if err != nil {
		return experiment.Run{}, fmt.Errorf("keep the upload: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := save(filepath.Join(fresh, journal.FileName), r); err != nil {
		return experiment.Run{}, err
	}
	if _, err := journal.Verify(fresh); err != nil {
		return experiment.Run{}, experiment.Invalid("journal", "can't be read: %v", err)
	}
	first, err := opening(fresh)
	if err != nil {
		return experiment.Run{}, experiment.Invalid("journal", "is not one: %v", err)
	}
	id := first.Data.(*spec.Run).ID // opening checked it
	known, err := u.Store.Run(ctx, id)
	if err == nil && !known.Imported {
		return known, fmt.Errorf("run %s was launched by this server: %w", id, experiment.ErrConflict)
	}
	if err != nil && !errors.Is(err, experiment.ErrNotFound) {
		return known, err
	}
	dir := filepath.Join(u.Dir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return known, fmt.Errorf("keep the upload: %w", err)
	}
	if err := os.Rename(filepath.Join(fresh, journal.FileName), filepath.Join(dir, journal.FileName)); err != nil {
		return known, fmt.Errorf("keep the upload: %w", err)
	}
	return Import(ctx, u.Store, u.Ingester, dir)
}

func save(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the upload: %w", err)
	}
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read the upload: %w", err)
	}
	return nil
}
