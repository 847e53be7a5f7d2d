package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/safetensors"
)

// Export implements engine.Engine. A checkpoint gets every file of the loaded one that is not weights.
func (e *Engine) Export(ctx context.Context, slot engine.Slot, format engine.Format, dir string) error {
	w, err := e.weights(slot)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	switch format {
	case engine.CheckpointF32:
		return e.exportCheckpoint(dir, w, safetensors.F32, "float32")
	case engine.CheckpointBF16:
		return e.exportCheckpoint(dir, w, safetensors.BF16, "bfloat16")
	case engine.PEFT:
		if slot != engine.Policy || e.adapters == nil {
			return fmt.Errorf("export %q as an adapter: only the policy of a run with model.train \"lora\" has one (the Verifier is an average of merged weights); export the merged model instead", slot)
		}
		return e.exportAdapter(dir)
	}
	return fmt.Errorf("export format %q is unknown; use one of %s, %s, %s", format, engine.CheckpointF32, engine.CheckpointBF16, engine.PEFT)
}

// ExportBF16 is Export as a bfloat16 checkpoint.
func (e *Engine) ExportBF16(ctx context.Context, slot engine.Slot, dir string) error {
	return e.Export(ctx, slot, engine.CheckpointBF16, dir)
}

func (e *Engine) exportCheckpoint(dir string, w *qwenvl.Weights, dtype safetensors.DType, torch string) error {
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		from := filepath.Join(e.dir, name)
		info, err := os.Stat(from) // follows links: Hugging Face's cache is made of them
		if err != nil || !info.Mode().IsRegular() || !isSideFile(name) {
			continue
		}
		b, err := os.ReadFile(from)
		if err == nil && name == "config.json" {
			b, err = setDType(b, torch)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	return writeWeights(dir, w, dtype)
}

// isSideFile says whether a file of a checkpoint folder describes the model rather than being its weights: configuration,
// tokenizer, processors, chat template, licence. A model card is left out, since it speaks of other weights.
func isSideFile(name string) bool {
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "license") {
		return true
	}
	return slices.Contains([]string{".json", ".jinja", ".txt", ".model"}, filepath.Ext(lower)) &&
		!strings.HasSuffix(lower, ".index.json") && !strings.HasPrefix(lower, ".") && lower != adapterConfigFile
}

// setDType states the stored element type in a config.json, at the top and wherever a part states one, in the older and
// newer spelling: transformers converts weights to it on loading.
func setDType(config []byte, dtype string) ([]byte, error) {
	var c map[string]any
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber() // keeps numbers as they are written
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if _, older := c["torch_dtype"]; !older {
		c["dtype"] = dtype
	}
	var set func(m map[string]any)
	set = func(m map[string]any) {
		for k, v := range m {
			switch part := v.(type) {
			case map[string]any:
				set(part)
			case string:
				if k == "dtype" || k == "torch_dtype" {
					m[k] = dtype
				}
			}
		}
	}
	set(c)
	out, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, errors.Join(errors.New("config.json"), err)
	}
	return append(out, '\n'), nil
}

func writeWeights(dir string, w *qwenvl.Weights, dtype safetensors.DType) error {
	return writeTensors(filepath.Join(dir, safetensors.SingleFile), w.Tensors, dtype)
}

// writeTensors writes a file that transformers and PEFT accept: they ask for the format's name.
func writeTensors(path string, tensors []qwenvl.Tensor, dtype safetensors.DType) error {
	var out []safetensors.Tensor
	for _, t := range tensors {
		out = append(out, safetensors.Tensor{Name: t.Name, DType: dtype, Shape: t.Shape, Data: t.Data})
	}
	return safetensors.Write(path, out, map[string]string{"format": "pt"})
}
