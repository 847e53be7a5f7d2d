package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/trinity-lab/trinity/trainer/durable"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/safetensors"
)

// A saved state is one safetensors file, with what is no tensor in its metadata, and its checksum as sha256sum writes it.
const (
	stateFile    = "state.safetensors"
	checksumFile = "state.sha256"

	trainKey   = "train"           // full or lora
	updatesKey = "optimizer_steps" // updates done
)

// state lists everything that a run changes, in a fixed order: trained weights, the Verifier's delta and Adam's moments.
func (e *Engine) state() []safetensors.Tensor {
	trained := safetensors.Tensor{Name: "policy", Data: e.policy.Flat}
	if e.adapters != nil {
		trained = safetensors.Tensor{Name: "adapters", Data: e.adapters.Flat}
	}
	all := []safetensors.Tensor{trained, {Name: "adam_m", Data: e.optimizer.M}, {Name: "adam_v", Data: e.optimizer.V}}
	if !e.opts.NoVerifier {
		all = slices.Insert(all, 1, safetensors.Tensor{Name: "verifier_delta", Data: e.delta})
	}
	for i := range all {
		all[i].DType, all[i].Shape = safetensors.F32, []int{len(all[i].Data)}
	}
	return all
}

// Save implements engine.Engine.
func (e *Engine) Save(ctx context.Context, dir string) error {
	if e.base == nil {
		return errReadOnly
	}
	err := durable.MakeDir(dir, func(temp string) error {
		path := filepath.Join(temp, stateFile)
		metadata := map[string]string{trainKey: e.opts.Model.Train, updatesKey: strconv.Itoa(e.optimizer.Steps)}
		if err := safetensors.Write(path, e.state(), metadata); err != nil {
			return err
		}
		sum, err := checksum(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(temp, checksumFile), []byte(sum), 0o644); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}

// Restore implements engine.Engine.
func (e *Engine) Restore(ctx context.Context, dir string) error {
	if e.base == nil {
		return errReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.restore(dir); err != nil {
		return fmt.Errorf("restore checkpoint %q: %w", dir, err)
	}
	if e.adapters != nil {
		e.policy.MergeLoRA(&e.workers[0].gemm)
	}
	if err := e.mergeVerifier(); err != nil {
		return err
	}
	e.forgetFeatures(engine.Policy)
	e.forgetFeatures(engine.Verifier)
	return nil
}

// restore reads the state, once all of it is known to be there and to fit.
func (e *Engine) restore(dir string) error {
	if err := verify(dir); err != nil {
		return err
	}
	f, err := safetensors.Open(filepath.Join(dir, stateFile))
	if err != nil {
		return err
	}
	defer f.Close()
	metadata := f.Metadata()
	if metadata[trainKey] != e.opts.Model.Train {
		return fmt.Errorf("it was trained with model.train %q, this run has %q", metadata[trainKey], e.opts.Model.Train)
	}
	updates, err := strconv.Atoi(metadata[updatesKey])
	if err != nil {
		return fmt.Errorf("%s: metadata %s: %w", stateFile, updatesKey, err)
	}
	for _, t := range e.state() {
		if info, _ := f.Info(t.Name); len(info.Shape) != 1 || info.Shape[0] != t.Shape[0] || info.DType != t.DType {
			return fmt.Errorf("%s: tensor %s has shape %v and type %q; this run has %v and %q", stateFile, t.Name, info.Shape, info.DType, t.Shape, t.DType)
		}
	}
	for _, t := range e.state() {
		if err := f.ReadInto(t.Name, t.Data); err != nil {
			return err
		}
	}
	e.optimizer.Steps = updates
	return nil
}

// verify compares a saved state with its checksum.
func verify(dir string) error {
	want, err := os.ReadFile(filepath.Join(dir, checksumFile))
	var sum string
	if err == nil {
		sum, err = checksum(filepath.Join(dir, stateFile))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", engine.ErrDamaged, err)
	case err != nil:
		return err
	case sum != string(want):
		return fmt.Errorf("%w: %s does not match %s", engine.ErrDamaged, stateFile, checksumFile)
	}
	return nil
}

// checksum returns the line that sha256sum prints of a file.
func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s  %s\n", hex.EncodeToString(h.Sum(nil)), filepath.Base(path)), nil
}
