package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// benchMemoryCmd compares the most memory that a process held with what the work needs at least.
type benchMemoryCmd struct {
	Threads int  `default:"2" help:"CPU threads."`
	Quick   bool `help:"Only the tiny model, with short workloads."`

	// A process of its own measures one workload, since what a process held at most is known of the whole process alone.
	Measure       string `hidden:"" help:"Workload to measure in this process."`
	Dir           string `hidden:"" help:"Its checkpoint."`
	Name          string `hidden:"" help:"Name of the checkpoint."`
	Checkpointing bool   `hidden:"" help:"Value of model.gradient_checkpointing."`
}

// memoryRow is one workload. Sizes are in bytes.
type memoryRow struct {
	Model         string  `json:"model"`
	Parameters    int     `json:"parameters"`
	Work          string  `json:"work"`
	Weights       int     `json:"weights"`     // the policy's, the Verifier's and the adapters'
	Optimiser     int     `json:"optimiser"`   // AdamW's moments
	Gradient      int     `json:"gradient"`    // one
	KV            int     `json:"kv"`          // keys and values of all tokens at the end
	Activations   int     `json:"activations"` // of one layer, in a batch a thread
	Program       int     `json:"program"`     // resident before the checkpoint was opened
	Peak          int     `json:"peak"`        // resident at most
	Ratio         float64 `json:"ratio"`       // Peak to the sum of all but the program
	Checkpointing bool    `json:"checkpointing"`
}

func (r *memoryRow) needed() int { return r.Weights + r.Optimiser + r.Gradient + r.KV + r.Activations }

// largeShape is a model beside which a program's own memory is little.
const largeShape = `{"text_config":{"hidden_size":512,"intermediate_size":1536,"num_hidden_layers":12,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":64,"rope_scaling":{"mrope_section":[12,10,10],"mrope_interleaved":true,"rope_type":"default"}},
"vision_config":{"out_hidden_size":512}}`

// Run measures and prints.
func (b *benchMemoryCmd) Run(c *Context) error {
	collectOften()
	if b.Threads < 1 {
		return usage(fmt.Errorf("bench memory: --threads is %d; give 1 or more", b.Threads))
	}
	if b.Measure != "" {
		row, err := b.measure(c.Ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(c.Stdout).Encode(row)
	}
	if _, err := residentPeak(); err != nil {
		return fmt.Errorf("bench memory: this system does not tell a process's peak: %w", err)
	}
	temp, err := os.MkdirTemp("", "trinity-bench-*")
	if err != nil {
		return fmt.Errorf("bench memory: %w", err)
	}
	defer os.RemoveAll(temp)
	models, err := benchModels(temp, b.Quick)
	if err != nil {
		return err
	}
	if !b.Quick {
		large, err := createModel(temp, "large", largeShape)
		if err != nil {
			return err
		}
		models = append(models[1:], large)
	}
	var rows []memoryRow
	for _, m := range models {
		for _, work := range []struct {
			name          string
			checkpointing bool
		}{{"generate", false}, {"lora", true}, {"lora", false}, {"full", true}, {"full", false}} {
			row, err := b.spawn(c, m, work.name, work.checkpointing)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(rows)
	}
	return printMemory(c.Stdout, b.Threads, rows)
}

// spawn measures in a process of its own.
func (b *benchMemoryCmd) spawn(c *Context, m benchModel, work string, checkpointing bool) (row memoryRow, err error) {
	program, err := os.Executable()
	if err != nil {
		return row, fmt.Errorf("bench memory: %w", err)
	}
	cmd := exec.CommandContext(c.Ctx, program, "bench", "memory", "--measure="+work, "--dir="+m.dir, "--name="+m.name, "--threads="+strconv.Itoa(b.Threads),
		fmt.Sprintf("--checkpointing=%t", checkpointing), fmt.Sprintf("--quick=%t", b.Quick))
	cmd.Stderr = c.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &row)
	}
	if err != nil {
		return row, fmt.Errorf("bench memory: measure %s of %s: %w", work, m.name, err)
	}
	return row, nil
}

// measure does the work and looks at what this process held.
func (b *benchMemoryCmd) measure(ctx context.Context) (memoryRow, error) {
	row := memoryRow{Model: b.Name, Work: "train " + b.Measure, Checkpointing: b.Checkpointing}
	var err error
	if row.Program, err = residentPeak(); err != nil {
		return row, err
	}
	opts := benchOptions(b.Threads, b.Measure)
	opts.Model.GradientCheckpointing = b.Checkpointing
	if b.Measure == "generate" {
		opts.Model, row.Work = spec.ModelConfig{}, b.Measure
	}
	in, err := local.Inspect(b.Dir, opts)
	if err != nil {
		return row, err
	}
	row.add(in.Memory)
	row.Parameters = in.Parameters.Total()
	w, err := newWorkloads(benchModel{b.Name, b.Dir}, b.Quick)
	if err != nil {
		return row, err
	}
	e, err := local.Open(b.Dir, opts)
	if err != nil {
		return row, err
	}
	defer e.Close()
	if err := w.load(ctx, e); err != nil {
		return row, err
	}
	c, err := qwenvl.LoadConfig(filepath.Join(b.Dir, "config.json"))
	if err != nil {
		return row, err
	}
	if b.Measure == "generate" {
		err = row.generate(ctx, e, &c, w)
	} else {
		err = row.train(ctx, e, &c, w, b.Threads)
	}
	if err != nil {
		return row, err
	}
	row.Peak, err = residentPeak()
	row.Ratio = float64(row.Peak) / float64(row.needed())
	return row, err
}

// add sorts the terms of an engine's plan.
func (r *memoryRow) add(plan local.Plan) {
	for _, t := range plan {
		switch t.Name {
		case "AdamW":
			r.Optimiser += t.Bytes()
		case "gradients":
			r.Gradient += t.Bytes() / t.Factors[0].N
		default:
			r.Weights += t.Bytes()
		}
	}
}

const float32Size = 4 // bytes

func (r *memoryRow) generate(ctx context.Context, e *local.Engine, c *qwenvl.Config, w *workloads) error {
	request := engine.Request{Prompt: w.prompt, N: w.n, Sampling: spec.SamplingConfig{Temperature: 1, TopP: 1, MaxTokens: w.new}}
	ids, _, err := e.Inputs(w.prompt)
	if err != nil {
		return err
	}
	r.KV = float32Size * c.Text.KVFloats() * (len(ids) + w.n*w.new)
	r.Activations = float32Size * c.Text.LayerFloats() * max(len(ids), w.n) // of the prompt, or of a token a completion
	return e.Generate(ctx, engine.Policy, []engine.Request{request}, func(engine.Completion) {})
}

// train does two updates over sequences with images and without.
func (r *memoryRow) train(ctx context.Context, e *local.Engine, c *qwenvl.Config, w *workloads, threads int) error {
	var samples []engine.Sample
	for _, t := range append(w.image, w.text...) {
		samples = append(samples, engine.Sample{Sequence: engine.Sequence{Prompt: t.prompt, Tokens: e.Encode(t.completion)}})
	}
	for range 2 {
		if _, err := e.Update(ctx, samples, engine.Objective{Kind: engine.Supervised}, 1e-5); err != nil {
			return err
		}
	}
	r.Activations = float32Size * c.Text.LayerFloats() * threads * e.Work().TrainedRows
	return nil
}

// residentPeak is the most memory that this process held, in bytes.
func residentPeak() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}

func printMemory(w io.Writer, threads int, rows []memoryRow) error {
	fmt.Fprintf(w, "Memory in MiB, %d threads. Ratio: the most that the process held, program and garbage included, to what the work needs:\n"+
		"weights (policy, Verifier, adapters), AdamW's moments, one gradient, keys and values, one layer's activations a thread.\n\n", threads)
	t := markdown{header: []string{"model", "parameters", "work", "checkpointing", "weights", "AdamW", "gradient", "KV", "activations", "needed", "program", "peak", "ratio"}}
	mib := func(n int) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }
	for _, r := range rows {
		on := map[bool]string{true: "on", false: "off"}[r.Checkpointing]
		if r.Work == "generate" {
			on = "-"
		}
		t.add(r.Model, millions(r.Parameters), r.Work, on, mib(r.Weights), mib(r.Optimiser), mib(r.Gradient), mib(r.KV), mib(r.Activations), mib(r.needed()),
			mib(r.Program), mib(r.Peak), fmt.Sprintf("%.2f", r.Ratio))
	}
	return t.print(w)
}
