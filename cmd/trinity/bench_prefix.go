package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-lab/trinity/trainer"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// benchPrefixCmd counts in steps of the wind tunnel what sharing prompts saves.
type benchPrefixCmd struct {
	Steps int      `default:"3" help:"Steps to run."`
	Set   []string `help:"Override a setting (key=value); repeatable." placeholder:"KEY=VALUE" sep:"none"`
}

// prefixReport counts tokens.
type prefixReport struct {
	Steps    int     `json:"steps"`
	Asked    int     `json:"asked"`    // of the prompts of all completions
	Computed int     `json:"computed"` // of them, by prefills
	Share    float64 `json:"share"`    // computed over asked
	Decoded  int     `json:"decoded"`
}

// Run trains in a directory of its own and prints.
func (b *benchPrefixCmd) Run(c *Context) error {
	cfg, err := config.Load("windtunnel")
	if err == nil {
		err = config.Apply(&cfg, append([]string{fmt.Sprintf("steps=%d", b.Steps)}, b.Set...)...)
	}
	if err != nil {
		return usage(err)
	}
	temp, err := os.MkdirTemp("", "trinity-bench-*")
	if err != nil {
		return fmt.Errorf("bench prefix: %w", err)
	}
	defer os.RemoveAll(temp)
	var e engine.Engine
	err = trainer.Run(c.Ctx, cfg, filepath.Join(temp, "run"), trainer.Options{OnEngine: func(opened engine.Engine) { e = opened }})
	if errors.Is(err, trainer.ErrInput) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	counts, ok := e.(interface{ Work() local.Work })
	if !ok {
		return fmt.Errorf("bench prefix: engine %q does not count its work", e.Info().Device)
	}
	st := counts.Work().Sampling
	report := prefixReport{Steps: cfg.Steps, Asked: st.Asked, Computed: st.Prefill, Share: float64(st.Prefill) / float64(st.Asked), Decoded: st.Decoded}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(report)
	}
	return report.print(c, cfg)
}

func (r prefixReport) print(c *Context, cfg spec.Config) error {
	fmt.Fprintf(c.Stdout, "%d steps of the wind tunnel: %d images a step, %d candidate questions an image, %d Solvers, the Verifier's calls.\n\n",
		r.Steps, cfg.Corpus.ImagesPerStep, cfg.Questioner.Samples, cfg.Solver.Samples)
	t := markdown{header: []string{"prompt tokens asked for", "computed", "computed/asked", "tokens decoded"}}
	t.add(fmt.Sprint(r.Asked), fmt.Sprint(r.Computed), fmt.Sprintf("%.3f", r.Share), fmt.Sprint(r.Decoded))
	return t.print(c.Stdout)
}
