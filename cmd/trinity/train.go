package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/trinity-lab/trinity/trainer"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/spec"
)

type trainCmd struct {
	From string   `short:"f" name:"from" required:"" placeholder:"PRESET|FILE" help:"Preset, or YAML file."`
	Out  string   `short:"o" name:"out" required:"" placeholder:"RUNDIR" help:"Run directory; must not hold a run yet."`
	ID   string   `name:"run-id" env:"TRINITY_RUN_ID" hidden:"" help:"Name of the run, given by the server: 16 hexadecimal digits."`
	Set  []string `sep:"none" placeholder:"KEY=VALUE" help:"Change a setting, such as steps=20 or gspo.clip_low=3e-4. May be repeated."`
}

// Run trains from a preset or a file.
func (cmd trainCmd) Run(c *Context) error {
	collectOften()
	cfg, err := config.Load(cmd.From)
	if err != nil {
		return usage(err)
	}
	if err := config.Apply(&cfg, cmd.Set...); err != nil {
		return usage(err)
	}
	return finish(c, cmd.Out, func(o trainer.Options) error {
		o.ID = cmd.ID
		return trainer.Run(c.Ctx, cfg, cmd.Out, o)
	})
}

type resumeCmd struct {
	Dir string `arg:"" name:"rundir" help:"Run directory of a stopped, failed or killed run."`
}

// Run continues a run from its last checkpoint.
func (cmd resumeCmd) Run(c *Context) error {
	collectOften()
	return finish(c, cmd.Dir, func(o trainer.Options) error { return trainer.Resume(c.Ctx, cmd.Dir, o) })
}

// finish trains with a line a step on standard error and says how to go on.
func finish(c *Context, dir string, train func(trainer.Options) error) error {
	p := progressLine{out: c.Stderr, last: time.Now()}
	o := trainer.Options{Log: slog.New(slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Version: buildVersion().Version, OnStart: p.start, OnStep: p.step}
	err := train(o)
	status := "completed"
	switch {
	case errors.Is(err, trainer.ErrCompleted):
		fmt.Fprintln(c.Stderr, err)
		err = nil
	case errors.Is(err, trainer.ErrStopped):
		status = "stopped"
		if err == trainer.ErrStopped { //nolint:errorlint // a stop that was asked for is no failure, unless something else went wrong too
			fmt.Fprintf(c.Stderr, "stopped; continue with: trinity resume %s\n", dir)
			err = nil
		}
	case errors.Is(err, trainer.ErrInput):
		return usage(err)
	case err != nil:
		return fmt.Errorf("%w; continue with: trinity resume %s", err, dir)
	}
	if err == nil && c.JSON {
		return json.NewEncoder(c.Stdout).Encode(map[string]any{"run": p.run.ID, "dir": dir, "status": status, "next_step": p.next, "steps": p.run.Config.Steps})
	}
	return err
}

// progressLine prints what a person watching a run wants to see.
type progressLine struct {
	out  io.Writer
	run  spec.Run
	next int
	last time.Time
}

func (p *progressLine) start(run spec.Run, from int) {
	p.run, p.next, p.last = run, from, time.Now()
	fmt.Fprintf(p.out, "run %s: %s on %s, steps %d to %d of %d\n", run.ID, run.Model, run.Corpus, from+1, run.Config.Steps, run.Config.Steps)
	if run.Skipped > 0 {
		fmt.Fprintf(p.out, "%d files of the corpus could not be used\n", run.Skipped)
	}
}

func (p *progressLine) step(n int, s spec.Step) {
	now := time.Now()
	fmt.Fprintf(p.out, "step %*d/%d ", len(fmt.Sprint(p.run.Config.Steps)), n+1, p.run.Config.Steps)
	for i, label := range [...]string{"fact", "diff", "correct", "reason", "chal"} {
		fmt.Fprintf(p.out, " %s %s", label, fraction(float64(s.Metrics[spec.Figure2[i]])))
	}
	fmt.Fprintf(p.out, "  %.1f s\n", now.Sub(p.last).Seconds())
	p.next, p.last = n+1, now
}

// fraction writes a mean in four columns; the mean of nothing is a dash.
func fraction(x float64) string {
	if math.IsNaN(x) {
		return "   -"
	}
	return fmt.Sprintf("%4.2f", x)
}
