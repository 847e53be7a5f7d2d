package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/tokenizer"
	"github.com/trinity-lab/trinity/trainer/tokenizer/tokenizertest"
)

const trlTemplates = "../../jinja/testdata/trl/"

// testdata/prompts.json is made by testdata/make.py with transformers' AutoProcessor.
func TestPromptsMatchTransformers(t *testing.T) {
	b, err := os.ReadFile("testdata/prompts.json")
	require.NoError(t, err)
	var rows []struct {
		Name, Template, System, User string
		Images                       int
		IDs                          []int32
	}
	require.NoError(t, json.Unmarshal(b, &rows))
	require.NotEmpty(t, rows)
	templates := map[string]template{}
	for _, r := range rows {
		p, ok := templates[r.Name]
		if !ok {
			tok, err := tokenizer.Load(tokenizertest.Qwen(t, r.Name))
			require.NoError(t, err)
			source, err := os.ReadFile(trlTemplates + r.Template + ".jinja")
			require.NoError(t, err)
			p, err = newTemplate(string(source), &qwenvl.Config{ImageTokenID: 151655}, tok)
			require.NoError(t, err)
			templates[r.Name] = p
		}
		q := engine.Prompt{System: r.System, User: r.User}
		if r.Images > 0 {
			q.Image = "image"
		}
		prefix, rest := p.render(q, r.Images)
		require.Equal(t, r.IDs, append(prefix, rest...), "%s %+v", r.Name, q)
		if r.Images > 0 {
			require.Equal(t, int32(151653), prefix[len(prefix)-1], "what prompts of an image share ends with <|vision_end|>")
		}
		require.Equal(t, int32(151645), p.end)
	}
}

func TestTemplateOfFolder(t *testing.T) {
	dir := t.TempDir()
	find := func() (string, string) {
		source, file, err := readTemplate(dir)
		require.NoError(t, err)
		return source, file
	}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	expect := func(wantSource, wantFile string) {
		source, file := find()
		require.Equal(t, []string{wantSource, wantFile}, []string{source, file})
	}
	expect(defaultTemplate, "")
	write("tokenizer_config.json", `{"model_max_length":1}`)
	expect(defaultTemplate, "")
	write("tokenizer_config.json", `{"chat_template":[{"name":"tools","template":"t"},{"name":"default","template":"d"}]}`)
	expect("d", "tokenizer_config.json")
	write("tokenizer_config.json", `{"chat_template":"a"}`)
	expect("a", "tokenizer_config.json")
	write("chat_template.json", `{"chat_template":"b"}`)
	expect("b", "chat_template.json")
	write("chat_template.jinja", "c")
	expect("c", "chat_template.jinja")
	require.NoError(t, os.Remove(filepath.Join(dir, "chat_template.jinja")))
	write("chat_template.json", `{"chat_template":[{"name":"tools","template":"t"}]}`)
	_, _, err := readTemplate(dir)
	require.ErrorContains(t, err, `named "default"`)
}

func TestTemplatesAreRefused(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{"{{ messages | xyz }}", `the filter "xyz" is not supported`},
		{"{% for m in messages %}<|im_start|>x{% endfor %}", "once each"},
		{"{{ raise_exception('no images') }}", "no images"},
		{"{% for m in messages %}<|start|>{{ m.content }}{% endfor %}", "<|start|>, which is not a special token"},
		{"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[1].text }}{% endif %}{% endfor %}", "it shows 0 images"},
		{"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[1].text }}<|image_pad|>{% endif %}{% endfor %}", "before the image"},
		{"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}<|image_pad|>{{ m.content[1].text }}{% endif %}{% endfor %}", "no special token"},
	} {
		dir := newModel(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(c.template), 0o644))
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "chat_template.jinja")
	}
}

// A template that trims what is said is followed, and so is one with a system message of its own.
func TestTemplateShapesPrompts(t *testing.T) {
	dir := newModel(t)
	const source = `{% if messages[0].role != 'system' %}<|im_start|>by default<|im_end|>{% endif %}{% for m in messages %}<|im_start|>{% if m.content is string %}{{ m.content | trim }}{% else %}<|image_pad|>{{ m.content[1].text }}{% endif %}<|im_end|>{% endfor %}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(source), 0o644))
	e := open(t, dir, "lora", 1)
	spell := func(q engine.Prompt) string {
		prefix, rest := e.template.render(q, 2)
		return e.tokens.Decode(prefix) + "|" + e.tokens.Decode(rest)
	}
	require.Equal(t, "|<|im_start|>by default<|im_end|><|im_start|>a<|im_end|>", spell(engine.Prompt{User: " a\n"}))
	require.Equal(t, "<|im_start|>s<|im_end|><|im_start|><|image_pad|><|image_pad|>| a\n<|im_end|>p", spell(engine.Prompt{System: "s ", User: " a\n", Image: "i", Prefix: "p"}))
}

func TestDefaultsOfFolder(t *testing.T) {
	read := func(text string) (Defaults, error) {
		d := Defaults{}
		return d, d.parse([]byte(text), 200000)
	}
	d := Defaults{}
	require.NoError(t, d.parse([]byte(`{"do_sample":true,"eos_token_id":[151645,151643],"top_k":20,"top_p":0.8,"repetition_penalty":1.05,"temperature":0.7,"num_beams":1}`), 200000))
	require.Equal(t, []int32{151645, 151643}, d.stops)
	require.Equal(t, []float64{0.7, 0.8, 20}, []float64{d.Sampling.Temperature, d.Sampling.TopP, float64(d.Sampling.TopK)})
	require.Equal(t, []string{"repetition_penalty 1.05"}, d.Ignored)
	d = Defaults{}
	require.NoError(t, d.parse([]byte(`{"eos_token_id":7,"temperature":0.7}`), 8), "without do_sample decoding is greedy")
	require.Zero(t, d.Sampling.Temperature)
	require.Equal(t, []int32{7}, d.stops)
	for text, want := range map[string]string{
		`[`:                                  "unexpected end",
		`{"eos_token_id":"x"}`:               "eos_token_id",
		`{"eos_token_id":[200000]}`:          "ids 0 to 199999",
		`{"do_sample":true,"top_p":0}`:       "top_p is 0",
		`{"do_sample":true,"top_k":-1}`:      "top_k is -1",
		`{"do_sample":true,"temperature":0}`: "temperature is 0",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, want)
	}
	dir := newModel(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id":3}`), 0o644))
	e := open(t, dir, "lora", 1)
	end, ok := e.tokens.ID("<|im_end|>")
	require.True(t, ok)
	require.Equal(t, []int32{end, 3}, e.stops())
}
