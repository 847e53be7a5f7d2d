package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/trinity-lab/trinity/server"
	"github.com/trinity-lab/trinity/server/config"
	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
)

type demoCmd struct {
	listenFlags
	Steps        int     `placeholder:"N" help:"Outer steps; default: the preset's."`
	Seed         *uint64 `placeholder:"N" help:"Seed of every random choice; default: the preset's."`
	NoBrowser    bool    `help:"Don't open a browser."`
	ExitWhenDone bool    `help:"Stop when the run has ended, and print its figures as JSON."`
}

// stopLimit is how long an interrupted demo waits for its trainer to save itself.
const stopLimit = 90 * time.Second

// Run serves, launches the wind tunnel and opens its page.
func (cmd demoCmd) Run(c *Context) error {
	draft := experiment.Draft{Preset: "windtunnel", Set: map[string]any{}}
	if cmd.Steps != 0 {
		draft.Set["steps"] = cmd.Steps
	}
	if cmd.Seed != nil {
		draft.Set["seed"] = json.Number(fmt.Sprint(*cmd.Seed))
	}
	s, err := cmd.start(c)
	if err != nil {
		return err
	}
	err = cmd.launch(c, s, draft)
	return errors.Join(err, s.Close())
}

// start takes another port where the default one is busy: a demo shouldn't fail for that.
func (cmd demoCmd) start(c *Context) (*server.Server, error) {
	cfg := cmd.config()
	s, err := startServer(c, cfg)
	if errors.Is(err, syscall.EADDRINUSE) && cfg.Addr == config.DefaultAddr {
		cfg.Addr = "127.0.0.1:0"
		return startServer(c, cfg)
	}
	return s, err
}

func (cmd demoCmd) launch(c *Context, s *server.Server, draft experiment.Draft) error {
	run, err := s.Service.Create(c.Ctx, draft)
	if errors.Is(err, experiment.ErrInvalid) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	page := s.URL() + "runs/" + run.ID
	out := c.Stdout
	if c.JSON || cmd.ExitWhenDone {
		out = c.Stderr // standard output is for the figures
	}
	fmt.Fprintf(out, "\n  Trinity Lab: %s\n  Live run:    %s\n  Stop with Ctrl-C.\n\n", s.URL(), page)
	if !cmd.NoBrowser {
		openBrowser(c.Ctx, page)
	}
	if !cmd.ExitWhenDone {
		err := s.Wait(c.Ctx)
		return errors.Join(err, stopRun(c, s, run.ID))
	}
	run, err = awaitEnd(c, s, run.ID)
	if err != nil {
		return errors.Join(err, stopRun(c, s, run.ID))
	}
	return printFigures(c, s, run, page)
}

// stopRun ends an unfinished run in order, so that a demo leaves nothing running.
func stopRun(c *Context, s *server.Server, id string) error {
	ctx, cancel := context.WithTimeout(afterwards(c.Ctx), stopLimit)
	defer cancel()
	run, err := s.Service.Stop(ctx, id)
	if errors.Is(err, experiment.ErrConflict) {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Stderr, "stopping the run; it can be resumed from its page after: trinity serve")
	for !run.Status.Terminal() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop run %s: the trainer did not end within %s and goes on: look with trinity serve", id, stopLimit)
		case <-time.After(100 * time.Millisecond):
		}
		if run, err = s.Service.Run(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// awaitEnd prints a line a step until the run ends.
func awaitEnd(c *Context, s *server.Server, id string) (experiment.Run, error) {
	done := 0
	for {
		run, err := s.Service.Run(c.Ctx, id)
		if err != nil {
			return run, err
		}
		if run.Done > done {
			done = run.Done
			fmt.Fprintf(c.Stderr, "step %d/%d\n", done, run.Steps)
		}
		if run.Status.Terminal() {
			return run, nil
		}
		waiting, cancel := context.WithTimeout(c.Ctx, 250*time.Millisecond)
		err = s.Wait(waiting)
		cancel()
		if err == nil {
			err = c.Ctx.Err()
		}
		if err != nil {
			return run, fmt.Errorf("interrupted before the run's end: %w", err)
		}
	}
}

// demoResult is what --exit-when-done prints.
type demoResult struct {
	Run        string                `json:"run"`
	Status     experiment.Status     `json:"status"`
	Error      string                `json:"error,omitempty"`
	Steps      int                   `json:"steps"`
	Episodes   int                   `json:"episodes"`
	Judgements int                   `json:"judgements"`
	Window     int                   `json:"window"` // steps in the first and the last window
	First      map[string]spec.Float `json:"first"`
	Last       map[string]spec.Float `json:"last"`
	Directory  string                `json:"directory"`
	URL        string                `json:"url"`
}

func printFigures(c *Context, s *server.Server, run experiment.Run, page string) error {
	r := demoResult{Run: run.ID, Status: run.Status, Error: run.Error, Steps: run.Done, Directory: run.Directory, URL: page,
		First: map[string]spec.Float{}, Last: map[string]spec.Float{}}
	series, err := s.Service.Metrics(c.Ctx, run.ID, experiment.MetricQuery{})
	if err != nil {
		return err
	}
	for _, m := range series {
		w := experiment.WindowOf(m.Points)
		r.Window = max(r.Window, w.Steps)
		r.First[m.Name], r.Last[m.Name] = w.First, w.Last
	}
	if r.Episodes, r.Judgements, err = s.Count(c.Ctx, run.ID); err != nil {
		return err
	}
	if err := json.NewEncoder(c.Stdout).Encode(r); err != nil {
		return err
	}
	if run.Status != experiment.Completed {
		return fmt.Errorf("run %s is %s: %s", run.ID, run.Status, run.Error)
	}
	return nil
}

// openBrowser tries; the address has been printed, so a failure costs nothing.
func openBrowser(ctx context.Context, address string) {
	program := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		program = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return
	}
	cmd := exec.CommandContext(afterwards(ctx), path, address)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // only so that no zombie stays
	}
}
