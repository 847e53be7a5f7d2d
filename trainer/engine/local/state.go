package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/safetensors"
)

// manifest describes a saved state. The checksum is verified before anything is restored.
type manifest struct {
	Train  string `json:"train"`           // full or lora
	Steps  int    `json:"optimizer_steps"` // updates done
	SHA256 string `json:"sha256"`          // of state.safetensors
}

const (
	manifestFile = "state.json"
	stateFile    = "state.safetensors"
)

// state lists everything that a run changes, in a fixed order: trained weights, the Verifier's delta and Adam's moments.
func (e *Engine) state() []safetensors.Tensor {
	trained := safetensors.Tensor{Name: "policy", Data: e.policy.Flat}
	if e.adapters != nil {
		trained = safetensors.Tensor{Name: "adapters", Data: e.adapters.Flat}
	}
	all := []safetensors.Tensor{trained, {Name: "verifier_delta", Data: e.delta}, {Name: "adam_m", Data: e.optimizer.M}, {Name: "adam_v", Data: e.optimizer.V}}
	for i := range all {
		all[i].DType, all[i].Shape = safetensors.F32, []int{len(all[i].Data)}
	}
	return all
}

// Save implements engine.Engine: dir appears whole or not at all.
func (e *Engine) Save(ctx context.Context, dir string) error {
	if e.base == nil {
		return errReadOnly
	}
	temp := dir + ".partial"
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	path := filepath.Join(temp, stateFile)
	if err := safetensors.Write(path, e.state(), nil); err != nil {
		return err
	}
	sum, err := checksum(path)
	if err != nil {
		return err
	}
	b, err := json.Marshal(manifest{e.opts.Model.Train, e.optimizer.Steps, sum})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, manifestFile), b, 0o644); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return syncDir(filepath.Dir(dir))
}

// Restore implements engine.Engine.
func (e *Engine) Restore(ctx context.Context, dir string) error {
	if e.base == nil {
		return errReadOnly
	}
	b, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return fmt.Errorf("restore checkpoint: %w", err)
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("restore checkpoint %q: %s: %w", dir, manifestFile, err)
	}
	if m.Train != e.opts.Model.Train {
		return fmt.Errorf("restore checkpoint %q: it was trained with model.train %q, this run has %q", dir, m.Train, e.opts.Model.Train)
	}
	path := filepath.Join(dir, stateFile)
	sum, err := checksum(path)
	if err != nil {
		return err
	}
	if sum != m.SHA256 {
		return fmt.Errorf("restore checkpoint %q: %s does not match its checksum; resume from an older checkpoint", dir, stateFile)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, t := range e.state() {
		if err := f.ReadInto(t.Name, t.Data); err != nil {
			return fmt.Errorf("restore checkpoint %q: %w", dir, err)
		}
	}
	e.optimizer.Steps = m.Steps
	if e.adapters != nil {
		e.policy.MergeLoRA(&e.workers[0].gemm)
	}
	if err := e.mergeVerifier(); err != nil {
		return err
	}
	e.forgetFeatures(engine.Policy)
	e.forgetFeatures(engine.Verifier)
	return ctx.Err()
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read checkpoint: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read checkpoint: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	defer d.Close()
	return d.Sync()
}
