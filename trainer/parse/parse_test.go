package parse

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireParsed wants what was parsed, or ErrMalformed with part in its message unless part is empty.
func requireParsed(t *testing.T, want, got any, err error, part string) {
	t.Helper()
	if part == "" {
		require.NoError(t, err)
		require.Equal(t, want, got)
		return
	}
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, part)
}

func TestQuestioner(t *testing.T) {
	const qa = `{"question": "How many bars are red?", "answer": "3"}`
	want := QA{Question: "How many bars are red?", Answer: "3"}
	tests := []struct {
		name string
		text string
		o    Options
		want QA
		err  string // part of the message; empty for success
	}{
		{"bare", qa, Options{}, want, ""},
		{"after thinking", "<think>\nbars\n</think>\n" + qa, Options{}, QA{"bars", want.Question, "3"}, ""},
		{"thinking required and missing", qa, Options{RequireThink: true}, QA{}, "does not start with <think>"},
		{"thinking required and there", "<think>a</think>" + qa, Options{RequireThink: true}, QA{"a", want.Question, "3"}, ""},
		{"thinking never closed", "<think>" + qa, Options{}, QA{}, "never closed"},
		{"closing tag alone", "a</think>" + qa, Options{}, QA{}, "no <think> before"},
		{"two blocks", "<think>a</think><think>b</think>" + qa, Options{}, QA{}, "more than one"},
		{"fenced", "```json\n" + qa + "\n```", Options{}, want, ""},
		{"fenced without a tag", "```\n" + qa + "\n```", Options{}, want, ""},
		{"trailing comma", `{"question": "How many bars are red?", "answer": "3",}`, Options{}, want, ""},
		{"missing comma", "{\"question\": \"How many bars are red?\"\n\"answer\": \"3\"}", Options{}, want, ""},
		{"missing brace", `{"question": "How many bars are red?", "answer": "3"`, Options{}, want, ""},
		{"doubled braces", "{" + qa + "}", Options{}, want, ""},
		{"answer as a number", `{"question": "How many bars are red?", "answer": 3}`, Options{}, want, ""},
		{"single LaTeX backslashes", `{"question": "What is \frac{AB}{CD} if \theta = \nu\beta\rho?", "answer": "\sqrt{2} \times 3"}`, Options{},
			QA{"", `What is \frac{AB}{CD} if \theta = \nu\beta\rho?`, `\sqrt{2} \times 3`}, ""},
		{"escaped LaTeX", `{"question": "What is \\frac{AB}{CD}?", "answer": "\\frac{1}{2}"}`, Options{}, QA{"", `What is \frac{AB}{CD}?`, `\frac{1}{2}`}, ""},
		{"real escapes", `{"question": "Which\nbar is \"A\"\u00e9 \ud83d\ude00?", "answer": "a\/b"}`, Options{}, QA{"", "Which\nbar is \"A\"é 😀?", "a/b"}, ""},
		{"bare quotes inside", `{"question": "Is the bar "A" or "B" taller?", "answer": "A"}`, Options{}, QA{"", `Is the bar "A" or "B" taller?`, "A"}, ""},
		{"extra keys", `{"reasoning": ["x", {"y": 1}], "question": "How many bars are red?", "answer": "3"}`, Options{}, want, ""},
		{"cut in the answer", `{"question": "How many bars are red?", "answer": "3`, Options{}, QA{}, `"answer" is cut off`},
		{"cut before the answer", `{"question": "How many bars are red?", "ans`, Options{}, QA{}, `"answer" is missing`},
		{"cut number", `{"question": "How many bars are red?", "answer": 3`, Options{}, QA{}, `"answer" is cut off`},
		{"cut at the budget", qa, Options{Truncated: true}, QA{}, "token budget"},
		{"prose before", "Here it is: " + qa, Options{}, QA{}, "a JSON object was expected"},
		{"prose after", qa + " Good luck!", Options{}, QA{}, "text after"},
		{"two objects", qa + qa, Options{}, QA{}, "text after"},
		{"empty", "", Options{}, QA{}, "a JSON object was expected"},
		{"array", "[" + qa + "]", Options{}, QA{}, "a JSON object was expected"},
		{"answer null", `{"question": "How many bars are red?", "answer": null}`, Options{}, QA{}, "neither a string nor a number"},
		{"key twice", `{"question": "How many bars are red?", "answer": "3", "answer": "4"}`, Options{}, QA{}, "given twice"},
		{"placeholders", `{"question": "your question", "answer": "short answer"}`, Options{}, QA{}, "placeholder"},
		{"ellipsis", `{"question": "How many bars are red?", "answer": "..."}`, Options{}, QA{}, "placeholder"},
		{"empty answer", `{"question": "How many bars are red?", "answer": " "}`, Options{}, QA{}, "placeholder"},
		{"one-word question", `{"question": "Bars?", "answer": "3"}`, Options{}, QA{}, "single word"},
		{"sentence", `{"question": "How many bars are red?", "answer": "There are three red bars."}`, Options{}, QA{}, "sentence"},
		{"two sentences", `{"question": "How many bars are red?", "answer": "Three bars. The rest"}`, Options{}, QA{}, "sentence"},
		{"abbreviation", `{"question": "Who drew it first?", "answer": "Dr. Wu"}`, Options{}, QA{"", "Who drew it first?", "Dr. Wu"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Questioner(tt.text, tt.o)
			requireParsed(t, tt.want, got, err, tt.err)
		})
	}
}

func TestSolver(t *testing.T) {
	tests := []struct {
		name, text string
		o          Options
		answer     string // empty for malformed
		err        string
	}{
		{"plain", `<think>a</think><answer>\boxed{5}</answer>`, Options{}, "5", ""},
		{"spaced", " <think>\na\n</think>\n\n<answer>\n\\boxed{ 5 }\n</answer>\n", Options{}, "5", ""},
		{"nested braces", `<think>a</think><answer>\boxed{\frac{1}{\sqrt{2}}}</answer>`, Options{}, `\frac{1}{\sqrt{2}}`, ""},
		{"escaped braces", `<think>a</think><answer>\boxed{\{1, 2\}}</answer>`, Options{}, `\{1, 2\}`, ""},
		{"words around the box", `<think>a</think><answer>It is $\boxed{5}$.</answer>`, Options{}, "5", ""},
		{"box quoted while thinking", `<think>use \boxed{}</think><answer>\boxed{5}</answer>`, Options{}, "5", ""},
		{"no thinking", `<answer>\boxed{5}</answer>`, Options{}, "", "does not start"},
		{"thinking not closed", `<think>a<answer>\boxed{5}</answer>`, Options{}, "", "never closed"},
		{"no answer block", `<think>a</think>\boxed{5}`, Options{}, "", "does not follow"},
		{"text between the blocks", `<think>a</think>so <answer>\boxed{5}</answer>`, Options{}, "", "does not follow"},
		{"answer not closed", `<think>a</think><answer>\boxed{5}`, Options{}, "", "never closed"},
		{"text after", `<think>a</think><answer>\boxed{5}</answer> done`, Options{}, "", "text after"},
		{"two answers", `<think>a</think><answer>\boxed{5}</answer><answer>\boxed{5}</answer>`, Options{}, "", "text after"},
		{"no box", `<think>a</think><answer>5</answer>`, Options{}, "", "no \\boxed"},
		{"two boxes", `<think>a</think><answer>\boxed{5} \boxed{5}</answer>`, Options{}, "", "more than one"},
		{"empty box", `<think>a</think><answer>\boxed{}</answer>`, Options{}, "", "holds no answer"},
		{"placeholder", `<think>a</think><answer>\boxed{final_answer}</answer>`, Options{}, "", "holds no answer"},
		{"box not closed", `<think>a</think><answer>\boxed{\frac{1}{2}</answer>`, Options{}, "", "never closed"},
		{"box without braces", `<think>a</think><answer>\boxed 5</answer>`, Options{}, "", "no braces"},
		{"cut at the budget", `<think>a</think><answer>\boxed{5}</answer>`, Options{Truncated: true}, "", "token budget"},
		{"empty", "", Options{}, "", "does not start"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Solver(tt.text, tt.o)
			requireParsed(t, tt.answer, got.Answer, err, tt.err)
		})
	}
}

func TestTrap11ThinkingPrefixInThePromptAndNoLimitOnTheQuestion(t *testing.T) {
	prefix := Options{ThinkOpenInPrompt: true, RequireThink: true}
	got, err := Solver("\nlook\n</think><answer>\\boxed{5}</answer>", prefix)
	require.NoError(t, err)
	require.Equal(t, Solution{"look", "5"}, got)
	_, err = Solver(`</think><answer>\boxed{5}</answer>`, prefix)
	require.NoError(t, err)
	_, err = Solver(`<think>look</think><answer>\boxed{5}</answer>`, prefix)
	require.NoError(t, err, "written again by the model")
	_, err = Solver(`<answer>\boxed{5}</answer>`, prefix)
	require.ErrorContains(t, err, "never closed")

	qa, err := Questioner(`look</think>{"question": "How many are red?", "answer": "3"}`, prefix)
	require.NoError(t, err)
	require.Equal(t, "look", qa.Think)

	long := strings.TrimSpace(strings.Repeat("word ", 60)) + "?"
	ten := strings.TrimSpace(strings.Repeat("ten ", 10))
	_, err = Questioner(`{"question": "`+long+`", "answer": "`+ten+`"}`, Options{})
	require.NoError(t, err, "35 words are asked for in the prompt, not checked")
	_, err = Questioner(`{"question": "`+long+`", "answer": "`+ten+` ten"}`, Options{})
	require.ErrorContains(t, err, "11 words")
}
