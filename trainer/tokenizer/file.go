package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrUnsupported is wrapped where a tokenizer.json asks for something that
// this package does not do. The message names the field.
var ErrUnsupported = errors.New("unsupported tokenizer.json")

func unsupported(field string, value any, want string) error {
	return fmt.Errorf("%w: %s is %v: only %s", ErrUnsupported, field, value, want)
}

// file mirrors tokenizer.json as Hugging Face `tokenizers` writes it.
type file struct {
	Version string `json:"version"`
	// Truncation and padding are settings of a call that the file remembers;
	// transformers resets them on each call, so they are not read here.
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    *component      `json:"normalizer"`
	PreTokenizer  *component      `json:"pre_tokenizer"`
	PostProcessor *component      `json:"post_processor"`
	Decoder       *component      `json:"decoder"`
	Model         model           `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// component is the union of the fields of the components that are known.
type component struct {
	Type           string            `json:"type"`
	Normalizers    []component       `json:"normalizers,omitempty"`
	PreTokenizers  []component       `json:"pretokenizers,omitempty"`
	Processors     []component       `json:"processors,omitempty"`
	Decoders       []component       `json:"decoders,omitempty"`
	Pattern        map[string]string `json:"pattern,omitempty"`
	Behavior       string            `json:"behavior,omitempty"`
	Invert         *bool             `json:"invert,omitempty"`
	AddPrefixSpace *bool             `json:"add_prefix_space,omitempty"`
	TrimOffsets    *bool             `json:"trim_offsets,omitempty"`
	UseRegex       *bool             `json:"use_regex,omitempty"`
}

type model struct {
	Type                    string           `json:"type"`
	Dropout                 *float64         `json:"dropout"`
	UnkToken                *string          `json:"unk_token"`
	ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
	FuseUnk                 bool             `json:"fuse_unk"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int32 `json:"vocab"`
	Merges                  []merge          `json:"merges"`
}

// merge is a pair of tokens, written as "a b" or as ["a", "b"].
type merge [2]string

func (m *merge) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var pair []string
		if err := json.Unmarshal(b, &pair); err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("model.merges: %s is not a pair", b)
		}
		m[0], m[1] = pair[0], pair[1]
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	left, right, ok := strings.Cut(s, " ")
	if !ok || left == "" || right == "" || strings.Contains(right, " ") {
		return fmt.Errorf("model.merges: %q is not two tokens with a space between", s)
	}
	m[0], m[1] = left, right
	return nil
}

func parseFile(b []byte) (*file, error) {
	var f file
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return nil, fmt.Errorf("%w: field %s is not known", ErrUnsupported, name)
		}
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return &f, f.check()
}

// check refuses what would change the tokens and is not implemented. The
// pre-tokenizer is checked by newSplitter.
func (f *file) check() error {
	m := &f.Model
	switch {
	case m.Type != "BPE" && m.Type != "": // absent in files of old versions
		return unsupported("model.type", m.Type, "BPE")
	case m.Dropout != nil && *m.Dropout != 0:
		return unsupported("model.dropout", *m.Dropout, "null or 0")
	case m.UnkToken != nil:
		return unsupported("model.unk_token", *m.UnkToken, "null (a byte-level vocabulary needs none)")
	case m.ContinuingSubwordPrefix != nil && *m.ContinuingSubwordPrefix != "":
		return unsupported("model.continuing_subword_prefix", *m.ContinuingSubwordPrefix, "null or empty")
	case m.EndOfWordSuffix != nil && *m.EndOfWordSuffix != "":
		return unsupported("model.end_of_word_suffix", *m.EndOfWordSuffix, "null or empty")
	case m.ByteFallback:
		return unsupported("model.byte_fallback", true, "false")
	}
	for i, a := range f.AddedTokens {
		field := fmt.Sprintf("added_tokens[%d] (%q)", i, a.Content)
		switch {
		case a.Content == "":
			return unsupported(field+".content", "empty", "text")
		case a.SingleWord:
			return unsupported(field+".single_word", true, "false")
		case a.LStrip:
			return unsupported(field+".lstrip", true, "false")
		case a.RStrip:
			return unsupported(field+".rstrip", true, "false")
		}
	}
	// A ByteLevel post-processor only trims offsets, which are not reported here.
	if err := checkAll("post_processor", f.PostProcessor, "ByteLevel"); err != nil {
		return err
	}
	if err := checkAll("decoder", f.Decoder, "ByteLevel"); err != nil {
		return err
	}
	return checkAll("normalizer", f.Normalizer, "NFC")
}

// checkAll accepts nothing, a component of the wanted type, or a Sequence of
// such.
func checkAll(field string, c *component, want string) error {
	if c == nil || c.Type == want {
		return nil
	}
	if c.Type != "Sequence" {
		return unsupported(field+".type", c.Type, want)
	}
	for _, list := range [][]component{c.Normalizers, c.Processors, c.Decoders} {
		for i := range list {
			if err := checkAll(fmt.Sprintf("%s[%d]", field, i), &list[i], want); err != nil {
				return err
			}
		}
	}
	return nil
}

// normalizes says whether the file asks for NFC.
func (c *component) normalizes() bool {
	if c == nil {
		return false
	}
	if c.Type == "NFC" {
		return true
	}
	for i := range c.Normalizers {
		if c.Normalizers[i].normalizes() {
			return true
		}
	}
	return false
}
