package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// ImportStore is a Store that can take runs which no server started.
type ImportStore interface {
	Store
	Run(ctx context.Context, id string) (experiment.Run, error)
	// ImportRun returns the run whose journal has this id, made from run if it is not there yet.
	ImportRun(ctx context.Context, run experiment.Run) (experiment.Run, error)
	SetStatus(ctx context.Context, id string, to experiment.Status, reason string, from ...experiment.Status) (experiment.Run, error)
}

// Import stores a run directory made without a server. Repeating it adds what is new and doubles nothing.
func Import(ctx context.Context, store ImportStore, i *Ingester, dir string) (experiment.Run, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return experiment.Run{}, err
	}
	opening, err := opening(dir)
	if err != nil {
		return experiment.Run{}, err
	}
	data := opening.Data.(*spec.Run) // opening checked it
	run, err := store.ImportRun(ctx, experiment.Run{
		ID: data.ID, Name: data.Config.Name, Config: data.Config, ConfigHash: experiment.ConfigHash(data.Config), Steps: data.Config.Steps,
		Created: opening.Time.UTC(), Directory: dir, Imported: true, Status: experiment.Queued,
	})
	if err != nil {
		return run, err
	}
	if !run.Imported && run.Directory != dir {
		return run, fmt.Errorf("run %s was launched here and is ingested from %s: %w", run.ID, run.Directory, experiment.ErrConflict)
	}
	if err := i.Drain(ctx, run.ID, dir); err != nil {
		return run, err
	}
	if run, err = store.Run(ctx, run.ID); err != nil || run.Status.Terminal() || !run.Imported {
		return run, err
	}
	if writer, err := journal.Open(dir); err == nil { // nobody writes it any more
		if err := errors.Join(writer.Close(), i.Drain(ctx, run.ID, dir)); err != nil {
			return run, err
		}
		const reason = "its journal has no end record: the process was killed; continue it with trinity resume"
		if _, err := store.SetStatus(ctx, run.ID, experiment.Failed, reason, experiment.Queued, experiment.Starting, experiment.Running); err != nil && !errors.Is(err, experiment.ErrConflict) {
			return run, err
		}
	}
	return store.Run(ctx, run.ID)
}

// opening reads the journal's first record.
func opening(dir string) (spec.Record, error) {
	for r, err := range journal.Read(dir, 0) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return r, fmt.Errorf("import %q: %w", dir, err)
		}
		data, ok := r.Data.(*spec.Run)
		if !ok {
			return r, fmt.Errorf("import %q: the journal begins with a %s record instead of run", dir, r.Kind)
		}
		if !idPattern.MatchString(data.ID) {
			return r, fmt.Errorf("import %q: the run's id %q is not 16 hexadecimal digits", dir, data.ID)
		}
		if r.Time.IsZero() {
			r.Time = time.Unix(0, 0)
		}
		return r, nil
	}
	return spec.Record{}, fmt.Errorf("import %q: there is no %s with a record in it; name a run directory", dir, journal.FileName)
}
