package main

import (
	"fmt"
	"time"

	"github.com/trinity-lab/trinity/trainer/windtunnel/warmup"
)

type warmupCmd struct {
	Output    string `short:"o" required:"" placeholder:"DIR" help:"Folder that receives the checkpoint; an unfinished warm-up in it is resumed."`
	Seed      uint64 `default:"1" help:"Equal seeds give equal checkpoints."`
	Examples  int    `default:"64000" help:"Figures to learn from."`
	Threads   int    `help:"CPU threads; 0 means all cores."`
	Snapshots []int  `placeholder:"N" help:"Also export the model after N figures, to DIR/snapshot-N."`
}

// Run trains the wind tunnel's checkpoint from a seed, with a progress bar on standard error.
func (w *warmupCmd) Run(c *Context) error {
	collectOften()
	began := time.Now()
	first := -1
	bar := progressBar{out: c.Stderr}
	err := warmup.Run(c.Ctx, warmup.Options{Dir: w.Output, Seed: w.Seed, Examples: w.Examples, Threads: w.Threads, Shape: warmup.DefaultShape(), Snapshots: w.Snapshots,
		Progress: func(p warmup.Progress) {
			if first < 0 {
				first = p.Examples
			}
			phase := "all roles"
			if p.Perception {
				phase = "perception"
			}
			elapsed := time.Since(began)
			left := time.Duration(float64(elapsed) * float64(p.Total-p.Examples) / float64(max(1, p.Examples-first)))
			bar.show(p.Examples, p.Total, fmt.Sprintf("loss %.4f  %s  %.0f tokens/s  %s left", p.Loss, phase, float64(p.Tokens)/elapsed.Seconds(), left.Round(time.Second)))
		}})
	bar.end()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Stdout, "%s: checkpoint of %d figures in %s\n", w.Output, w.Examples, time.Since(began).Round(time.Second))
	return err
}
