package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/jinja"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/tokenizer"
)

// template renders prompts as the checkpoint's chat template does. That is run once for every shape of a prompt, on marks in
// place of what is said: it can neither see nor change the text of people and models, which is encoded without
// special tokens, so that no text can forge a turn.
type template struct {
	tokens *tokenizer.Tokenizer
	image  int32
	turns  map[shape]turn
	end    int32 // ends the assistant's turn
}

// shape is what the form of a prompt depends on.
type shape struct{ system, image bool }

// turn is a rendered prompt. The pieces up to shared are common to prompts that agree on the system message and the image.
type turn struct {
	pieces []piece
	shared int
}

// piece is a special token, or text of the template's, or what is said by one of the speakers.
type piece struct {
	kind  pieceKind
	token int32
	text  string
	says  speaker
	// trimLeft and trimRight: the template drops white space around what is said.
	trimLeft, trimRight bool
}

type pieceKind int

const (
	special pieceKind = iota
	literal
	spoken
)

type speaker string

const (
	system    speaker = "system"
	user      speaker = "user"
	assistant speaker = "assistant"
)

// defaultTemplate is that of folders without one: ChatML with Qwen3-VL's images.
const defaultTemplate = `{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// readTemplate finds a folder's chat template where transformers does, and says in which file. Without one it returns the
// default and no file.
func readTemplate(dir string) (source, file string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if !errors.Is(err, fs.ErrNotExist) {
		return string(b), "chat_template.jinja", err
	}
	for _, file := range []string{"chat_template.json", "tokenizer_config.json"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", file, err
		}
		if source, err = templateField(b); err != nil || source != "" {
			return source, file, err
		}
	}
	return defaultTemplate, "", nil
}

// templateField reads the field chat_template: a text, or several of which one is named default.
func templateField(b []byte) (string, error) {
	var f struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(b, &f); err != nil || f.Template == nil {
		return "", err
	}
	var one string
	if json.Unmarshal(f.Template, &one) == nil {
		return one, nil
	}
	var several []struct{ Name, Template string }
	if err := json.Unmarshal(f.Template, &several); err != nil {
		return "", fmt.Errorf("chat_template: %w", err)
	}
	for _, t := range several {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", errors.New(`chat_template: none of the templates is named "default"`)
}

func newTemplate(source string, c *qwenvl.Config, t *tokenizer.Tokenizer) (template, error) {
	p := template{tokens: t, image: c.ImageTokenID, turns: map[shape]turn{}}
	parsed, err := jinja.Parse(source)
	if err != nil {
		return p, err
	}
	for _, s := range []shape{{}, {system: true}, {image: true}, {system: true, image: true}} {
		var messages []any
		if s.system {
			messages = append(messages, message(system, mark(system)))
		}
		var content any = mark(user)
		if s.image {
			content = []any{jinja.Dict{{Key: "type", Value: "image"}}, jinja.Dict{{Key: "type", Value: "text"}, {Key: "text", Value: mark(user)}}}
		}
		pieces, err := p.cut(parsed, append(messages, message(user, content)), true)
		if err != nil {
			return p, err
		}
		if p.turns[s], err = p.turn(pieces, s); err != nil {
			return p, err
		}
	}
	p.end, err = p.endOfTurn(parsed)
	return p, err
}

func message(s speaker, content any) jinja.Dict {
	return jinja.Dict{{Key: "role", Value: string(s)}, {Key: "content", Value: content}}
}

// mark stands for what a speaker says, in white space that shows whether the template trims it.
func mark(s speaker) string { return " \n" + bareMark(s) + "\n " }

func bareMark(s speaker) string { return "\U000f5000" + string(s) + "\U000f5001" }

var (
	marks        = regexp.MustCompile("( \n)?\U000f5000([a-z]+)\U000f5001(\n )?")
	specialToken = regexp.MustCompile(`<\|[a-zA-Z0-9_]+\|>`)
)

// cut renders messages and takes the result apart.
func (p *template) cut(t *jinja.Template, messages []any, prompt bool) ([]piece, error) {
	text, err := t.Render(jinja.Dict{{Key: "messages", Value: messages}, {Key: "add_generation_prompt", Value: prompt}})
	if err != nil {
		return nil, err
	}
	var out []piece
	said := func(text string) {
		at := 0
		for _, m := range marks.FindAllStringSubmatchIndex(text, -1) {
			out = append(out, piece{kind: literal, text: text[at:m[0]]})
			out = append(out, piece{kind: spoken, says: speaker(text[m[4]:m[5]]), trimLeft: m[2] < 0, trimRight: m[6] < 0})
			at = m[1]
		}
		out = append(out, piece{kind: literal, text: text[at:]})
	}
	p.tokens.CutSpecial(text, said, func(id int32) { out = append(out, piece{kind: special, token: id}) })
	for _, x := range out {
		if name := specialToken.FindString(x.text); name != "" {
			return nil, fmt.Errorf("it writes %s, which is not a special token of tokenizer.json", name)
		}
	}
	return out, nil
}

// turn checks that a prompt shows what was said and the image once each, and finds what prompts of one image share.
func (p *template) turn(pieces []piece, s shape) (turn, error) {
	t := turn{pieces: pieces}
	images, said := 0, map[speaker]int{}
	for i, x := range pieces {
		switch {
		case x.kind == spoken:
			said[x.says]++
		case x.kind == special && x.token == p.image:
			images++
			t.shared = i + 1
		}
	}
	if said[user] != 1 || s.system && said[system] != 1 {
		return t, errors.New("it does not show the system's and the user's message once each")
	}
	if want := map[bool]int{true: 1}[s.image]; images != want {
		return t, fmt.Errorf("it shows %d images where the user shows %d", images, want)
	}
	// Special tokens that close the image are shared, too. A stretch of empty text lies between two of them.
	for s.image && t.shared < len(pieces) && (pieces[t.shared].kind == special || pieces[t.shared] == piece{kind: literal}) {
		t.shared++
	}
	for _, x := range pieces[:t.shared] {
		if x.kind == spoken && x.says == user {
			return t, errors.New("it puts the user's text before the image, which comes first")
		}
	}
	return t, nil
}

// endOfTurn is the special token that follows what the assistant says.
func (p *template) endOfTurn(t *jinja.Template) (int32, error) {
	pieces, err := p.cut(t, []any{message(user, mark(user)), message(assistant, mark(assistant))}, false)
	if err != nil {
		return 0, err
	}
	spoke := false
	for _, x := range pieces {
		switch {
		case x.kind == spoken && x.says == assistant:
			spoke = true
		case x.kind == special && spoke:
			return x.token, nil
		}
	}
	return 0, errors.New("it ends the assistant's turn with no special token")
}

// render returns the tokens that prompts of one image share, up to and including the image of n tokens (none without an
// image), and the rest up to where the completion begins.
func (p *template) render(q engine.Prompt, n int) (prefix, rest []int32) {
	t := p.turns[shape{q.System != "", q.Image != ""}]
	said := map[speaker]string{system: q.System, user: q.User}
	prefix = p.encode(nil, t.pieces[:t.shared], said, n, "")
	return prefix, p.encode(nil, t.pieces[t.shared:], said, n, q.Prefix)
}

// encode appends the tokens of pieces and, after them, of more. Text that no special token parts is encoded as one.
func (p *template) encode(out []int32, pieces []piece, said map[speaker]string, n int, more string) []int32 {
	var text strings.Builder
	flush := func() {
		out = append(out, p.tokens.EncodePlain(text.String())...)
		text.Reset()
	}
	for _, x := range pieces {
		switch x.kind {
		case literal:
			text.WriteString(x.text)
		case spoken:
			v := said[x.says]
			if x.trimLeft {
				v = strings.TrimLeft(v, " \t\n\r\f\v")
			}
			if x.trimRight {
				v = strings.TrimRight(v, " \t\n\r\f\v")
			}
			text.WriteString(v)
		case special:
			flush()
			times := 1
			if x.token == p.image {
				times = n
			}
			for range times {
				out = append(out, x.token)
			}
		}
	}
	text.WriteString(more)
	flush()
	return out
}

// Encode returns the tokens of a completion followed by the end of the turn, as a supervised target.
func (e *Engine) Encode(completion string) []int32 {
	return append(e.tokens.EncodePlain(completion), e.template.end)
}

// Inputs returns a prompt as the model reads it, up to where the completion begins: its tokens and, where it has one, its
// image. Other implementations are compared on them.
func (e *Engine) Inputs(p engine.Prompt) ([]int32, *qwenvl.Image, error) {
	n, err := e.imageTokens(p.Image)
	if err != nil {
		return nil, nil, err
	}
	prefix, rest := e.template.render(p, n)
	if p.Image == "" {
		return rest, nil, nil
	}
	return append(prefix, rest...), &e.images[p.Image].input, nil
}
