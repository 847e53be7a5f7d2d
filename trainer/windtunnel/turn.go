package windtunnel

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The roles of a turn.
const (
	RoleRead        = "read" // perception: list everything, in order
	RoleLook        = "look" // perception: look things up by letter or colour
	RoleQuestioner  = "questioner"
	RoleSolver      = "solver"
	RoleScreening   = "screening"
	RoleReasoning   = "reasoning"
	RoleEquivalence = "equivalence"
	RoleDispute     = "dispute"
)

// Prompts of the wind tunnel: the user's text after the image (equivalence has no image). Placeholders: {q} question, {a} answer, {r} reasoning,
// {ref} reference, {pred} predicted, {maj} majority.
const (
	PromptRead        = "Read."
	PromptLook        = "Look."
	PromptQuestioner  = "Ask."
	PromptSolver      = "Solve: {q}"
	PromptScreening   = "Screen: {q} Answer: {a}"
	PromptReasoning   = "Grade: {q} Reasoning: {r}"
	PromptEquivalence = "Same? {q} Reference: {ref} Predicted: {pred}"
	PromptDispute     = "Dispute: {q} A: {ref} B: {maj} Reasoning: {r}"
)

// Turn is one supervised exchange.
type Turn struct {
	Role       string
	Prompt     string // user text after the image
	Completion string // what the model should say
}

// ReadTurn lists every entity: "A red 4. B blue 7."; dots by colour, column and value: "red 3 4.".
func (s Scene) ReadTurn() Turn {
	var parts []string
	for _, e := range s.Entities {
		second := e.Color.String()
		if s.Kind == Scatter {
			second = strconv.Itoa(e.Column)
		}
		parts = append(parts, fmt.Sprintf("%s %s %d.", e.Name(), second, e.Value))
	}
	return Turn{RoleRead, PromptRead, strings.Join(parts, " ")}
}

// LookTurn states one fact about every entity in random order, keyed by letter or colour.
func (s Scene) LookTurn(rng *rand.Rand) Turn {
	var chain []statement
	for _, i := range rng.Perm(len(s.Entities)) {
		e := s.Entities[i]
		value, color, letter := strconv.Itoa(e.Value), e.Color.String(), string(e.Letter)
		options := []statement{{fact, letter, value, ""}, {fact, color, value, ""}, {fact, letter, color, ""}, {fact, color, letter, ""}}
		if s.Kind == Scatter {
			options = []statement{{fact, color, value, ""}, {fact, color, "column " + strconv.Itoa(e.Column), ""}}
		}
		chain = append(chain, options[rng.IntN(len(options))])
	}
	return Turn{RoleLook, PromptLook, join(chain)}
}

// QuestionerTurn asks a grounded question with its right answer.
func (s Scene) QuestionerTurn(q Question) Turn {
	return Turn{RoleQuestioner, PromptQuestioner, fmt.Sprintf(`{"question": "%s", "answer": "%s"}`, q.Text(), s.Solve(q).Answer)}
}

// SolverTurn solves a question step by step; one whose premises fail ends with the reason and the answer "none".
func (s Scene) SolverTurn(q Question) Turn {
	truth := s.Solve(q)
	return Turn{RoleSolver, strings.ReplaceAll(PromptSolver, "{q}", q.Text()),
		fmt.Sprintf(`<think>%s</think><answer>\boxed{%s}</answer>`, truth.Reasoning, truth.Answer)}
}

// ScreenTurn judges any question and answer. The justification solves the question, then sets its own answer beside the one given and
// says yes or no, so that corr_a repeats that word. What is not in the grammar is "Unclear.".
func (s Scene) ScreenTurn(question, given string) Turn {
	q, ok := ParseQuestion(question)
	text, factual, correct := "Unclear.", 0, 0
	if ok {
		truth := s.Solve(q)
		text = truth.Reasoning
		if truth.Grounded {
			factual = 1
			word := "no"
			if sameAnswer(truth.Answer, given) {
				word, correct = "yes", 1
			}
			text += fmt.Sprintf(" %s, given %s: %s.", truth.Answer, plain(given), word)
		}
	}
	difficulty := difficulties[1]
	if ok {
		difficulty = q.Difficulty()
	}
	return Turn{RoleScreening, strings.NewReplacer("{q}", question, "{a}", given).Replace(PromptScreening),
		fmt.Sprintf(`{"justification": "%s", "fact_q": %d, "corr_a": %d, "difficulty": %.1f}`, text, factual, correct, difficulty)}
}

// plain is an answer as a justification repeats it: what is long or would need escaping in JSON is not copied.
func plain(answer string) string {
	if len(answer) == 0 || len(answer) > 16 {
		return "text"
	}
	for _, r := range answer {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return "text"
		}
	}
	return answer
}

// ReasoningTurn grades any reasoning in the grammar; false for other text.
func (s Scene) ReasoningTurn(question, reasoning string) (Turn, bool) {
	score, justification, ok := s.GradeReasoning(question, reasoning)
	if !ok {
		return Turn{}, false
	}
	text := strconv.FormatFloat(score, 'f', -1, 64)
	if len(text) == 1 {
		text += ".0"
	}
	return Turn{RoleReasoning, strings.NewReplacer("{q}", question, "{r}", reasoning).Replace(PromptReasoning),
		fmt.Sprintf(`{"justification": "%s", "reasoning_score": %s}`, justification, text)}, true
}

// DisputeTurn decides between a reference and a majority; false unless exactly one of them is right.
func (s Scene) DisputeTurn(question, reference, majority, reasoning string) (Turn, bool) {
	q, ok := ParseQuestion(question)
	if !ok {
		return Turn{}, false
	}
	truth := s.Solve(q)
	refRight, majRight := sameAnswer(truth.Answer, reference), sameAnswer(truth.Answer, majority)
	if !truth.Grounded || refRight == majRight {
		return Turn{}, false
	}
	winner, refWord, majWord := "majority", "no", "yes"
	if refRight {
		winner, refWord, majWord = "ref", "yes", "no"
	}
	return Turn{RoleDispute, strings.NewReplacer("{q}", question, "{ref}", reference, "{maj}", majority, "{r}", reasoning).Replace(PromptDispute),
		fmt.Sprintf(`<think>%s %s, ref %s: %s, majority %s: %s.</think>{"correct_answer": "%s", "justification": "%s."}`,
			truth.Reasoning, truth.Answer, plain(reference), refWord, plain(majority), majWord, winner, truth.Answer)}, true
}

// EquivalenceTurn says whether two answers to a question mean the same; it needs no figure.
func EquivalenceTurn(question, reference, predicted string, same bool) Turn {
	match := 0
	if same {
		match = 1
	}
	return Turn{RoleEquivalence, strings.NewReplacer("{q}", question, "{ref}", reference, "{pred}", predicted).Replace(PromptEquivalence),
		fmt.Sprintf(`{"match": %d}`, match)}
}
