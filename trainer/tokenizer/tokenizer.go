// Package tokenizer is a byte-level byte-pair encoder over the tokenizer.json
// of Hugging Face `tokenizers`, as Qwen2 to Qwen3 and GPT-2 use it, and a
// trainer that writes such a file.
//
// Text from a model or a user goes through EncodePlain, in which the spelling
// of a special token is ordinary text: a completion cannot forge the end of a
// turn or an image.
package tokenizer

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// Tokenizer converts text to token ids and back. It may be used by several
// goroutines.
type Tokenizer struct {
	normalize    bool
	ignoreMerges bool
	split        splitter
	merges       merges
	words        map[string]int32 // raw bytes -> id of the model's tokens; for ignoreMerges only
	ids          map[string]int32 // spelling in the file -> id
	tokens       []token          // by id; gaps are empty

	all, plain stages
	special    *matcher

	mu    sync.RWMutex
	cache map[string][]int32
}

// stages are the added tokens looked for in the text as it is and, after
// that, in the normalised text.
type stages struct{ verbatim, normalized *matcher }

type token struct {
	text    string // as spelt in the file
	raw     string // the bytes it stands for
	special bool
}

// The cache of words is emptied when full: natural text refills it at once and
// hostile text cannot grow it.
const (
	cacheWords   = 1 << 16
	cacheWordLen = 64 // bytes; longer words are seldom met twice
)

// Load reads a tokenizer.json. See Parse.
func Load(path string) (*Tokenizer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %q: %w", path, err)
	}
	return t, nil
}

// Parse reads the text of a tokenizer.json: a BPE model over the byte-level
// alphabet, NFC or no normalizer, and a ByteLevel pre-tokenizer, alone or after
// one Split. It returns ErrUnsupported, naming the field, for anything else
// that would change the tokens.
func Parse(text []byte) (*Tokenizer, error) {
	f, err := parseFile(text)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{
		normalize:    f.Normalizer.normalizes(),
		ignoreMerges: f.Model.IgnoreMerges,
		ids:          f.Model.Vocab,
		cache:        map[string][]int32{},
	}
	if t.split, err = newSplitter(f.PreTokenizer); err != nil {
		return nil, err
	}
	letters := newAlphabet()
	if err := t.addVocabulary(f, letters); err != nil {
		return nil, err
	}
	if err := t.addMerges(f.Model.Merges, letters); err != nil {
		return nil, err
	}
	t.addMatchers(f.AddedTokens)
	return t, nil
}

// addVocabulary fills tokens and ids, and words where they are needed.
func (t *Tokenizer) addVocabulary(f *file, letters *alphabet) error {
	const maxID = 1 << 20 // bounds the table against a hostile file
	size := int32(0)
	grow := func(text string, id int32) error {
		if id < 0 || id >= maxID {
			return fmt.Errorf("token %q: id %d is outside 0 to %d", text, id, maxID-1)
		}
		size = max(size, id+1)
		return nil
	}
	for text, id := range f.Model.Vocab {
		if err := grow(text, id); err != nil {
			return err
		}
	}
	for _, a := range f.AddedTokens {
		if err := grow(a.Content, a.ID); err != nil {
			return err
		}
	}
	if t.ids == nil {
		t.ids = map[string]int32{}
	}
	t.tokens = make([]token, size)
	for text, id := range t.ids {
		if other := t.tokens[id].text; other != "" || text == "" {
			return fmt.Errorf("model.vocab: tokens %q and %q share id %d or are empty", text, other, id)
		}
		raw, ok := letters.raw(text)
		if !ok {
			raw = text
		}
		t.tokens[id] = token{text: text, raw: raw}
	}
	for _, a := range f.AddedTokens {
		if old := t.tokens[a.ID].text; old != "" && old != a.Content {
			return fmt.Errorf("added_tokens: %q has id %d, which is that of %q", a.Content, a.ID, old)
		}
		if id, ok := t.ids[a.Content]; ok && id != a.ID {
			return fmt.Errorf("added_tokens: %q has id %d here and %d elsewhere", a.Content, a.ID, id)
		}
		t.ids[a.Content] = a.ID
		t.tokens[a.ID] = token{text: a.Content, raw: a.Content, special: a.Special}
	}
	if !t.ignoreMerges {
		return nil
	}
	t.words = make(map[string]int32, len(t.ids))
	for text, id := range t.ids {
		// A special token is reached only through the matcher.
		if raw, ok := letters.raw(text); ok && !t.tokens[id].special {
			t.words[raw] = id
		}
	}
	return nil
}

func (t *Tokenizer) addMerges(list []merge, letters *alphabet) error {
	for b, r := range letters.runes {
		id, ok := t.ids[string(r)]
		if !ok || t.tokens[id].special {
			return unsupported("model.vocab", fmt.Sprintf("without %q, the token of byte %#02x", r, b), "a vocabulary with all 256 bytes")
		}
		t.merges.first[b] = id
	}
	t.merges.pairs = make(map[uint64]merged, len(list))
	for rank, m := range list {
		left, okLeft := t.ids[m[0]]
		right, okRight := t.ids[m[1]]
		id, ok := t.ids[m[0]+m[1]]
		if !okLeft || !okRight || !ok {
			return fmt.Errorf("model.merges[%d]: %q and %q or what they make is not in model.vocab", rank, m[0], m[1])
		}
		if t.tokens[id].special {
			return unsupported(fmt.Sprintf("model.merges[%d]", rank), fmt.Sprintf("the making of the special token %q from text", m[0]+m[1]),
				"added_tokens may hold those")
		}
		t.merges.pairs[pairKey(left, right)] = merged{int32(rank), id}
	}
	return nil
}

func (t *Tokenizer) addMatchers(added []addedToken) {
	var all, plain [2][]literal // verbatim, normalized
	for _, a := range added {
		stage, text := 0, a.Content
		if a.Normalized && t.normalize {
			stage, text = 1, nfc(text)
		}
		all[stage] = append(all[stage], literal{text, a.ID})
		if !a.Special {
			plain[stage] = append(plain[stage], literal{text, a.ID})
		}
	}
	var special []literal
	for _, a := range added {
		if a.Special {
			special = append(special, literal{a.Content, a.ID})
		}
	}
	t.special = newMatcher(special)
	t.all = stages{newMatcher(all[0]), newMatcher(all[1])}
	t.plain = stages{newMatcher(plain[0]), newMatcher(plain[1])}
}

// Encode returns the ids of text in which added tokens, special ones too, are
// recognised: prompts made from templates. Bytes that are not UTF-8 are kept.
func (t *Tokenizer) Encode(text string) []int32 { return t.encode(text, t.all) }

// EncodePlain is Encode for untrusted text: the spelling of a special token
// becomes the tokens of its bytes, so no special id is ever returned. Other
// added tokens (such as <think>) are recognised.
func (t *Tokenizer) EncodePlain(text string) []int32 { return t.encode(text, t.plain) }

// CutSpecial takes a template's text apart at the spellings of special tokens: it calls text for every stretch
// between them and token for each, in their order.
func (t *Tokenizer) CutSpecial(template string, text func(string), token func(int32)) {
	t.special.cut(template, text, token)
}

func (t *Tokenizer) encode(text string, s stages) []int32 {
	var out []int32
	add := func(id int32) { out = append(out, id) }
	s.verbatim.cut(text, func(stretch string) {
		if t.normalize {
			stretch = nfc(stretch)
		}
		s.normalized.cut(stretch, func(stretch string) {
			t.split(stretch, func(word string) { out = append(out, t.word(word)...) })
		}, add)
	}, add)
	return out
}

// word returns the ids of a piece; the slice is shared and not to be changed.
func (t *Tokenizer) word(word string) []int32 {
	if len(word) == 1 {
		return t.merges.first[word[0] : int(word[0])+1]
	}
	if len(word) > cacheWordLen {
		return t.encodeWord(word)
	}
	t.mu.RLock()
	ids, ok := t.cache[word]
	t.mu.RUnlock()
	if ok {
		return ids
	}
	ids = t.encodeWord(word)
	t.mu.Lock()
	if len(t.cache) >= cacheWords {
		clear(t.cache)
	}
	t.cache[strings.Clone(word)] = ids
	t.mu.Unlock()
	return ids
}

func (t *Tokenizer) encodeWord(word string) []int32 {
	if id, ok := t.words[word]; ok {
		return []int32{id}
	}
	return t.merges.encode(word)
}

// Decode returns the bytes that ids stand for, which need not be valid UTF-8
// (a character may be cut in two). Ids without a token, as in a padded
// embedding, stand for nothing.
func (t *Tokenizer) Decode(ids []int32) string { return t.decode(ids, false) }

// DecodeSkipSpecial is Decode without the special tokens.
func (t *Tokenizer) DecodeSkipSpecial(ids []int32) string { return t.decode(ids, true) }

func (t *Tokenizer) decode(ids []int32, skipSpecial bool) string {
	var out strings.Builder
	for _, id := range ids {
		if id >= 0 && int(id) < len(t.tokens) && !(skipSpecial && t.tokens[id].special) {
			out.WriteString(t.tokens[id].raw)
		}
	}
	return out.String()
}

// Token returns a token as the file spells it ("Ġthe" for " the"), or "" if
// there is none of that id. For the bytes it stands for use Decode.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.tokens) {
		return ""
	}
	return t.tokens[id].text
}

// ID returns the id of a token in the spelling of Token.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// IsSpecial says whether id is that of a special token.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.tokens) && t.tokens[id].special
}

// VocabSize is the largest id plus one; a model's embedding has at least so
// many rows.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }
