package main

import (
	"fmt"
	"time"
)

// benchAllCmd runs every benchmark with its defaults and prints one page.
type benchAllCmd struct {
	Python string `default:"python3" env:"TRINITY_PYTHON" help:"Interpreter that has torch, transformers and peft, and finds OpenBLAS."`
	Rounds int    `default:"3" help:"Times each workload is measured on either side, in turns; the best counts."`
	Quick  bool   `help:"Only small models and short workloads."`
}

// Run prints a section for each, with the command that makes it alone.
func (b *benchAllCmd) Run(c *Context) error {
	c = &Context{Ctx: c.Ctx, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr} // pages, not JSON
	prefixSteps := 3
	if b.Quick {
		prefixSteps = 1
	}
	for _, part := range []struct {
		title, command string
		run            func(*Context) error
	}{
		{"Matrix products", "engine", (&benchEngineCmd{Rounds: b.Rounds, Span: 20 * time.Millisecond, Threads: []int{1, 2}, Quick: b.Quick, Python: b.Python}).Run},
		{"Generation and training", "model", (&benchModelCmd{Python: b.Python, Rounds: b.Rounds, Threads: 2, Quick: b.Quick}).Run},
		{"Context", "context", (&benchContextCmd{Rounds: b.Rounds, Quick: b.Quick}).Run},
		{"Shared prefixes", "prefix", (&benchPrefixCmd{Steps: prefixSteps}).Run},
		{"Memory", "memory", (&benchMemoryCmd{Threads: 2, Quick: b.Quick}).Run},
	} {
		fmt.Fprintf(c.Stdout, "## %s\n\n`trinity bench %s`\n\n", part.title, part.command)
		if err := part.run(c); err != nil {
			return err
		}
		fmt.Fprintln(c.Stdout)
	}
	return nil
}
