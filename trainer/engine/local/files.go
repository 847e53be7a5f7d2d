package local

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/safetensors"
)

// loadWeights reads every tensor of the architecture from dir's safetensors, in either of the spellings in use.
func loadWeights(dir string, c qwenvl.Config) (*qwenvl.Weights, error) {
	set, err := safetensors.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	w := qwenvl.NewWeights(c, nil)
	for _, t := range w.Tensors {
		name, err := find(set, t.Name, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("model %q: %w", dir, err)
		}
		if err := set.ReadInto(name, t.Data); err != nil {
			return nil, fmt.Errorf("model %q: %w", dir, err)
		}
	}
	return w, nil
}

// find returns the name under which a file or set holds a tensor, with its shape checked.
func find(set interface {
	Info(name string) (safetensors.Info, bool)
}, name string, shape []int) (string, error) {
	for _, n := range spellings(name) {
		info, ok := set.Info(n)
		if !ok {
			continue
		}
		if !slices.Equal(info.Shape, shape) {
			return "", fmt.Errorf("tensor %s has shape %v; the configuration implies %v", n, info.Shape, shape)
		}
		return n, nil
	}
	return "", fmt.Errorf("tensor %s is missing from the safetensors files", name)
}

// spellings are the names that a tensor has had in transformers' releases, the present one first.
func spellings(name string) []string {
	return []string{name,
		strings.Replace(name, "model.visual.", "visual.", 1),
		strings.Replace(name, "model.language_model.", "model.", 1)}
}

// Files are the parts of a checkpoint folder besides its weights.
type Files struct{ Config, Tokenizer, Preprocessor []byte }

// Create writes a checkpoint of freshly drawn weights to dir, for training from scratch.
func Create(dir string, files Files, seed uint64) error {
	c, err := qwenvl.ParseConfig(files.Config)
	if err != nil {
		return fmt.Errorf("create model %q: config.json: %w", dir, err)
	}
	w := qwenvl.NewWeights(c, nil)
	w.Initialise(c, rand.New(rand.NewPCG(seed, 0x1417)))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create model: %w", err)
	}
	for name, b := range map[string][]byte{"config.json": files.Config, "tokenizer.json": files.Tokenizer, "preprocessor_config.json": files.Preprocessor} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return fmt.Errorf("create model: %w", err)
		}
	}
	return writeWeights(dir, w, safetensors.F32)
}
