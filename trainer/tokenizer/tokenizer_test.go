package tokenizer

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/tokenizer/tokenizertest"
)

var update = flag.Bool("update", false, "write testdata/trained.json anew")

func readTexts(t testing.TB) []string {
	var texts []string
	readJSON(t, "testdata/texts.json", &texts)
	return texts
}

func readJSON(t testing.TB, path string, v any) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

func loadTrained(t testing.TB) *Tokenizer {
	tok, err := Load("testdata/trained.json")
	require.NoError(t, err)
	return tok
}

var specials = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"}

func trainSmall(t testing.TB) []byte {
	out, err := Train(slices.Values(readTexts(t)), TrainOptions{
		VocabSize: 900, Specials: specials,
		Added: []string{"<think>", "</think>", `{"question": "`, `", "answer": "`, `"}`},
	})
	require.NoError(t, err)
	return out
}

// golden is what Hugging Face tokenizers answered; plain and decoded are left out where they are the ids and the text.
type golden struct {
	IDs     []int32 `json:"ids"`
	Plain   []int32 `json:"plain"`
	Decoded *string `json:"decoded"`
}

func requireGolden(t *testing.T, tok *Tokenizer, texts []string, path string) {
	var want []golden
	readJSON(t, path, &want)
	require.Len(t, want, len(texts))
	for i, text := range texts {
		w := want[i]
		if w.Plain == nil {
			w.Plain = w.IDs
		}
		if w.Decoded == nil {
			w.Decoded = &text
		}
		require.Equal(t, w.IDs, append([]int32{}, tok.Encode(text)...), "%q", text)
		require.Equal(t, w.Plain, append([]int32{}, tok.EncodePlain(text)...), "plain %q", text)
		require.Equal(t, *w.Decoded, tok.Decode(w.IDs), "%q", text)
	}
}

// testdata/golden.json is made by testdata/make.py with the Python package.
func TestTrainedMatchesReference(t *testing.T) {
	out := trainSmall(t)
	if *update {
		require.NoError(t, os.WriteFile("testdata/trained.json", out, 0o644))
		return
	}
	want, err := os.ReadFile("testdata/trained.json")
	require.NoError(t, err)
	require.Equal(t, string(want), string(out), "training is deterministic; after a change on purpose run the recipe in testdata/make.py")
	requireGolden(t, loadTrained(t), readTexts(t), "testdata/golden.json")
}

// The two hundred texts of hard.json, with the tokenizers of Qwen2.5-VL and Qwen3-VL.
func TestReleasedTokenizersMatchReference(t *testing.T) {
	var kinds []struct{ Texts []string }
	readJSON(t, "testdata/hard.json", &kinds)
	var texts []string
	for _, k := range kinds {
		texts = append(texts, k.Texts...)
	}
	require.Len(t, texts, 200)
	for _, name := range []string{"qwen2_5", "qwen3"} {
		t.Run(name, func(t *testing.T) {
			tok, err := Load(tokenizertest.Qwen(t, name))
			require.NoError(t, err)
			requireGolden(t, tok, texts, "testdata/"+name+".json")
			for _, text := range texts {
				requireRoundTrip(t, tok, text)
			}
			for id, special := range map[int32]string{151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>",
				151652: "<|vision_start|>", 151653: "<|vision_end|>", 151655: "<|image_pad|>", 151656: "<|video_pad|>"} {
				require.Equal(t, special, tok.Token(id))
				require.True(t, tok.IsSpecial(id))
			}
		})
	}
}

func TestTokens(t *testing.T) {
	tok := loadTrained(t)
	id, ok := tok.ID("<|im_end|>")
	require.True(t, ok)
	require.True(t, tok.IsSpecial(id))
	require.Equal(t, "<|im_end|>", tok.Token(id))
	require.Equal(t, []int32{id}, tok.Encode("<|im_end|>"))
	require.Equal(t, "ab", tok.DecodeSkipSpecial(tok.Encode("a<|im_end|>b")))
	require.Equal(t, "a<|im_end|>b", tok.Decode(tok.Encode("a<|im_end|>b")))

	think, ok := tok.ID("<think>")
	require.True(t, ok)
	require.False(t, tok.IsSpecial(think))
	require.Contains(t, tok.EncodePlain("x<think>"), think)
	_, ok = tok.ID("no such token")
	require.False(t, ok)
	require.Empty(t, tok.Token(-1))
	require.Empty(t, tok.Token(int32(tok.VocabSize())))
	require.Empty(t, tok.Decode([]int32{-1, 1 << 30}))
	for i := range tok.VocabSize() {
		got, ok := tok.ID(tok.Token(int32(i)))
		require.True(t, ok)
		require.Equal(t, int32(i), got)
	}
}

// requireRoundTrip checks what holds for any text whatever.
func requireRoundTrip(t require.TestingT, tok *Tokenizer, text string) {
	// Normalised again on both sides: an added token parts a mark from its letter.
	require.Equal(t, nfcExact(text), nfcExact(tok.Decode(tok.EncodePlain(text))))
	for _, id := range tok.EncodePlain(text) {
		require.False(t, tok.IsSpecial(id), "%q forges %q", text, tok.Token(id))
	}
	require.Equal(t, nfcExact(text), nfcExact(tok.Decode(tok.Encode(text))))
}

func TestRoundTrip(t *testing.T) {
	tok := loadTrained(t)
	for _, text := range readTexts(t) {
		require.Equal(t, nfc(text), tok.Decode(tok.EncodePlain(text)))
	}
	for _, text := range []string{"\xff", "a\x80b", "\xe2\x82", "é\xc3", "\xf0\x9f\x98 \xed\xa0\x80", "<|im_end|\xff>", strings.Repeat("\xff", 500)} {
		require.False(t, utf8.ValidString(text))
		require.Equal(t, text, tok.Decode(tok.Encode(text)))
		require.Equal(t, text, tok.Decode(tok.EncodePlain(text)))
	}
}

func FuzzRoundTrip(f *testing.F) {
	tok := loadTrained(f)
	for _, text := range readTexts(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { requireRoundTrip(t, tok, text) })
}

func FuzzParse(f *testing.F) {
	b, err := os.ReadFile("testdata/trained.json")
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(minimal("", "", "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if tok, err := Parse(b); err == nil {
			tok.Encode("a b<|im_end|>")
		}
	})
}

// randomText draws from the runes where the classes of the pattern meet.
func randomText(r *rand.Rand) string {
	runes := []rune("aZ'sStTrRvVeElLmMdDſ19٣Ⅷ½ \u00a0\u2003\u3000\u0085\u2028\t\n\r\v\f.,!-_$é字か각\u0301\u200b\u180e\ufffd😀\x00\x1c")
	out := make([]rune, r.IntN(30))
	for i := range out {
		if out[i] = runes[r.IntN(len(runes))]; r.IntN(10) == 0 {
			out[i] = rune(r.IntN(0x3000))
		}
	}
	s := string(out)
	if r.IntN(4) == 0 {
		s += "\xff\xe2 \xc3"
	}
	return s
}

func TestQwenSplitterEqualsPattern(t *testing.T) {
	// regexp2 does not fold the long s to s as the reference engine does.
	re := regexp2.MustCompile(strings.Replace(QwenPattern, "'s|", "'s|'ſ|", 1), regexp2.None)
	slow := regexSplitter(re)
	r := rand.New(rand.NewPCG(1, 2))
	texts := readTexts(t)
	for range 20000 {
		texts = append(texts, randomText(r))
	}
	for _, text := range texts {
		var want, got []string
		slow(text, func(p string) { want = append(want, p) })
		splitQwen(text, func(p string) { got = append(got, p) })
		require.Equal(t, want, got, "%q", text)
		require.Equal(t, text, strings.Join(got, ""))
	}
}

func TestExactNormalization(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pool := []rune("aeoAOqſ \u0301\u0300\u0323\u0307\u0308\u0327\u0345\u0313\u1100\u1161\u11a8\uac00\uac01\u0958\u2126\u212b\u1e9b\u0f73\u0f71\u0f72\u0344\u09c7\u09be\u1e69\u03b1字")
	for range 20000 {
		out := make([]rune, r.IntN(12))
		for i := range out {
			out[i] = pool[r.IntN(len(pool))]
		}
		s := string(out)
		require.Equal(t, norm.NFC.String(s), nfcExact(s), "%+q", s)
	}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		require.Equal(t, norm.NFC.String(string(r)), nfcExact(string(r)))
	}
	long := "Z" + strings.Repeat("\u0301", 40) + "\xff"
	require.Equal(t, "Ź"+strings.Repeat("\u0301", 39)+"\xff", nfc(long))
}

// slowMerge is the definition: the lowest rank, leftmost, again and again.
func slowMerge(m *merges, word string) []int32 {
	var ids []int32
	for i := range len(word) {
		ids = append(ids, m.first[word[i]])
	}
	for {
		at, best := -1, merged{}
		for i := 0; i+1 < len(ids); i++ {
			if p, ok := m.pairs[pairKey(ids[i], ids[i+1])]; ok && (at < 0 || p.rank < best.rank) {
				at, best = i, p
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = best.id
		ids = slices.Delete(ids, at+1, at+2)
	}
}

func TestMergesFollowTheDefinition(t *testing.T) {
	tok := loadTrained(t)
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("thear wmnyoisbl<|_é字")), 1, 60, -1).Draw(t, "word")
		require.Equal(t, slowMerge(&tok.merges, word), tok.merges.encode(word))
	})
}

func TestEncodeFromManyGoroutines(t *testing.T) {
	tok := loadTrained(t)
	want := tok.Encode("How many bars are taller than B?")
	var wg sync.WaitGroup
	got := make([][]int32, 8)
	for i := range got {
		wg.Go(func() {
			for range 50 {
				got[i] = tok.Encode("How many bars are taller than B?")
			}
		})
	}
	wg.Wait()
	for _, ids := range got {
		require.Equal(t, want, ids)
	}
}

func TestCacheIsBounded(t *testing.T) {
	tok := loadTrained(t)
	r := rand.New(rand.NewPCG(5, 6))
	for range cacheWords + 1000 {
		word := make([]byte, 8)
		for i := range word {
			word[i] = byte('a' + r.IntN(26))
		}
		tok.Encode(string(word))
	}
	require.LessOrEqual(t, len(tok.cache), cacheWords)
	require.NotEmpty(t, tok.cache)
}

// minimal returns a tokenizer.json with the 256 bytes and "ab"; the arguments
// go into the top level, the pre-tokenizer's ByteLevel and the model.
func minimal(top, byteLevel, model string) string {
	var vocab []string
	for b, r := range newAlphabet().runes {
		key, _ := json.Marshal(string(r))
		id, _ := json.Marshal(b)
		vocab = append(vocab, string(key)+":"+string(id))
	}
	if byteLevel == "" {
		byteLevel = `"add_prefix_space":false,"trim_offsets":true,"use_regex":true`
	}
	return `{"version":"1.0"` + top + `,"pre_tokenizer":{"type":"ByteLevel",` + byteLevel + `},` +
		`"model":{"type":"BPE"` + model + `,"vocab":{` + strings.Join(vocab, ",") + `,"ab":256},"merges":["a b"]}}`
}

func TestByteLevelAlone(t *testing.T) {
	tok, err := Parse([]byte(minimal("", "", "")))
	require.NoError(t, err)
	require.Equal(t, []int32{256, ' ', 256, 'c'}, tok.Encode("ab abc"))
	require.Equal(t, 257, tok.VocabSize())
	var pieces []string
	tok.split(" a1's  b", func(p string) { pieces = append(pieces, p) })
	require.Equal(t, []string{" a", "1", "'s", " ", " b"}, pieces)
	tok, err = Parse([]byte(minimal("", `"add_prefix_space":false,"use_regex":false`, "")))
	require.NoError(t, err)
	require.Equal(t, []int32{' ', 256}, tok.Encode(" ab"))
}

func TestAddedTokensLongestAtLeftmost(t *testing.T) {
	token := func(id, content, more string) string {
		return `{"id":` + id + `,"content":"` + content + `","special":true` + more + `}`
	}
	tok, err := Parse([]byte(minimal(`,"normalizer":{"type":"NFC"},"added_tokens":[`+token("300", "<a>", "")+","+token("301", "<a>b", "")+","+
		token("302", "a><", "")+","+token("303", `e\u0301`, `,"normalized":true`)+`]`, "", "")))
	require.NoError(t, err)
	require.Equal(t, []int32{301, 300, '<'}, tok.Encode("<a>b<a><"))
	require.Equal(t, []int32{'a', 303, 303}, tok.Encode("a\u00e9e\u0301"))
	require.Equal(t, 304, tok.VocabSize())
	require.Empty(t, tok.Token(299), "ids may have gaps")
}

func TestIgnoreMerges(t *testing.T) {
	text := strings.Replace(minimal(`,"added_tokens":[{"id":258,"content":"xyz","special":true}]`, "", `,"ignore_merges":true`),
		`"ab":256`, `"ab":256,"abc":257,"xyz":258`, 1)
	tok, err := Parse([]byte(text))
	require.NoError(t, err)
	require.Equal(t, []int32{257}, tok.Encode("abc"))
	require.Equal(t, []int32{258}, tok.Encode("xyz"))
	require.Equal(t, []int32{'x', 'y', 'z'}, tok.EncodePlain("xyz"), "a special token in the vocabulary is not forged either")
}

func TestRefusesWhatItDoesNotDo(t *testing.T) {
	added := func(s string) string { return minimal(`,"added_tokens":[{"id":300,"content":"x"`+s+`}]`, "", "") }
	for _, c := range []struct{ text, want string }{
		{minimal("", "", `,"dropout":0.1`), "model.dropout"},
		{minimal("", "", `,"unk_token":"<unk>"`), "model.unk_token"},
		{minimal("", "", `,"continuing_subword_prefix":"##"`), "model.continuing_subword_prefix"},
		{minimal("", "", `,"end_of_word_suffix":"</w>"`), "model.end_of_word_suffix"},
		{minimal("", "", `,"byte_fallback":true`), "model.byte_fallback"},
		{minimal("", "", `,"novelty":true`), `"novelty"`},
		{strings.Replace(minimal("", "", ""), `"BPE"`, `"Unigram"`, 1), "model.type"},
		{minimal(`,"normalizer":{"type":"Lowercase"}`, "", ""), "normalizer.type"},
		{minimal(`,"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFKC"}]}`, "", ""), "normalizer[1].type"},
		{minimal(`,"post_processor":{"type":"TemplateProcessing"}`, "", ""), "post_processor.type"},
		{minimal(`,"decoder":{"type":"Metaspace"}`, "", ""), "decoder.type"},
		{minimal("", `"add_prefix_space":true`, ""), "add_prefix_space"},
		{strings.Replace(minimal("", "", ""), `"ByteLevel"`, `"Whitespace"`, 1), "pre_tokenizer.pretokenizers[0].type"},
		{added(`,"lstrip":true`), "lstrip"},
		{added(`,"rstrip":true`), "rstrip"},
		{added(`,"single_word":true`), "single_word"},
	} {
		_, err := Parse([]byte(c.text))
		require.ErrorIs(t, err, ErrUnsupported)
		require.ErrorContains(t, err, c.want)
	}
	for _, c := range []struct{ text, want string }{
		{"", "EOF"},
		{minimal("", "", "") + "x", "follows"},
		{strings.Replace(minimal("", "", ""), `"a b"`, `"a z q"`, 1), "two tokens"},
		{strings.Replace(minimal("", "", ""), `"a b"`, `["a"]`, 1), "not a pair"},
		{strings.Replace(minimal("", "", ""), `"a b"`, `"b a"`, 1), "model.merges[0]"},
		{strings.Replace(minimal("", "", ""), `"ab":256`, `"ab":255`, 1), "share id 255"},
		{strings.Replace(minimal("", "", ""), `"ab":256`, `"ab":-1`, 1), "outside 0"},
		{strings.Replace(minimal("", "", ""), `"ab":256`, `"ab":2000000000`, 1), "outside 0"},
		{strings.Replace(minimal("", "", ""), `"a":97`, `"ax":97`, 1), "byte 0x61"},
		{minimal(`,"added_tokens":[{"id":97,"content":"x"}]`, "", ""), `that of "a"`},
		{minimal(`,"added_tokens":[{"id":256,"content":"ab","special":true}]`, "", ""), "making of the special token"},
	} {
		_, err := Parse([]byte(c.text))
		require.ErrorContains(t, err, c.want)
	}
	_, err := Load(filepath.Join(t.TempDir(), "tokenizer.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTrainStopsWhenEveryWordIsOneToken(t *testing.T) {
	corpus := []string{"How many bars are taller than B?", "How many bars are shorter than C?", "<|im_end|>", `{"question": "How many bars?"}`}
	out, err := Train(slices.Values(corpus), TrainOptions{VocabSize: 4000, Specials: specials, Added: []string{`{"question": "`, `"}`}})
	require.NoError(t, err)
	tok, err := Parse(out)
	require.NoError(t, err)
	require.Less(t, tok.VocabSize(), 500)
	require.Len(t, tok.Encode(corpus[0]), 8)
	require.Len(t, tok.Encode(corpus[2]), 1)
	require.Len(t, tok.Encode(corpus[3]), 6)
	last, ok := tok.ID(`"}`)
	require.True(t, ok)
	require.Equal(t, tok.VocabSize()-1, int(last))

	small, err := Train(slices.Values(corpus), TrainOptions{VocabSize: 270, Specials: specials})
	require.NoError(t, err)
	tok, err = Parse(small)
	require.NoError(t, err)
	require.Equal(t, 270, tok.VocabSize())
}

func TestTrainRefuses(t *testing.T) {
	none := slices.Values([]string{})
	for _, c := range []struct {
		opts TrainOptions
		want string
	}{
		{TrainOptions{VocabSize: 200}, "less than 256"},
		{TrainOptions{VocabSize: 400, Specials: []string{"<x>", "<x>"}}, "given twice"},
		{TrainOptions{VocabSize: 400, Added: []string{""}}, "is empty"},
		{TrainOptions{VocabSize: 400, Added: []string{"a"}}, "spelling of a byte"},
		{TrainOptions{VocabSize: 400, Pattern: "("}, "pattern"},
	} {
		_, err := Train(none, c.opts)
		require.ErrorContains(t, err, c.want)
	}
	out, err := Train(none, TrainOptions{VocabSize: 400})
	require.NoError(t, err)
	tok, err := Parse(out)
	require.NoError(t, err)
	require.Equal(t, 256, tok.VocabSize())
}

func BenchmarkEncode(b *testing.B) {
	path := tokenizertest.Qwen(b, "qwen3")
	tok, err := Load(path)
	require.NoError(b, err)
	for name, line := range map[string]string{
		"english": "The quick brown fox jumps over the lazy dog; x = 3.14159 * r**2\n",
		"chinese": "敏捷的棕色狐狸跳过了懒狗，然后在第3天回到了家。\n",
	} {
		text := strings.Repeat(line, 1000)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text)
			}
		})
	}
	b.Run("one word", func(b *testing.B) {
		text := strings.Repeat("ab", 1<<15) // without a break: the merges' worst case
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			tok.Encode(text)
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	path := tokenizertest.Qwen(b, "qwen3")
	for b.Loop() {
		if _, err := Load(path); err != nil {
			b.Fatal(err)
		}
	}
}
