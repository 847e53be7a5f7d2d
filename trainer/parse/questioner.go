package parse

import (
	"strings"
	"unicode"
)

// MaxAnswerWords is the longest reference answer a Questioner may propose. The limit on the length of a question stands in
// its prompt alone and is not checked.
const MaxAnswerWords = 10

// QA is a Questioner's proposal.
type QA struct {
	Think    string // empty where the role does not think
	Question string
	Answer   string
}

// Questioner reads a JSON object with question and answer, after a thinking block that is optional unless
// o.RequireThink. Nothing but the object, or a fence around it, may follow. The answer, a string or a number, has at most
// ten words and is a value, not a sentence; neither field may be a placeholder copied from the prompt.
func Questioner(text string, o Options) (QA, error) {
	think, rest, err := splitThink(text, o)
	if err != nil {
		return QA{}, err
	}
	rest = stripFence(rest)
	if !strings.HasPrefix(rest, "{") {
		return QA{}, malformed("a JSON object was expected, not %.40q", rest)
	}
	object, end, err := readObject(rest)
	if err != nil {
		return QA{}, err
	}
	if strings.TrimSpace(rest[end:]) != "" {
		return QA{}, malformed("there is text after the JSON object")
	}
	qa := QA{Think: think}
	if qa.Question, err = object.text("question"); err != nil {
		return QA{}, err
	}
	if qa.Answer, err = object.text("answer"); err != nil {
		return QA{}, err
	}
	return qa, checkQA(qa)
}

func checkQA(qa QA) error {
	switch {
	case isPlaceholder(qa.Question):
		return malformed("the question is a placeholder: %q", qa.Question)
	case isPlaceholder(qa.Answer):
		return malformed("the answer is a placeholder: %q", qa.Answer)
	case len(strings.Fields(qa.Question)) < 2:
		return malformed("the question is a single word: %q", qa.Question)
	case len(strings.Fields(qa.Answer)) > MaxAnswerWords:
		return malformed("the answer has %d words, more than %d", len(strings.Fields(qa.Answer)), MaxAnswerWords)
	case isSentence(qa.Answer):
		return malformed("the answer is a sentence, not a value: %q", qa.Answer)
	}
	return nil
}

// isPlaceholder reports whether s is empty or a stand-in from a prompt's example instead of content.
func isPlaceholder(s string) bool {
	s = strings.ToLower(strings.Trim(s, " \t\n.…<>[]{}()\"'_"))
	switch strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '_' || r == '-' }), " ") {
	case "", "your question", "your answer", "short answer", "your short answer", "question", "answer", "final answer",
		"the answer", "the question", "question here", "answer here", "your question here", "your answer here",
		"placeholder", "todo", "tbd", "n/a", "insert answer", "insert question":
		return true
	}
	return false
}

// isSentence reports whether an answer is running text: several lines or sentences, a question, a stock opening, or five
// words and more that end with a full stop.
func isSentence(s string) bool {
	lower := strings.ToLower(s)
	for _, opening := range []string{"the answer is", "the final answer is", "because ", "it is because"} {
		if strings.HasPrefix(lower, opening) {
			return true
		}
	}
	if strings.ContainsAny(s, "\n") || strings.HasSuffix(s, "?") {
		return true
	}
	words := strings.Fields(s)
	if len(words) >= 5 && strings.HasSuffix(s, ".") {
		return true
	}
	for i, w := range words[:max(len(words)-1, 0)] {
		// A full stop after a word of three letters or more and before a capital ends a sentence; "Dr. Wu" and "approx. 5" do not.
		end := strings.TrimRight(w, ".!?")
		if len(end) < len(w) && letters(end) >= 3 && unicode.IsUpper([]rune(words[i+1])[0]) {
			return true
		}
	}
	return false
}

func letters(s string) int {
	n := 0
	for _, r := range s {
		if unicode.IsLetter(r) {
			n++
		}
	}
	return n
}
