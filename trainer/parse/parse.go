// Package parse reads what the roles wrote. Text is hostile and often broken: fences, trailing commas, missing closers and
// unescaped LaTeX are repaired, but a verdict is taken only from its own JSON field. One that cannot be read is an error
// wrapping ErrMalformed, never a guess from the prose. The package is pure.
package parse

import (
	"errors"
	"fmt"
	"strings"
)

// ErrMalformed is wrapped by every error of this package: the text does not have the form its role was asked for.
var ErrMalformed = errors.New("malformed output")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Options say how a completion was asked for.
type Options struct {
	// ThinkOpenInPrompt: the opening <think> stands at the end of the prompt, so that the completion lacks it.
	ThinkOpenInPrompt bool
	// RequireThink: a completion without a thinking block is malformed. Solver always requires one.
	RequireThink bool
	// Truncated: generation stopped at its token budget. Such a completion is malformed whatever it holds.
	Truncated bool
}

const (
	thinkOpen   = "<think>"
	thinkClose  = "</think>"
	answerOpen  = "<answer>"
	answerClose = "</answer>"
)

// splitThink separates the thinking block from what follows it.
func splitThink(text string, o Options) (think, rest string, err error) {
	if o.Truncated {
		return "", "", malformed("the completion was cut off at its token budget")
	}
	text = strings.TrimSpace(text)
	if o.ThinkOpenInPrompt && !strings.HasPrefix(text, thinkOpen) {
		text = thinkOpen + text
	}
	if !strings.HasPrefix(text, thinkOpen) {
		switch {
		case strings.Contains(text, thinkClose):
			return "", "", malformed("%s has no %s before it", thinkClose, thinkOpen)
		case o.RequireThink:
			return "", "", malformed("it does not start with %s", thinkOpen)
		}
		return "", text, nil
	}
	think, rest, closed := strings.Cut(text[len(thinkOpen):], thinkClose)
	switch {
	case !closed:
		return "", "", malformed("%s is never closed", thinkOpen)
	case strings.Contains(think, thinkOpen), strings.Contains(rest, thinkOpen), strings.Contains(rest, thinkClose):
		return "", "", malformed("there is more than one thinking block")
	}
	return strings.TrimSpace(think), strings.TrimSpace(rest), nil
}

// Solution is a Solver's completion.
type Solution struct {
	Think  string // inside <think>
	Answer string // inside \boxed{}
}

// Solver reads <think>..</think><answer>..\boxed{answer}..</answer> with nothing but space around and between the blocks.
// The answer block holds exactly one \boxed{}, whose braces may nest. A mention of \boxed inside the thinking block is not
// counted: models quote their instructions there.
func Solver(text string, o Options) (Solution, error) {
	o.RequireThink = true
	think, rest, err := splitThink(text, o)
	if err != nil {
		return Solution{}, err
	}
	if !strings.HasPrefix(rest, answerOpen) {
		return Solution{}, malformed("%s does not follow %s", answerOpen, thinkClose)
	}
	block, after, closed := strings.Cut(rest[len(answerOpen):], answerClose)
	switch {
	case !closed:
		return Solution{}, malformed("%s is never closed", answerOpen)
	case strings.TrimSpace(after) != "":
		return Solution{}, malformed("there is text after %s", answerClose)
	case strings.Contains(block, answerOpen):
		return Solution{}, malformed("there is more than one %s", answerOpen)
	}
	answer, err := boxed(block)
	if err != nil {
		return Solution{}, err
	}
	return Solution{Think: think, Answer: answer}, nil
}

// boxed returns the content of the only \boxed{} in s.
func boxed(s string) (string, error) {
	const command = `\boxed`
	start := strings.Index(s, command)
	switch {
	case start < 0:
		return "", malformed(`there is no \boxed{} in the answer`)
	case strings.Contains(s[start+len(command):], command):
		return "", malformed(`there is more than one \boxed{} in the answer`)
	}
	s = strings.TrimLeft(s[start+len(command):], " \t")
	if !strings.HasPrefix(s, "{") {
		return "", malformed(`\boxed has no braces`)
	}
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++ // an escaped brace is a character
		case '{':
			depth++
		case '}':
			if depth--; depth > 0 {
				continue
			}
			content := strings.TrimSpace(s[1:i])
			if content == "" || isPlaceholder(content) {
				return "", malformed(`\boxed{%s} holds no answer`, content)
			}
			return content, nil
		}
	}
	return "", malformed(`\boxed{ is never closed`)
}
