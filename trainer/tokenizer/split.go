package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// Patterns that cut text into the pieces within which merges happen.
const (
	// QwenPattern is that of Qwen2 to Qwen3: contractions, words with one
	// leading sign or space, single digits, signs, line ends, white space.
	QwenPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// splitter calls piece with consecutive parts that together are the text.
// Bytes that are not UTF-8 are kept and classed as U+FFFD, a sign.
type splitter func(text string, piece func(string))

// newSplitter reads a pre-tokenizer: a Split then a ByteLevel, or either of
// them alone with the ByteLevel, as in Qwen's and GPT-2's files.
func newSplitter(c *component) (splitter, error) {
	if c == nil {
		return nil, unsupported("pre_tokenizer", "null", "ByteLevel, after a Split or alone")
	}
	list := []component{*c}
	if c.Type == "Sequence" {
		list = c.PreTokenizers
	}
	pattern, byteLevel := "", false
	for i, c := range list {
		field := fmt.Sprintf("pre_tokenizer.pretokenizers[%d]", i)
		switch {
		case c.Type == "Split" && pattern == "" && !byteLevel:
			regex, ok := c.Pattern["Regex"]
			if !ok || regex == "" || len(c.Pattern) != 1 {
				return nil, unsupported(field+".pattern", c.Pattern, "one Regex")
			}
			if c.Behavior != "Isolated" {
				return nil, unsupported(field+".behavior", c.Behavior, "Isolated")
			}
			if c.Invert != nil && *c.Invert {
				return nil, unsupported(field+".invert", true, "false")
			}
			pattern = regex
		case c.Type == "ByteLevel" && !byteLevel:
			byteLevel = true
			if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
				return nil, unsupported(field+".add_prefix_space", "true", "false")
			}
			if c.UseRegex == nil || *c.UseRegex { // absent means true
				if pattern != "" {
					return nil, unsupported(field+".use_regex", "true", "false after a Split")
				}
				pattern = gpt2Pattern
			}
		default:
			return nil, unsupported(field+".type", c.Type, "one Split, then one ByteLevel")
		}
	}
	if !byteLevel {
		return nil, unsupported("pre_tokenizer", c.Type, "ByteLevel, after a Split or alone")
	}
	return splitterFor(pattern)
}

func splitterFor(pattern string) (splitter, error) {
	switch pattern {
	case "":
		return func(text string, piece func(string)) {
			if text != "" {
				piece(text)
			}
		}, nil
	case QwenPattern:
		return splitQwen, nil
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("%w: pre_tokenizer pattern: %w", ErrUnsupported, err)
	}
	return regexSplitter(re), nil
}

// regexSplitter isolates the matches; what lies between them is a piece too.
func regexSplitter(re *regexp2.Regexp) splitter {
	return func(text string, piece func(string)) {
		var runes []rune
		var starts []int // byte offset of each rune, then len(text)
		for i, r := range text {
			runes = append(runes, r)
			starts = append(starts, i)
		}
		starts = append(starts, len(text))
		emit := func(from, to int) {
			if from < to {
				piece(text[starts[from]:starts[to]])
			}
		}
		at := 0
		// The only error is a timeout, and none is set.
		m, err := re.FindRunesMatch(runes)
		for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
			emit(at, m.Index)
			emit(m.Index, m.Index+m.Length)
			at = m.Index + m.Length
		}
		emit(at, len(runes))
	}
}

// splitQwen is QwenPattern by hand: one pass, without backtracking.
func splitQwen(text string, piece func(string)) {
	for text != "" {
		n := nextQwen(text)
		piece(text[:n])
		text = text[n:]
	}
}

// nextQwen returns the length of the first piece of a text that is not empty.
func nextQwen(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == '\'' {
		if c := contraction(s[1:]); c > 0 {
			return 1 + c
		}
	}
	kind := classify(r)
	next, nextLen := utf8.DecodeRuneInString(s[n:])
	nextKind := classify(next)
	if nextLen == 0 {
		nextKind = end
	}
	switch {
	case kind == letter:
		return n + spanOf(s[n:], letter)
	case kind == number:
		return n
	case nextKind == letter && r != '\r' && r != '\n':
		return n + nextLen + spanOf(s[n+nextLen:], letter)
	case kind == sign:
		return signs(s, n)
	case r == ' ' && nextKind == sign:
		return signs(s, n+nextLen)
	}
	run := n + spanOf(s[n:], space)
	if i := strings.LastIndexAny(s[:run], "\r\n"); i >= 0 {
		return i + 1
	}
	if _, last := utf8.DecodeLastRuneInString(s[:run]); run < len(s) && run > last {
		return run - last // the last space belongs to what follows
	}
	return run
}

// signs returns the end of a run of signs, known up to n, and the line ends
// after it.
func signs(s string, n int) int {
	n += spanOf(s[n:], sign)
	for n < len(s) && (s[n] == '\r' || s[n] == '\n') {
		n++
	}
	return n
}

// contraction returns the length of one of s, t, re, ve, m, ll, d at the start
// of s in any case. Unicode folds U+017F, the long s, to s.
func contraction(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return 1
	case 'r', 'v', 'l':
		second := byte('e')
		if s[0]|0x20 == 'l' {
			second = 'l'
		}
		if len(s) > 1 && s[1]|0x20 == second {
			return 2
		}
	}
	if strings.HasPrefix(s, "ſ") {
		return len("ſ")
	}
	return 0
}

type class uint8

const (
	sign class = iota // neither of the others
	letter
	number
	space
	end // of the text
)

func classify(r rune) class {
	switch {
	case 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80:
		return letter
	case unicode.IsSpace(r):
		return space
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	}
	return sign
}

// spanOf returns the bytes at the start of s whose runes are all of kind k.
func spanOf(s string, k class) int {
	for i, r := range s {
		if classify(r) != k {
			return i
		}
	}
	return len(s)
}
