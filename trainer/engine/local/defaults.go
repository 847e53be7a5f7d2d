package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-lab/trinity/trainer/spec"
)

const generationFile = "generation_config.json"

// Defaults is how a checkpoint is meant to be sampled, by its generation_config.json.
type Defaults struct {
	Sampling spec.SamplingConfig // MaxTokens is 0; greedy where the file is missing or do_sample is false
	// Ignored names fields whose values ask for what the sampler does not do.
	Ignored []string
	stops   []int32 // eos_token_id
	found   bool    // there is such a file
}

// Defaults returns what the checkpoint's generation_config.json says.
func (e *Engine) Defaults() Defaults { return e.defaults }

// readDefaults reads generation_config.json, which a folder may lack. What it leaves out is as in transformers.
func (e *Engine) readDefaults() error {
	e.defaults = Defaults{Sampling: spec.SamplingConfig{TopP: 1}, stops: e.fallbackStops()}
	path := filepath.Join(e.dir, generationFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load generation defaults: %w", err)
	}
	e.defaults.found = true
	if err := e.defaults.parse(b, e.config.Text.VocabSize); err != nil {
		return fmt.Errorf("load generation defaults %q: %w", path, err)
	}
	return nil
}

// fallbackStops end a completion where the checkpoint names no token that does.
func (e *Engine) fallbackStops() []int32 {
	if e.tokens == nil {
		return nil
	}
	if id, ok := e.tokens.ID("<|endoftext|>"); ok {
		return []int32{id}
	}
	return nil
}

// neutral are the values with which fields of generation_config.json change nothing.
var neutral = map[string]float64{"repetition_penalty": 1, "no_repeat_ngram_size": 0, "min_p": 0, "typical_p": 1, "num_beams": 1, "min_new_tokens": 0, "min_length": 0}

func (d *Defaults) parse(b []byte, vocabulary int) error {
	var f struct {
		Sample      bool            `json:"do_sample"`
		Temperature *float64        `json:"temperature"`
		TopP        *float64        `json:"top_p"`
		TopK        *int            `json:"top_k"`
		EOS         json.RawMessage `json:"eos_token_id"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if stops, err := tokenIDs(f.EOS, vocabulary); err != nil {
		return fmt.Errorf("eos_token_id %s: %w", f.EOS, err)
	} else if len(stops) > 0 {
		d.stops = stops
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for name, off := range neutral {
		if v, ok := all[name].(float64); ok && v != off {
			d.Ignored = append(d.Ignored, fmt.Sprintf("%s %g", name, v))
		}
	}
	slices.Sort(d.Ignored)
	if !f.Sample {
		return nil
	}
	d.Sampling = spec.SamplingConfig{Temperature: 1, TopP: 1, TopK: 50}
	if f.Temperature != nil {
		d.Sampling.Temperature = *f.Temperature
	}
	if f.TopP != nil {
		d.Sampling.TopP = *f.TopP
	}
	if f.TopK != nil {
		d.Sampling.TopK = *f.TopK
	}
	switch s := d.Sampling; {
	case !(s.Temperature > 0 && s.Temperature <= 1000):
		return fmt.Errorf("temperature is %g: it must be above 0 and at most 1000", s.Temperature)
	case !(s.TopP > 0 && s.TopP <= 1):
		return fmt.Errorf("top_p is %g: it must be above 0 and at most 1", s.TopP)
	case s.TopK < 0:
		return fmt.Errorf("top_k is %d: it must be 0 or more", s.TopK)
	}
	return nil
}

// tokenIDs reads one id or a list of them, all of the vocabulary.
func tokenIDs(b json.RawMessage, vocabulary int) ([]int32, error) {
	if b == nil || string(b) == "null" {
		return nil, nil
	}
	var ids []int32
	var one int32
	if json.Unmarshal(b, &one) == nil {
		ids = []int32{one}
	} else if err := json.Unmarshal(b, &ids); err != nil {
		return nil, errors.New("it must be a token's id or a list of them")
	}
	for _, id := range ids {
		if id < 0 || int(id) >= vocabulary {
			return nil, fmt.Errorf("the vocabulary has the ids 0 to %d", vocabulary-1)
		}
	}
	return ids, nil
}

// stops end a completion: the checkpoint's tokens for that and the one that ends a turn in its chat template, which is also
// what supervised targets end with.
func (e *Engine) stops() []int32 {
	out := []int32{e.template.end}
	for _, id := range e.defaults.stops {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
