package tokenizer

import (
	"bytes"
	"container/heap"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// TrainOptions says what Train makes.
type TrainOptions struct {
	VocabSize int      // upper bound of all tokens: 256 bytes, merges, Specials and Added
	Pattern   string   // how text is cut into words; QwenPattern if empty
	Specials  []string // control tokens, never made from untrusted text
	Added     []string // tokens of several words, such as the skeleton of a JSON answer
}

// Train returns a tokenizer.json with a byte-level BPE model for the corpus,
// which Parse and Hugging Face `tokenizers` read. It merges the most frequent
// pair, and of equally frequent ones that of the lowest ids, until each word of
// the corpus is one token or the vocabulary is full. Equal input gives equal
// bytes. Ids are those of the bytes, the merges, Specials, then Added.
func Train(corpus iter.Seq[string], opts TrainOptions) ([]byte, error) {
	if opts.Pattern == "" {
		opts.Pattern = QwenPattern
	}
	split, err := splitterFor(opts.Pattern)
	if err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	room := opts.VocabSize - len(opts.Specials) - len(opts.Added)
	if room < 256 {
		return nil, fmt.Errorf("train tokenizer: VocabSize %d is less than 256 bytes, %d special and %d added tokens",
			opts.VocabSize, len(opts.Specials), len(opts.Added))
	}
	added := slices.Concat(opts.Specials, opts.Added)
	tr := &trainer{letters: newAlphabet(), reserved: map[string]bool{}, pairs: map[uint64]*pairStat{}}
	var literals []literal
	for _, text := range added {
		if text == "" || !utf8.ValidString(text) || tr.reserved[text] {
			return nil, fmt.Errorf("train tokenizer: added token %q is empty, not UTF-8 or given twice", text)
		}
		if raw, ok := tr.letters.raw(text); ok && len(raw) == 1 {
			return nil, fmt.Errorf("train tokenizer: added token %q is the spelling of a byte", text)
		}
		tr.reserved[text] = true
		literals = append(literals, literal{text, 0})
	}
	counts := map[string]int{}
	match := newMatcher(literals)
	for text := range corpus {
		match.cut(text, func(stretch string) {
			split(nfc(stretch), func(word string) { counts[word]++ })
		}, func(int32) {})
	}
	tr.start(counts)
	tr.run(room)
	out, err := tr.file(opts)
	if err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	if _, err := Parse(out); err != nil {
		return nil, fmt.Errorf("train tokenizer: read it back: %w", err)
	}
	return out, nil
}

type trainer struct {
	letters  *alphabet
	reserved map[string]bool // spellings that no merge may make
	tokens   []string        // by id, in the alphabet
	ids      map[string]int32
	merges   []merge
	words    []trainWord
	pairs    map[uint64]*pairStat
	queue    pairQueue
}

type trainWord struct {
	ids   []int32
	count int
}

type pairStat struct {
	count int
	words []int // where the pair was once seen; may repeat and be outdated
}

// start sets up the bytes in the order of their spelling, as the reference
// trainer does, and counts the pairs of each distinct word.
func (tr *trainer) start(counts map[string]int) {
	runes := slices.Sorted(slices.Values(tr.letters.runes[:]))
	tr.ids = map[string]int32{}
	var first [256]int32
	for i, r := range runes {
		tr.tokens = append(tr.tokens, string(r))
		tr.ids[string(r)] = int32(i)
		first[tr.letters.bytes[r]] = int32(i)
	}
	words := make([]string, 0, len(counts))
	for w := range counts {
		words = append(words, w)
	}
	slices.Sort(words)
	for i, w := range words {
		ids := make([]int32, len(w))
		for j := range len(w) {
			ids[j] = first[w[j]]
		}
		tr.words = append(tr.words, trainWord{ids, counts[w]})
		for j := 1; j < len(ids); j++ {
			tr.count(ids[j-1], ids[j], counts[w], i)
		}
	}
	for key, s := range tr.pairs {
		tr.queue = append(tr.queue, queued{s.count, key})
	}
	heap.Init(&tr.queue)
}

// count adds to a pair's count; word is noted unless it is negative.
func (tr *trainer) count(left, right int32, n, word int) {
	key := pairKey(left, right)
	s := tr.pairs[key]
	if s == nil {
		s = &pairStat{}
		tr.pairs[key] = s
	}
	s.count += n
	if word >= 0 {
		s.words = append(s.words, word)
	}
}

// run merges until there are size tokens or no pair is left.
func (tr *trainer) run(size int) {
	for len(tr.queue) > 0 && len(tr.tokens) < size {
		top := heap.Pop(&tr.queue).(queued)
		s := tr.pairs[top.key]
		if s == nil || s.count != top.count || s.count == 0 {
			continue // outdated: the pair was queued again when its count changed
		}
		left, right := int32(top.key>>32), int32(uint32(top.key))
		text := tr.tokens[left] + tr.tokens[right]
		if tr.reserved[text] {
			continue
		}
		id, ok := tr.ids[text]
		if !ok { // another pair may have made the same text before
			id = int32(len(tr.tokens))
			tr.ids[text] = id
			tr.tokens = append(tr.tokens, text)
		}
		tr.merges = append(tr.merges, merge{tr.tokens[left], tr.tokens[right]})
		tr.apply(left, right, id, s.words)
	}
}

// apply replaces a pair by id in the words and recounts their pairs.
func (tr *trainer) apply(left, right, id int32, words []int) {
	changed := map[uint64]bool{}
	slices.Sort(words)
	for _, i := range slices.Compact(words) {
		w := &tr.words[i]
		var out []int32
		for j := 0; j < len(w.ids); j++ {
			if j+1 < len(w.ids) && w.ids[j] == left && w.ids[j+1] == right {
				out = append(out, id)
				j++
			} else {
				out = append(out, w.ids[j])
			}
		}
		if len(out) == len(w.ids) {
			continue
		}
		for j := 1; j < len(w.ids); j++ {
			tr.count(w.ids[j-1], w.ids[j], -w.count, -1)
			changed[pairKey(w.ids[j-1], w.ids[j])] = true
		}
		for j := 1; j < len(out); j++ {
			tr.count(out[j-1], out[j], w.count, i)
			changed[pairKey(out[j-1], out[j])] = true
		}
		w.ids = out
	}
	for key := range changed {
		if n := tr.pairs[key].count; n > 0 {
			heap.Push(&tr.queue, queued{n, key})
		} else {
			delete(tr.pairs, key)
		}
	}
}

type queued struct {
	count int
	key   uint64
}

// pairQueue gives the most frequent pair first, then that of the lowest ids:
// a total order, so that the order of insertion does not matter.
type pairQueue []queued

func (q pairQueue) Len() int { return len(q) }
func (q pairQueue) Less(i, j int) bool {
	if q[i].count != q[j].count {
		return q[i].count > q[j].count
	}
	return q[i].key < q[j].key
}
func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *pairQueue) Push(v any)   { *q = append(*q, v.(queued)) }
func (q *pairQueue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	*q = (*q)[:last]
	return v
}

// file writes the result, one entry a line so that versions can be compared.
func (tr *trainer) file(opts TrainOptions) ([]byte, error) {
	no, yes := false, true
	byteLevel := component{Type: "ByteLevel", AddPrefixSpace: &no, TrimOffsets: &yes, UseRegex: &no}
	split := component{Type: "Split", Pattern: map[string]string{"Regex": opts.Pattern}, Behavior: "Isolated", Invert: &no}
	f := file{
		Version:       "1.0",
		AddedTokens:   []addedToken{},
		Normalizer:    &component{Type: "NFC"},
		PreTokenizer:  &component{Type: "Sequence", PreTokenizers: []component{split, byteLevel}},
		PostProcessor: &byteLevel,
		Decoder:       &byteLevel,
	}
	for _, text := range opts.Specials {
		f.AddedTokens = append(f.AddedTokens, addedToken{ID: int32(len(tr.tokens) + len(f.AddedTokens)), Content: text, Special: true})
	}
	for _, text := range opts.Added {
		f.AddedTokens = append(f.AddedTokens, addedToken{ID: int32(len(tr.tokens) + len(f.AddedTokens)), Content: text})
	}
	// The model is written by hand: a Go map would order the vocabulary by name.
	var vocab, list []string
	for id, text := range tr.tokens {
		vocab = append(vocab, fmt.Sprintf("%s: %d", quote(text), id))
	}
	for _, m := range tr.merges {
		list = append(list, quote(m[0]+" "+m[1]))
	}
	frame, err := marshal(f)
	if err != nil {
		return nil, err
	}
	start := bytes.LastIndex(frame, []byte(`"model": `))
	var b bytes.Buffer
	b.Write(frame[:start])
	b.WriteString("\"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n")
	b.WriteString("    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n")
	b.WriteString("    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n")
	fmt.Fprintf(&b, "    \"vocab\": {\n      %s\n    },\n", strings.Join(vocab, ",\n      "))
	merges := "[]"
	if len(list) > 0 {
		merges = "[\n      " + strings.Join(list, ",\n      ") + "\n    ]"
	}
	fmt.Fprintf(&b, "    \"merges\": %s\n  }\n}\n", merges)
	return b.Bytes(), nil
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// quote writes a token as JSON; the alphabet's runes need no escape but these.
func quote(token string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(token) + `"`
}
