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

// loadWeights reads every tensor of the architecture from dir's safetensors.
func loadWeights(dir string, c qwenvl.Config) (*qwenvl.Weights, error) {
	set, err := safetensors.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	names, err := place(set, c)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", dir, err)
	}
	w := qwenvl.NewWeights(c, nil)
	for _, t := range w.Tensors {
		if err := set.ReadInto(names[t.Name], t.Data); err != nil {
			return nil, fmt.Errorf("model %q: %w", dir, err)
		}
	}
	if c.TieWordEmbeddings {
		if err := checkTiedHead(set, w); err != nil {
			return nil, fmt.Errorf("model %q: %w", dir, err)
		}
	}
	return w, nil
}

// place finds each tensor of the architecture in the files, from their headers alone, in either of the spellings in use. A
// tensor without a place is an error, too: config.json is then of another model.
func place(set *safetensors.Set, c qwenvl.Config) (map[string]string, error) {
	names, used := map[string]string{}, map[string]bool{}
	for _, t := range qwenvl.Layout(c) {
		name, err := find(set, t.Name, t.Shape)
		if err != nil {
			return nil, err
		}
		names[t.Name], used[name] = name, true
	}
	for _, name := range set.Names() {
		// Older saves hold constants of the rotary embedding, and some a head that is tied.
		if !used[name] && !strings.HasSuffix(name, "rotary_emb.inv_freq") && !(name == headName && c.TieWordEmbeddings) {
			info, _ := set.Info(name)
			return nil, fmt.Errorf("%s: tensor %s has no place in the architecture that config.json describes", info.File, name)
		}
	}
	return names, nil
}

const headName = "lm_head.weight"

// checkTiedHead accepts a head that is stored though it is tied, as long as it is the embeddings.
func checkTiedHead(set *safetensors.Set, w *qwenvl.Weights) error {
	info, ok := set.Info(headName)
	if !ok {
		return nil
	}
	head, err := set.Float32(headName)
	if err != nil {
		return err
	}
	for _, t := range w.Tensors {
		if strings.HasSuffix(t.Name, "embed_tokens.weight") && !slices.Equal(head, t.Data) {
			return fmt.Errorf("%s: tensor %s differs from the embeddings, though config.json ties them (tie_word_embeddings)", info.File, headName)
		}
	}
	return nil
}

// tensorSet is a safetensors file, or several.
type tensorSet interface {
	Names() []string
	Info(name string) (safetensors.Info, bool)
}

// find returns the name under which files hold a tensor, with its shape and type checked.
func find(set tensorSet, name string, shape []int) (string, error) {
	for _, n := range spellings(name) {
		info, ok := set.Info(n)
		if !ok {
			continue
		}
		if !slices.Equal(info.Shape, shape) {
			return "", fmt.Errorf("%s: tensor %s has shape %v; the configuration implies %v", info.File, n, info.Shape, shape)
		}
		if !info.DType.IsFloat() {
			return "", fmt.Errorf("%s: tensor %s is stored as %s; convert the checkpoint to %s, %s or %s", info.File, n, info.DType, safetensors.BF16, safetensors.F16, safetensors.F32)
		}
		return n, nil
	}
	return "", fmt.Errorf("tensor %s is missing; the safetensors files hold %s", name, some(set.Names()))
}

// some names a few of what is there, since a foreign spelling is the usual reason for what is not.
func some(names []string) string {
	if len(names) <= 2 {
		return fmt.Sprint(names)
	}
	return fmt.Sprintf("%d tensors, such as %s and %s", len(names), names[0], names[len(names)-1])
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
