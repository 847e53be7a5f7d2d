package trainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/trinity-lab/trinity/configs"
	"github.com/trinity-lab/trinity/trainer/durable"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// checkModel looks for a checkpoint before anything is written.
func checkModel(model string) error {
	name, builtin := strings.CutPrefix(model, spec.Builtin)
	if !builtin {
		if _, err := os.Stat(filepath.Join(model, "config.json")); err != nil {
			return fmt.Errorf("model.path: no checkpoint in %q: %w; give a folder in Hugging Face layout", model, err)
		}
		return nil
	}
	if _, err := fs.Stat(configs.Models, path.Join("model", name, "config.json")); err != nil {
		return fmt.Errorf("model.path: this program has no built-in model %q; make one with: trinity warmup -o DIR, and set model.path=DIR", name)
	}
	return nil
}

// modelFolder returns the checkpoint's folder; a built-in one is written into the run directory first. One that is there
// already is kept, since a resumed run needs the weights it began with, also under a newer program.
func modelFolder(model, dir string) (string, error) {
	name, builtin := strings.CutPrefix(model, spec.Builtin)
	if !builtin {
		return model, nil
	}
	folder := filepath.Join(dir, ModelDir)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("write model: %w", err)
	}
	if err := checkModel(model); err != nil {
		return "", err
	}
	files, err := fs.Sub(configs.Models, path.Join("model", name))
	if err == nil {
		err = durable.MakeDir(folder, func(temp string) error { return os.CopyFS(temp, files) })
	}
	if err != nil {
		return "", fmt.Errorf("write model: %w", err)
	}
	return folder, nil
}

// openEngine opens the CPU engine on the run's model, as it was before the first step.
func openEngine(dir string, cfg spec.Config) (engine.Engine, error) {
	folder, err := modelFolder(cfg.Model.Path, dir)
	if err != nil {
		return nil, err
	}
	return local.Open(folder, local.Options{Model: cfg.Model, Verifier: cfg.Verifier.Path, VerifierBF16: cfg.Verifier.EMABF16, Optimizer: cfg.Optimizer, Threads: cfg.Threads, Seed: cfg.Seed})
}
