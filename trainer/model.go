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

// checkModel looks for the checkpoint that a setting names before anything is written.
func checkModel(setting, model string) error {
	name, builtin := strings.CutPrefix(model, spec.Builtin)
	if !builtin {
		if _, err := os.Stat(filepath.Join(model, "config.json")); err != nil {
			return fmt.Errorf("%s: no checkpoint in %q: %w; give a folder in Hugging Face layout", setting, model, err)
		}
		return nil
	}
	if _, err := fs.Stat(configs.Models, path.Join("model", name, "config.json")); err != nil {
		return fmt.Errorf("%s: this program has no built-in model %q; make one with: trinity warmup -o DIR, and set %s=DIR", setting, name, setting)
	}
	return nil
}

// modelFolder returns the folder of the checkpoint that a setting names; a built-in one is first written to folder in the run
// directory. One that is there already is kept, since a resumed run needs the weights it began with, also under a newer program.
func modelFolder(setting, model, folder string) (string, error) {
	name, builtin := strings.CutPrefix(model, spec.Builtin)
	if !builtin {
		return model, nil
	}
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("write model: %w", err)
	}
	if err := checkModel(setting, model); err != nil {
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

// openEngine opens the CPU engine on the run's model, as it was before the first step. Where the Verifier is another model the
// engine has none: see openVerifier.
func openEngine(dir string, cfg spec.Config) (engine.Engine, error) {
	folder, err := modelFolder("model.path", cfg.Model.Path, filepath.Join(dir, ModelDir))
	if err != nil {
		return nil, err
	}
	o := local.Options{Model: cfg.Model, VerifierBF16: cfg.Verifier.EMABF16, Optimizer: cfg.Optimizer, Threads: cfg.Threads, Seed: cfg.Seed, NoVerifier: otherVerifier(cfg)}
	if !o.NoVerifier && cfg.Verifier.Path != "" {
		if o.Verifier, err = modelFolder("verifier.path", cfg.Verifier.Path, filepath.Join(dir, VerifierDir)); err != nil {
			return nil, err
		}
	}
	return local.Open(folder, o)
}
