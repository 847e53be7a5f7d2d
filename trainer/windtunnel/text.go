package windtunnel

import (
	"iter"
	"math/rand/v2"
)

// TokenizerAdded are the fixed pieces of the roles' formats, each a token of its own in the wind tunnel's tokenizer.
func TokenizerAdded() []string {
	return []string{
		`{"question": "`, `", "answer": "`, `"}`,
		`{"justification": "`, `", "fact_q": `, `, "corr_a": `, `, "difficulty": `, `", "reasoning_score": `,
		`{"match": `, `{"correct_answer": "`, `", "justification": "`,
		`<think>`, `</think>`, `<answer>\boxed{`, `}</answer>`,
	}
}

// GrammarText yields prompts and completions of every role over n figures: enough, from a few hundred figures on, to hold every word, digit, letter,
// colour and format that the wind tunnel uses.
func GrammarText(rng *rand.Rand, tables []Table, n int) iter.Seq[string] {
	mix := Mix{Read: 1, Look: 1, Questioner: 2, Solver: 3, Screening: 4, Reasoning: 4, Equivalence: 2, Dispute: 1}
	for f := range mix.Weights {
		mix.Weights[f] = 1
	}
	return func(yield func(string) bool) {
		if !yield("Unclear. given text: no.") || !yield("given text: yes.") {
			return
		}
		for range n {
			for _, t := range Generate(rng, tables).Turns(rng, mix) {
				if !yield(t.Prompt) || !yield(t.Completion) {
					return
				}
			}
		}
	}
}
