package trinity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// checkpoint saves the weights with which step next starts, then drops older checkpoints.
func (r *runner) checkpoint(ctx context.Context, next int) error {
	name := filepath.Join("checkpoints", fmt.Sprintf("%06d", next))
	path := filepath.Join(r.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	// One of the same name is left from before a rewind; its weights may be of other steps.
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
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
		if n, err := strconv.Atoi(e.Name()); err == nil && len(e.Name()) >= 6 && e.IsDir() {
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
