package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/spec"
)

type generateCmd struct {
	Model       string  `required:"" placeholder:"DIR" help:"Checkpoint folder."`
	Adapter     string  `placeholder:"DIR" help:"LoRA adapter in PEFT's format to merge into the checkpoint."`
	Image       string  `placeholder:"FILE" help:"PNG, JPEG, WebP or GIF; leave out for text only."`
	Prompt      string  `required:"" help:"The user's message, after the image."`
	System      string  `help:"System message."`
	MaxTokens   int     `default:"256" help:"Longest completion."`
	Temperature float64 `default:"0" help:"Sampling temperature; 0 is greedy."`
	Seed        uint64  `default:"1" help:"Of sampling."`
	Threads     int     `help:"CPU threads; 0 means all cores."`
}

// generated is the --json output. LogProbs are natural, over the full vocabulary.
type generated struct {
	Text      string    `json:"text"`
	Tokens    []int32   `json:"tokens"`
	LogProbs  []float32 `json:"log_probs"`
	Truncated bool      `json:"truncated"`
}

// Run completes one prompt and prints the text.
func (g *generateCmd) Run(c *Context) error {
	collectOften()
	if g.MaxTokens < 1 {
		return usage(fmt.Errorf("--max-tokens is %d; use 1 or more", g.MaxTokens))
	}
	if !(g.Temperature >= 0) {
		return usage(fmt.Errorf("--temperature is %g; use 0 or more", g.Temperature))
	}
	e, err := local.Open(g.Model, local.Options{Adapter: g.Adapter, Threads: g.Threads})
	if err != nil {
		return usage(err)
	}
	defer e.Close()
	prompt := engine.Prompt{System: g.System, User: g.Prompt}
	if g.Image != "" {
		b, err := os.ReadFile(g.Image)
		if err != nil {
			return usage(fmt.Errorf("read image: %w", err))
		}
		prompt.Image = g.Image
		if err := e.LoadImage(c.Ctx, g.Image, b); err != nil {
			return usage(fmt.Errorf("image %q: %w", g.Image, err))
		}
	}
	request := engine.Request{Prompt: prompt, N: 1, Key: engine.Key{Seed: g.Seed, Role: "generate"},
		Sampling: spec.SamplingConfig{Temperature: g.Temperature, TopP: 1, MaxTokens: g.MaxTokens}}
	var out engine.Completion
	if err := e.Generate(c.Ctx, engine.Policy, []engine.Request{request}, func(r engine.Completion) { out = r }); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(generated{out.Text, out.Tokens, out.LogProbs, out.Truncated})
	}
	_, err = fmt.Fprintln(c.Stdout, out.Text)
	return err
}

// openForReading opens a checkpoint that is not trained.
func openForReading(dir string, threads int) (*local.Engine, error) {
	return local.Open(dir, local.Options{Threads: threads})
}
