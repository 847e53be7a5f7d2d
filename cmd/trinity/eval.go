package main

import (
	"encoding/json"
	"fmt"

	"github.com/trinity-lab/trinity/trainer"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/eval"
)

type evalCmd struct {
	Model       string  `placeholder:"DIR" xor:"what" required:"" help:"Checkpoint folder."`
	RunDir      string  `name:"run" placeholder:"RUNDIR" xor:"what" required:"" help:"Run directory: the policy of its last checkpoint."`
	Figures     int     `default:"500" help:"Held-out wind-tunnel figures."`
	Temperature float64 `default:"1" help:"Sampling temperature of Questioner and Solver; 0 is greedy."`
	Verifier    float64 `default:"1" help:"Sampling temperature of the Verifier's prompts."`
	Seed        uint64  `default:"1" help:"Of the figures and of sampling."`
	Threads     int     `help:"CPU threads; 0 means all cores."`
}

// Run measures a checkpoint in every role against the wind tunnel's truth and prints a table.
func (v *evalCmd) Run(c *Context) error {
	collectOften()
	if v.Figures < 1 {
		return usage(fmt.Errorf("--figures is %d; use 1 or more", v.Figures))
	}
	e, err := v.open(c)
	if err != nil {
		return usage(err)
	}
	defer e.Close()
	bar := progressBar{out: c.Stderr}
	r, err := eval.Measure(c.Ctx, e, eval.Options{Figures: v.Figures, Seed: v.Seed, Temperature: v.Temperature, Verifier: v.Verifier, MaxTokens: 160,
		Progress: func(done, total int) { bar.show(done, total, "figures") }})
	bar.end()
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(r)
	}
	_, err = fmt.Fprint(c.Stdout, r.Markdown())
	return err
}

func (v *evalCmd) open(c *Context) (engine.Engine, error) {
	if v.RunDir != "" {
		e, _, err := trainer.OpenCheckpoint(c.Ctx, v.RunDir)
		return e, err
	}
	return openForReading(v.Model, v.Threads)
}
