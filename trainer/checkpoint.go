package trainer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// past is what a journal says of the run so far.
type past struct {
	run         spec.Run
	checkpoints map[int]string // folders of those that are kept, by the number of steps behind them
	completed   bool
}

func readPast(dir string) (past, error) {
	p := past{checkpoints: map[int]string{}}
	for r, err := range journal.ReadCommitted(dir) {
		if errors.Is(err, fs.ErrNotExist) {
			return p, input(fmt.Errorf("%q holds no run: %w", dir, err))
		}
		if err != nil {
			return p, err
		}
		switch d := r.Data.(type) {
		case *spec.Run:
			p.run = *d
		case *spec.Checkpoint:
			folder := filepath.Join(dir, filepath.FromSlash(d.Path))
			if info, err := os.Stat(folder); filepath.IsLocal(filepath.FromSlash(d.Path)) && err == nil && info.IsDir() {
				p.checkpoints[d.Next] = folder
			}
		case *spec.End:
			p.completed = d.Status == "completed"
		}
	}
	if p.run.ID == "" {
		return p, input(fmt.Errorf("the journal in %q has no run record; start again with: trinity train", dir))
	}
	return p, nil
}

// kept are the numbers of steps behind the checkpoints, ascending.
func (p past) kept() []int { return slices.Sorted(maps.Keys(p.checkpoints)) }

// last is the number of steps behind the newest checkpoint, 0 without one.
func (p past) last() int {
	if kept := p.kept(); len(kept) > 0 {
		return kept[len(kept)-1]
	}
	return 0
}

// restore puts the newest checkpoint that is whole into e, which stays as it is without one, and returns the number of steps
// behind it. A checkpoint that is merely unreadable, or was made by other settings, is an error: passing it over would throw
// away steps that can still be had.
func (p past) restore(ctx context.Context, e engine.Engine, warn func(format string, args ...any) error) (int, error) {
	for _, n := range slices.Backward(p.kept()) {
		err := e.Restore(ctx, p.checkpoints[n])
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, engine.ErrDamaged) {
			return n, fmt.Errorf("%w; mend that, or delete the folder to resume from an earlier checkpoint", err)
		}
		if err := warn("%v; looking for an earlier one", err); err != nil {
			return n, err
		}
	}
	return 0, nil
}

// OpenCheckpoint opens the model of the run in dir as its last checkpoint left it, and returns the number of steps behind it.
func OpenCheckpoint(ctx context.Context, dir string) (engine.Engine, int, error) {
	return OpenCheckpointAt(ctx, dir, 0)
}

// OpenCheckpointAt is OpenCheckpoint of the checkpoint with the given number of steps behind it; 0 means the last.
func OpenCheckpointAt(ctx context.Context, dir string, steps int) (engine.Engine, int, error) {
	p, err := readPast(dir)
	if err != nil {
		return nil, 0, err
	}
	if steps == 0 {
		steps = p.last()
	}
	folder, ok := p.checkpoints[steps]
	switch {
	case len(p.checkpoints) == 0:
		return nil, 0, input(fmt.Errorf("the run in %q has no checkpoint yet", dir))
	case !ok:
		kept := strings.ReplaceAll(strings.Trim(fmt.Sprint(p.kept()), "[]"), " ", ", ")
		return nil, 0, input(fmt.Errorf("the run in %q has no checkpoint after %d steps; it keeps those after %s", dir, steps, kept))
	}
	e, err := openEngine(dir, p.run.Config)
	if err != nil {
		return nil, 0, err
	}
	if err := e.Restore(ctx, folder); err != nil {
		return nil, 0, errors.Join(err, e.Close())
	}
	return e, steps, nil
}
