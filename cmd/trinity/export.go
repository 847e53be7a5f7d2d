package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trinity-lab/trinity/trainer"
	"github.com/trinity-lab/trinity/trainer/engine"
)

type exportCmd struct {
	Adapter exportAdapterCmd `cmd:"" help:"Write the policy's LoRA adapter in PEFT's format."`
	Model   exportModelCmd   `cmd:"" help:"Write merged weights as a checkpoint that transformers loads."`
}

// checkpointFlags say which weights of which run go where.
type checkpointFlags struct {
	RunDir string `name:"run" required:"" placeholder:"RUNDIR" help:"Run directory."`
	Step   int    `placeholder:"N" help:"Steps behind the checkpoint; default: those of the last one."`
	Out    string `short:"o" name:"out" required:"" placeholder:"DIR" help:"Folder to write; must be new or empty."`
}

type exportAdapterCmd struct{ checkpointFlags }

// Run exports the adapter.
func (cmd exportAdapterCmd) Run(c *Context) error { return cmd.export(c, engine.Policy, engine.PEFT) }

type exportModelCmd struct {
	checkpointFlags
	Slot  string `enum:"policy,verifier" default:"policy" help:"Weights: ${enum}."`
	DType string `name:"dtype" enum:"f32,bf16" default:"f32" help:"Stored as ${enum}; bf16 halves the size and rounds small updates away."`
}

// Run exports the merged checkpoint.
func (cmd exportModelCmd) Run(c *Context) error {
	return cmd.export(c, engine.Slot(cmd.Slot), engine.Format(cmd.DType))
}

func (f checkpointFlags) export(c *Context, slot engine.Slot, format engine.Format) error {
	if err := mustBeEmpty(f.Out); err != nil {
		return usage(err)
	}
	e, steps, err := trainer.OpenCheckpointAt(c.Ctx, f.RunDir, f.Step)
	if errors.Is(err, trainer.ErrInput) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Export(c.Ctx, slot, format, f.Out); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(map[string]any{"dir": f.Out, "slot": slot, "format": format, "step": steps})
	}
	_, err = fmt.Fprintf(c.Stdout, "%s after %d steps is in %s\n", slot, steps, f.Out)
	return err
}

// mustBeEmpty refuses a folder with something in it: a checkpoint's files must all be of one model.
func mustBeEmpty(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	defer f.Close()
	switch _, err := f.Readdirnames(1); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("output folder: %w; give a folder with -o", err)
	}
	return fmt.Errorf("output folder %q is not empty; choose another with -o", dir)
}
