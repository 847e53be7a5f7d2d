package trinity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-lab/trinity/trainer/durable"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// checkpoint saves the weights with which step next starts, then drops older checkpoints. One of the same name, left from
// before a rewind, is replaced.
func (r *runner) checkpoint(ctx context.Context, next int) error {
	name := filepath.Join("checkpoints", fmt.Sprintf("%06d", next))
	path := filepath.Join(r.Dir, name)
	if err := r.append(spec.KindPhase, next-1, &spec.Phase{Name: "checkpoint", Total: 1}); err != nil {
		return err
	}
	if err := r.Engine.Save(ctx, path); err != nil {
		return fmt.Errorf("save checkpoint %q: %w", path, err)
	}
	if err := r.append(spec.KindCheckpoint, next-1, &spec.Checkpoint{Path: filepath.ToSlash(name), Next: next}); err != nil {
		return err
	}
	r.saved = next
	return r.prune()
}

// prune keeps the newest checkpoints up to the configured number and none from steps not yet reached.
func (r *runner) prune() error {
	dir := filepath.Join(r.Dir, "checkpoints")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list checkpoints: %w", err)
	}
	var steps []int
	for _, e := range entries {
		name, partial := strings.CutSuffix(e.Name(), durable.Partial)
		n, err := strconv.Atoi(name)
		switch {
		case err != nil || len(name) < 6 || !e.IsDir():
		case partial: // left by a killed process
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("drop checkpoint: %w", err)
			}
		default:
			steps = append(steps, n)
		}
	}
	slices.Sort(steps)
	kept := 0
	for _, n := range slices.Backward(steps) {
		if n <= r.saved && kept < r.Config.Checkpoint.Keep {
			kept++
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("%06d", n))); err != nil {
			return fmt.Errorf("drop checkpoint: %w", err)
		}
	}
	return nil
}
