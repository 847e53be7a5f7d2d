package local

import (
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
)

// Plan is the memory that a run takes at its widest, term by term.
type Plan []Term

// Term is one product of the plan: Bytes = the product of Factors.
type Term struct {
	Name    string
	Factors []Factor
}

// Factor is a number of the plan and what it counts.
type Factor struct {
	N    int
	Unit string
}

// Bytes is the term's size.
func (t Term) Bytes() int {
	n := 1
	for _, f := range t.Factors {
		n *= f.N
	}
	return n
}

// Bytes is the whole plan's size.
func (p Plan) Bytes() int {
	n := 0
	for _, t := range p {
		n += t.Bytes()
	}
	return n
}

const floatSize = 4 // bytes; the engine computes and holds everything in float32

func floats(factors ...Factor) []Factor { return append(factors, Factor{floatSize, "bytes"}) }

// weightsPlan is what Open allocates.
func (e *Engine) weightsPlan() Plan {
	total, moved := 0, 0
	for _, t := range qwenvl.Layout(e.config) {
		total += t.Size()
		if e.averaged(t.Name) {
			moved += t.Size()
		}
	}
	p := Plan{{"policy", floats(Factor{total, "weights"})}}
	if e.opts.Model.Train == "" {
		return p
	}
	p = append(p, Term{"Verifier", floats(Factor{3, "copies: start, delta, merged"}, Factor{moved, "weights that move"})})
	trained := e.trainable()
	if e.opts.Model.Train == "lora" {
		p = append(p, Term{"adapters", floats(Factor{trained, "parameters"})})
	}
	return append(p,
		Term{"gradients", floats(Factor{e.opts.gradients(), "copies: the sum, one a thread"}, Factor{trained, "parameters"})},
		Term{"AdamW", floats(Factor{2, "moments"}, Factor{trained, "parameters"})})
}
