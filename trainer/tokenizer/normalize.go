package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// nfc returns the text in Normalization Form C, leaving invalid bytes alone.
//
// golang.org/x/text writes the stream-safe variant, which breaks a run of more
// than thirty combining marks with a joiner; other tokenizers do not, and a
// joiner nobody wrote would come back on decoding. Texts with long runs go
// through nfcExact instead.
func nfc(text string) string {
	const safeMarks = 7 // each decomposes to at most three, and the base adds two
	marks := 0
	ascii := true
	for i, r := range text {
		if r < utf8.RuneSelf {
			marks = 0
			continue
		}
		ascii = false
		if norm.NFC.PropertiesString(text[i:]).CCC() == 0 {
			marks = 0
		} else if marks++; marks > safeMarks {
			return nfcExact(text)
		}
	}
	if ascii {
		return text
	}
	return norm.NFC.String(text)
}

// nfcExact follows the definition (Unicode Standard, 3.11): decompose, order
// the marks, compose.
func nfcExact(text string) string {
	var out strings.Builder
	for text != "" {
		valid := 0
		for valid < len(text) {
			r, n := utf8.DecodeRuneInString(text[valid:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			valid += n
		}
		out.WriteString(string(compose(decompose(text[:valid]))))
		if valid < len(text) {
			out.WriteByte(text[valid])
			valid++
		}
		text = text[valid:]
	}
	return out.String()
}

func combiningClass(r rune) uint8 { return norm.NFC.PropertiesString(string(r)).CCC() }

// decompose returns the canonical decomposition with marks in canonical order.
func decompose(text string) []rune {
	var out []rune
	for _, r := range text {
		if d := norm.NFD.PropertiesString(string(r)).Decomposition(); d != nil {
			out = append(out, []rune(string(d))...)
		} else {
			out = append(out, []rune(norm.NFD.String(string(r)))...) // Hangul, or r itself
		}
	}
	for from := 0; from < len(out); from++ {
		to := from
		for to < len(out) && combiningClass(out[to]) != 0 {
			to++
		}
		slices.SortStableFunc(out[from:to], func(a, b rune) int {
			return int(combiningClass(a)) - int(combiningClass(b))
		})
		from = max(from, to-1)
	}
	return out
}

// compose joins each starter with the marks that are not blocked from it.
func compose(in []rune) []rune {
	var out []rune
	starter := -1      // index in out
	last := uint8(255) // class of the last rune kept since the starter
	for _, r := range in {
		class := combiningClass(r)
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || last != 0 && last < class) {
			if joined := []rune(norm.NFC.String(string([]rune{out[starter], r}))); len(joined) == 1 {
				out[starter] = joined[0]
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		last = class
		out = append(out, r)
	}
	return out
}
