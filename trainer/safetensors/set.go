package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The names that Hugging Face gives a checkpoint's weights.
const (
	SingleFile = "model.safetensors"
	IndexFile  = "model.safetensors.index.json"
)

// Set is a checkpoint of one or several files (shards) seen as one.
type Set struct {
	dir    string
	names  []string
	owner  map[string]*File
	shards []*File
}

// OpenDir opens the weights in dir: the shards of model.safetensors.index.json,
// or else model.safetensors, or else the only *.safetensors file. Index and
// shards must name the same tensors, each once.
func OpenDir(dir string) (*Set, error) {
	s := &Set{dir: dir, owner: map[string]*File{}}
	index, err := readIndex(filepath.Join(dir, IndexFile))
	switch {
	case err == nil:
		err = s.openShards(index)
	case errors.Is(err, fs.ErrNotExist):
		err = s.openSingle()
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("open weights in %q: %w", dir, err)
	}
	return s, nil
}

// readIndex returns the map from tensor to shard file name.
func readIndex(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("%s: weight_map is missing or empty", filepath.Base(path))
	}
	return index.WeightMap, nil
}

func (s *Set) openSingle() error {
	path := filepath.Join(s.dir, SingleFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		files, err := filepath.Glob(filepath.Join(escapeGlob(s.dir), "*.safetensors"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("looked for %s, %s or one *.safetensors file, found %d *.safetensors files: %w",
				IndexFile, SingleFile, len(files), fs.ErrNotExist)
		}
		path = files[0]
	}
	f, err := Open(path)
	if err != nil {
		return err
	}
	s.shards = append(s.shards, f)
	s.names = f.Names()
	for _, name := range s.names {
		s.owner[name] = f
	}
	return nil
}

// escapeGlob quotes the characters of dir that a glob pattern would interpret.
func escapeGlob(dir string) string {
	var out []rune
	for _, r := range dir {
		if (r == '*' || r == '?' || r == '[' || r == '\\') && filepath.Separator != '\\' {
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}

func (s *Set) openShards(index map[string]string) error {
	var files []string
	for name, file := range index {
		if !filepath.IsLocal(file) || filepath.Base(file) != file {
			return fmt.Errorf("%s: tensor %q lies in %q, which is not a plain file name", IndexFile, name, file)
		}
		files = append(files, file)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	var missing []error
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(s.dir, file)); err != nil {
			missing = append(missing, err)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: %d of %d shards cannot be read: %w", IndexFile, len(missing), len(files), errors.Join(missing...))
	}
	for _, file := range files {
		f, err := Open(filepath.Join(s.dir, file))
		if err != nil {
			return err
		}
		s.shards = append(s.shards, f)
		for _, name := range f.Names() {
			if index[name] != file {
				return fmt.Errorf("%s: shard %q holds tensor %q, which the index places in %q: index and shards are not of one checkpoint",
					IndexFile, file, name, index[name])
			}
			s.owner[name] = f
			s.names = append(s.names, name)
		}
	}
	for name, file := range index {
		if s.owner[name] == nil {
			return fmt.Errorf("%s: tensor %q is not in shard %q: index and shards are not of one checkpoint", IndexFile, name, file)
		}
	}
	return nil
}

// Names lists the tensors, shard by shard, in the order of their bytes.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Info describes a tensor, false if there is none of that name.
func (s *Set) Info(name string) (Info, bool) {
	f, ok := s.owner[name]
	if !ok {
		return Info{}, false
	}
	return f.Info(name)
}

// Float32 is File.Float32 over the set.
func (s *Set) Float32(name string) ([]float32, error) {
	f, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return f.Float32(name)
}

// ReadInto is File.ReadInto over the set.
func (s *Set) ReadInto(name string, dst []float32) error {
	f, err := s.find(name)
	if err != nil {
		return err
	}
	return f.ReadInto(name, dst)
}

func (s *Set) find(name string) (*File, error) {
	f, ok := s.owner[name]
	if !ok {
		return nil, fmt.Errorf("read tensor %q of %q: %w", name, s.dir, ErrNotFound)
	}
	return f, nil
}

// Close closes every shard.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.shards {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
