package local

import (
	"fmt"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/tokenizer"
)

// template renders prompts as Qwen3-VL's chat template does: a system turn only where one is given, then the user's turn
// with the image before the text. Text of people and models is encoded without special tokens, so that it cannot forge a turn.
type template struct {
	tokens                                    *tokenizer.Tokenizer
	start, end, visionStart, visionEnd, image int32
	stops                                     []int32
}

func newTemplate(c *qwenvl.Config, t *tokenizer.Tokenizer) (template, error) {
	p := template{tokens: t, visionStart: c.VisionStartTokenID, visionEnd: c.VisionEndTokenID, image: c.ImageTokenID}
	for _, special := range []struct {
		text string
		id   *int32
	}{{"<|im_start|>", &p.start}, {"<|im_end|>", &p.end}} {
		id, ok := t.ID(special.text)
		if !ok {
			return p, fmt.Errorf("tokenizer.json lacks the token %s, which the chat template needs", special.text)
		}
		*special.id = id
	}
	p.stops = []int32{p.end}
	if id, ok := t.ID("<|endoftext|>"); ok {
		p.stops = append(p.stops, id)
	}
	return p, nil
}

// render returns the tokens that prompts of one image share, up to and including the image of n tokens (none without an
// image), and the rest up to where the completion begins.
func (p *template) render(q engine.Prompt, n int) (prefix, rest []int32) {
	var out []int32
	if q.System != "" {
		out = append(out, p.start)
		out = append(out, p.tokens.EncodePlain("system\n"+q.System)...)
		out = append(out, p.end)
		out = append(out, p.tokens.EncodePlain("\n")...)
	}
	out = append(out, p.start)
	out = append(out, p.tokens.EncodePlain("user\n")...)
	if q.Image != "" {
		out = append(out, p.visionStart)
		for range n {
			out = append(out, p.image)
		}
		prefix = append(out, p.visionEnd)
		out = nil
	}
	out = append(out, p.tokens.EncodePlain(q.User)...)
	out = append(out, p.end)
	out = append(out, p.tokens.EncodePlain("\n")...)
	out = append(out, p.start)
	out = append(out, p.tokens.EncodePlain("assistant\n"+q.Prefix)...)
	return prefix, out
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
