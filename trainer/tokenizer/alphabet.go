package tokenizer

// alphabet is the printable spelling of bytes that byte-level vocabularies use
// (GPT-2): printable Latin-1 stands for itself, the other 68 bytes follow from
// U+0100 on.
type alphabet struct {
	runes [256]rune
	bytes map[rune]byte
}

func newAlphabet() *alphabet {
	a := &alphabet{bytes: make(map[rune]byte, 256)}
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			r = next
			next++
		}
		a.runes[b] = r
		a.bytes[r] = byte(b)
	}
	return a
}

// raw is the bytes that a token spells; false if token has a rune outside the alphabet.
func (a *alphabet) raw(token string) (string, bool) {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := a.bytes[r]
		if !ok {
			return "", false
		}
		out = append(out, b)
	}
	return string(out), true
}
