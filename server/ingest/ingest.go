// Package ingest moves run journals into the database, exactly once, and their images into the data directory.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Store keeps records together with the position behind them.
type Store interface {
	Position(ctx context.Context, run string) (journal.Position, error)
	// Append stores records in one transaction with the position behind them; it returns the position then stored.
	Append(ctx context.Context, run string, records []spec.Record, behind journal.Position) (journal.Position, error)
	Reset(ctx context.Context, run string) error
	AddImages(ctx context.Context, images []experiment.Image) error
}

// Ingester reads the journals of run directories.
type Ingester struct {
	store  Store
	images *Images
	log    *slog.Logger
	retry  time.Duration // pause after a failed transaction
}

// New returns an Ingester that keeps images in images.
func New(store Store, images *Images, log *slog.Logger) *Ingester {
	return &Ingester{store: store, images: images, log: log, retry: time.Second}
}

// Errors that end one pass over a journal.
var (
	errMoved = errors.New("another ingester was faster")
	errDone  = errors.New("the journal's end was reached")
)

// permanent marks a fault of the journal that no retry mends.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Follow stores a run's records as they appear, until ctx ends or the journal is found damaged. Failed transactions are
// retried for ever: training goes on meanwhile, and nothing is lost. It waits for a journal that does not exist yet.
func (i *Ingester) Follow(ctx context.Context, run, dir string) error {
	return i.loop(ctx, run, dir, nil)
}

// Drain stores what is left of a journal whose writer has ended, and returns at its end. It returns nil at once where
// there is no journal.
func (i *Ingester) Drain(ctx context.Context, run, dir string) error {
	return i.loop(ctx, run, dir, func() error { return errDone })
}

func (i *Ingester) loop(ctx context.Context, run, dir string, idle func() error) error {
	seen := map[string]bool{}
	for {
		err := i.pass(ctx, run, dir, seen, idle)
		var fault permanent
		switch {
		case errors.Is(err, errDone):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &fault), errors.Is(err, experiment.ErrNotFound):
			return fmt.Errorf("ingest run %s: %w", run, err)
		case errors.Is(err, journal.ErrDiverged):
			i.log.Warn("the journal lost records that were ingested already; reading it again", "run", run)
			if err := i.store.Reset(ctx, run); err == nil {
				continue
			}
		case errors.Is(err, errMoved):
			continue
		}
		i.log.Warn("ingest failed; trying again", "run", run, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(i.retry):
		}
	}
}

// pass follows the journal from the stored position until something goes wrong.
func (i *Ingester) pass(ctx context.Context, run, dir string, seen map[string]bool, idle func() error) error {
	at, err := i.store.Position(ctx, run)
	if err != nil {
		return err
	}
	failed := error(nil)
	err = journal.Follow(ctx, dir, at, journal.FollowOptions{Poll: 50 * time.Millisecond, Batch: 1000, Idle: idle},
		func(batch []spec.Record, behind journal.Position) error {
			failed = i.batch(ctx, run, dir, batch, behind, seen)
			return failed
		})
	if failed != nil || errors.Is(err, errDone) || errors.Is(err, journal.ErrDiverged) || ctx.Err() != nil {
		return err
	}
	if errors.As(err, new(*fs.PathError)) { // such as too many open files
		return err
	}
	return permanent{err}
}

func (i *Ingester) batch(ctx context.Context, run, dir string, batch []spec.Record, behind journal.Position, seen map[string]bool) error {
	i.bringImages(ctx, dir, batch, seen)
	at, err := i.store.Append(ctx, run, batch, behind)
	if err != nil {
		return err
	}
	if at.Seq != behind.Seq {
		return errMoved
	}
	return nil
}

// bringImages copies images that the batch names, so that a page that hears of a record finds its image. A missing or
// wrong file costs a warning, never a record.
func (i *Ingester) bringImages(ctx context.Context, dir string, batch []spec.Record, seen map[string]bool) {
	var fresh []experiment.Image
	var missing []string
	var reason error
	for _, r := range batch {
		sha := imageOf(r.Data)
		if sha == "" || seen[sha] {
			continue
		}
		image, err := i.images.AddFromRun(dir, sha)
		if err != nil {
			missing, reason = append(missing, sha), err
		} else {
			fresh = append(fresh, image)
		}
		seen[sha] = true
	}
	if len(missing) > 0 {
		i.log.Warn("images could not be kept; pages show their episodes without them", "images", len(missing), "last", missing[len(missing)-1], "error", reason)
	}
	if len(fresh) == 0 {
		return
	}
	if err := i.store.AddImages(ctx, fresh); err != nil {
		i.log.Warn("images could not be listed", "error", err)
		for _, image := range fresh {
			delete(seen, image.SHA256)
		}
	}
}

func imageOf(data any) string {
	switch d := data.(type) {
	case *spec.Candidate:
		return d.Image
	case *spec.Rollout:
		return d.Image
	case *spec.Judgement:
		return d.Image
	case *spec.Dispute:
		return d.Image
	}
	return ""
}
