package local

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/safetensors"
)

// Inspection is what can be said of a checkpoint folder without reading its weights.
type Inspection struct {
	Architecture string
	Parameters   Parameters
	Trainable    int // under the options' model.train
	Files        []FileState
	Memory       Plan
}

// Parameters counts weights by part. A tied head is the embeddings, which count with the decoder.
type Parameters struct{ Vision, Merger, Text, Head int }

// Total is the number of weights.
func (p Parameters) Total() int { return p.Vision + p.Merger + p.Text + p.Head }

// FileState says whether a file of the folder can be used.
type FileState struct {
	Name     string
	Found    string // what it holds; empty where it cannot be used
	Err      error  // what is wrong; wraps fs.ErrNotExist where it is missing
	Optional bool   // a run does without it
}

// Inspect looks at the checkpoint in dir. Its config.json alone suffices; an error is about that file.
func Inspect(dir string, opts Options) (*Inspection, error) {
	e := newEngine(dir, opts)
	var files []FileState
	for _, p := range e.parts() {
		if p.name == templatePart { // what a run does without comes last
			weights, err := describeWeights(dir, e.config)
			files = append(files, FileState{Name: "weights", Found: weights, Err: err})
		}
		err := p.read()
		if err != nil && p.name == configFile {
			return nil, err
		}
		f := FileState{Name: p.name, Err: err, Found: e.describe(p.name, err)}
		switch {
		case p.name == templatePart && err == nil && e.templateFile == "":
			f = FileState{Name: p.name, Optional: true, Err: fmt.Errorf("chat_template.jinja: %w; ChatML is used, and other programs need it", fs.ErrNotExist)}
		case p.name == generationFile && err == nil && !e.defaults.found:
			continue
		}
		files = append(files, f)
	}
	return &Inspection{Architecture: e.architecture(), Parameters: countParameters(e.config), Trainable: e.trainable(), Files: files, Memory: e.weightsPlan()}, nil
}

// describe says in a few words what a part that was read holds.
func (e *Engine) describe(name string, err error) string {
	switch {
	case err != nil:
		return ""
	case name == "tokenizer.json":
		return fmt.Sprintf("%d tokens", e.tokens.VocabSize())
	case name == "preprocessor_config.json":
		return fmt.Sprintf("%d to %d pixels", e.processor.MinPixels, e.processor.MaxPixels)
	case name == templatePart:
		return e.templateFile
	case name == generationFile:
		d := e.defaults.Sampling
		return fmt.Sprintf("temperature %g, top_p %g, top_k %d", d.Temperature, d.TopP, d.TopK)
	}
	return e.architecture()
}

// describeWeights checks every tensor's name, shape and type by the files' headers.
func describeWeights(dir string, c qwenvl.Config) (string, error) {
	set, err := safetensors.OpenDir(dir)
	if err != nil {
		return "", err
	}
	defer set.Close()
	names, err := place(set, c)
	if err != nil {
		return "", err
	}
	files, types := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		info, _ := set.Info(name)
		files[info.File], types[string(info.DType)] = true, true
	}
	return fmt.Sprintf("%d tensors of %s in %d files", len(names), strings.Join(slices.Sorted(maps.Keys(types)), ", "), len(files)), nil
}

func countParameters(c qwenvl.Config) (p Parameters) {
	for _, t := range qwenvl.Layout(c) {
		switch {
		case strings.Contains(t.Name, "visual.merger.") || strings.Contains(t.Name, "visual.deepstack_merger_list."):
			p.Merger += t.Size()
		case qwenvl.IsVision(t.Name):
			p.Vision += t.Size()
		case t.Name == headName:
			p.Head += t.Size()
		default:
			p.Text += t.Size()
		}
	}
	return p
}
