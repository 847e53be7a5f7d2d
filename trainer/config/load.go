package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trinity-lab/trinity/configs"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// maxSize bounds a configuration file, bytes.
const maxSize = 1 << 20

// Presets lists the names of the embedded presets, sorted.
func Presets() []string {
	files, err := fs.Glob(configs.Presets, "presets/*.yaml")
	if err != nil {
		return nil // the pattern is constant
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	slices.Sort(names)
	return names
}

// Preset returns an embedded preset and its YAML text, comments included.
func Preset(name string) (spec.Config, []byte, error) {
	if !slices.Contains(Presets(), name) {
		return spec.Config{}, nil, fmt.Errorf("preset %q is unknown%s; presets are %s", name, suggest(name, Presets()), strings.Join(Presets(), ", "))
	}
	text, err := configs.Presets.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		return spec.Config{}, nil, fmt.Errorf("preset %q: %w", name, err)
	}
	cfg, err := Parse(name+".yaml", text)
	return cfg, text, err
}

// Load reads the preset or the YAML file of that name. It does not check ranges: see Validate.
func Load(presetOrFile string) (spec.Config, error) {
	if slices.Contains(Presets(), presetOrFile) {
		cfg, _, err := Preset(presetOrFile)
		return cfg, err
	}
	f, err := os.Open(presetOrFile)
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Config{}, fmt.Errorf("config %q is neither a preset%s nor a file; presets are %s",
			presetOrFile, suggest(presetOrFile, Presets()), strings.Join(Presets(), ", "))
	}
	if err != nil {
		return spec.Config{}, fmt.Errorf("read config: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return spec.Config{}, fmt.Errorf("read config %q: %w", presetOrFile, err)
	}
	return Parse(presetOrFile, text)
}

// Parse reads YAML. A file may start from a preset with the key "extends" and then only give what differs. Unknown
// keys, wrong types and keys given twice are errors of the form file:line: field: message, one a line.
func Parse(file string, text []byte) (spec.Config, error) {
	var cfg spec.Config
	if len(text) > maxSize {
		return cfg, fmt.Errorf("config %q is larger than %d bytes", file, maxSize)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return cfg, fmt.Errorf("config %q is empty; start from a preset: trinity train -f windtunnel", file)
	} else if err != nil {
		return cfg, fmt.Errorf("config %q: %w", file, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return cfg, fmt.Errorf("config %q holds more than one document; keep one", file)
	}
	root := doc.Content[0]
	if name, ok := takeExtends(root); ok {
		base, _, err := Preset(name)
		if err != nil {
			return cfg, fmt.Errorf("%s: extends: %w", file, err)
		}
		cfg = base
	}
	r := reader{file: file}
	r.mapping(&cfg, root)
	return cfg, errors.Join(r.errs...)
}

// takeExtends removes the top-level key "extends" and returns its value.
func takeExtends(root *yaml.Node) (string, bool) {
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "extends" && root.Content[i+1].Kind == yaml.ScalarNode {
			name := root.Content[i+1].Value
			root.Content = slices.Delete(root.Content, i, i+2)
			return name, true
		}
	}
	return "", false
}

// Marshal writes a complete configuration as YAML that Parse reads back to the same value.
func Marshal(cfg spec.Config) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(cfg); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return b.Bytes(), enc.Close()
}
