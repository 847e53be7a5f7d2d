package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// benchContextCmd shows how the time a token takes grows with the tokens before it.
type benchContextCmd struct {
	Rounds int  `default:"3" help:"Times each length is measured, in turns; the best counts."`
	Quick  bool `help:"Only the tiny model, up to 512 tokens."`
}

// contextRow is one length. Times are in seconds a token, of one thread.
type contextRow struct {
	Model   string  `json:"model"`
	Context int     `json:"context"` // tokens of the prompt
	Decode  float64 `json:"decode"`  // of a token after the prompt, in a batch of decodeStreams
	Forward float64 `json:"forward"` // of a token of the prompt, in the training forward pass
	Step    float64 `json:"step"`    // the same, forward, back and AdamW on adapters
}

type contextReport struct {
	Rows   []contextRow  `json:"rows"`
	Growth contextGrowth `json:"growth"`
}

// contextGrowth is, for each time, the largest p of the rows such that it grew as context^p from the shortest one on. Linear
// growth is 1.
type contextGrowth struct {
	Decode  float64 `json:"decode"`
	Forward float64 `json:"forward"`
	Step    float64 `json:"step"`
}

const (
	decodeStreams = 8
	decodeTokens  = 32 // timed of each
)

// Run measures and prints.
func (b *benchContextCmd) Run(c *Context) error {
	if b.Rounds < 1 {
		return usage(fmt.Errorf("bench context: --rounds is %d; give 1 or more", b.Rounds))
	}
	collectOften()
	temp, err := os.MkdirTemp("", "trinity-bench-*")
	if err != nil {
		return fmt.Errorf("bench context: %w", err)
	}
	defer os.RemoveAll(temp)
	models, err := benchModels(temp, b.Quick)
	if err != nil {
		return err
	}
	lengths := []int{128, 256, 512, 1024, 2048, 4096}
	if b.Quick {
		lengths = lengths[:3]
	}
	m := models[len(models)-1]
	report := contextReport{}
	for _, n := range lengths {
		report.Rows = append(report.Rows, contextRow{m.name, n, math.Inf(1), math.Inf(1), math.Inf(1)})
	}
	e, err := local.Open(m.dir, benchOptions(1, "lora"))
	if err != nil {
		return err
	}
	defer e.Close()
	for range b.Rounds {
		for i := range report.Rows {
			if err := report.Rows[i].measure(c.Ctx, e); err != nil {
				return err
			}
		}
	}
	report.Growth = growthOf(report.Rows)
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(report)
	}
	return report.print(c.Stdout)
}

// measure keeps the best times.
func (r *contextRow) measure(ctx context.Context, e *local.Engine) error {
	prompt, err := promptOf(e, r.Context)
	if err != nil {
		return err
	}
	// One completion ends when all are prefilled and one token further: the time from there on is the others'.
	long := engine.Request{Prompt: prompt, N: decodeStreams, Sampling: spec.SamplingConfig{Temperature: 1, TopP: 1, MaxTokens: 2 + decodeTokens}}
	short := long
	short.N, short.Sampling.MaxTokens = 1, 2
	var start time.Time
	err = e.Generate(ctx, engine.Policy, []engine.Request{short, long}, func(c engine.Completion) {
		if c.Request == 0 {
			start = time.Now()
		}
	})
	if err != nil {
		return err
	}
	r.Decode = min(r.Decode, time.Since(start).Seconds()/(decodeStreams*decodeTokens))
	sequence := engine.Sequence{Prompt: prompt, Tokens: e.Encode("bar")}
	start = time.Now()
	if _, err := e.Score(ctx, engine.Policy, []engine.Sequence{sequence}); err != nil {
		return err
	}
	r.Forward = min(r.Forward, time.Since(start).Seconds()/float64(r.Context))
	start = time.Now()
	if _, err := e.Update(ctx, []engine.Sample{{Sequence: sequence}}, engine.Objective{Kind: engine.Supervised}, 1e-5); err != nil {
		return err
	}
	r.Step = min(r.Step, time.Since(start).Seconds()/float64(r.Context))
	return nil
}

// promptOf is a text that is n tokens long with what the template adds.
func promptOf(e *local.Engine, n int) (engine.Prompt, error) {
	var p engine.Prompt
	for words := n; words > 0; words-- { // a word is a token or more
		p.User = strings.Repeat("bar ", words-1) + "bar"
		ids, _, err := e.Inputs(p)
		if err != nil || len(ids) == n {
			return p, err
		}
		if over := len(ids) - n; over > 1 {
			words -= over / 2
		}
	}
	return p, fmt.Errorf("bench context: no prompt is %d tokens long", n)
}

func growthOf(rows []contextRow) contextGrowth {
	var g contextGrowth
	first := rows[0]
	for _, r := range rows[1:] {
		times := math.Log(float64(r.Context) / float64(first.Context))
		g.Decode = max(g.Decode, math.Log(r.Decode/first.Decode)/times)
		g.Forward = max(g.Forward, math.Log(r.Forward/first.Forward)/times)
		g.Step = max(g.Step, math.Log(r.Step/first.Step)/times)
	}
	return g
}

func (r contextReport) print(w io.Writer) error {
	fmt.Fprintf(w, "Model %s, one thread; microseconds a token, in brackets against the shortest context. Decoding is of %d completions together.\n\n", r.Rows[0].Model, decodeStreams)
	t := markdown{header: []string{"context", "decoding", "training forward", "training step"}}
	first := r.Rows[0]
	cell := func(x, from float64) string { return fmt.Sprintf("%.1f (%.2f)", x*1e6, x/from) }
	for _, row := range r.Rows {
		t.add(fmt.Sprintf("%d (%.0f)", row.Context, float64(row.Context)/float64(first.Context)), cell(row.Decode, first.Decode), cell(row.Forward, first.Forward), cell(row.Step, first.Step))
	}
	if err := t.print(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nLargest exponent of the growth with the context (1 is linear): decoding %.2f, training forward %.2f, training step %.2f.\n",
		r.Growth.Decode, r.Growth.Forward, r.Growth.Step)
	return err
}
