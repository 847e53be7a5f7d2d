// Command trinity is the experiment server and training loop of Trinity Lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// cli lists the subcommands, one file each.
type cli struct {
	JSON bool `help:"Print machine-readable JSON."`

	Demo     demoCmd     `cmd:"" help:"Serve, launch the wind tunnel and show it."`
	Serve    serveCmd    `cmd:"" help:"Serve the dashboard and the API."`
	Import   importCmd   `cmd:"" help:"Bring a run directory into the database."`
	Doctor   doctorCmd   `cmd:"" help:"Report what was found, what is wrong and how to mend it."`
	Bench    benchCmd    `cmd:"" help:"Compare speed with references on this machine."`
	Train    trainCmd    `cmd:"" help:"Train from a preset or a configuration file."`
	Resume   resumeCmd   `cmd:"" help:"Continue a stopped, failed or killed run."`
	Journal  journalCmd  `cmd:"" help:"Read a run's journal."`
	Export   exportCmd   `cmd:"" help:"Write a run's weights for other programs."`
	Warmup   warmupCmd   `cmd:"" help:"Train the wind tunnel's checkpoint from a seed."`
	Eval     evalCmd     `cmd:"" help:"Measure a checkpoint in every role on held-out figures."`
	Score    scoreCmd    `cmd:"" help:"Score episodes given as JSON lines."`
	Match    matchCmd    `cmd:"" help:"Compare answers by rule and numeric guard."`
	Generate generateCmd `cmd:"" help:"Complete a prompt about an image."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// Context carries what every subcommand needs from the process.
type Context struct {
	Ctx            context.Context
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	JSON           bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	code := run(&Context{Ctx: ctx, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// run parses args, runs the command and returns the exit code: 0 success, 1 the work failed, 2 bad usage or input.
func run(c *Context, args []string) int {
	var cli cli
	parser, err := kong.New(&cli, kong.Name("trinity"),
		kong.Description("An experiment server for self-evolving vision-language models."),
		kong.Writers(c.Stdout, c.Stderr), kong.UsageOnError(), kong.Bind(c))
	if err != nil {
		return report(c, err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return report(c, usage(err))
	}
	c.JSON = cli.JSON
	return report(c, parsed.Run())
}

func report(c *Context, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(c.Stderr, "trinity: %v\n", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// usageError marks bad usage or input: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage marks err as bad usage or input.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}
