package endpoint

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/imageproc"
)

// The request and reply of /chat/completions, as far as the servers named in docs/verifier.md agree on them.
type (
	chatRequest struct {
		Model       string    `json:"model"`
		Messages    []message `json:"messages"`
		Temperature float64   `json:"temperature"`
		TopP        float64   `json:"top_p"`
		TopK        int       `json:"top_k,omitempty"` // not of OpenAI's API; only sent where it is set
		MaxTokens   int       `json:"max_tokens"`
		Seed        uint32    `json:"seed"`
	}
	message struct {
		Role    string `json:"role"`
		Content any    `json:"content"` // a text, or parts
	}
	part struct {
		Type     string    `json:"type"`
		Text     string    `json:"text,omitempty"`
		ImageURL *imageURL `json:"image_url,omitempty"`
	}
	imageURL struct {
		URL string `json:"url"`
	}
	chatReply struct {
		Choices []struct {
			Message struct {
				Content          *string `json:"content"`
				ReasoningContent string  `json:"reasoning_content"`
				Reasoning        string  `json:"reasoning"`
			} `json:"message"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
)

// body is the request of one sample.
func (c *Client) body(r engine.Request, sample int) ([]byte, error) {
	if r.Prompt.Prefix != "" {
		return nil, errors.New("an endpoint cannot go on from an opened turn; set the role's thinking to another mode than prefix")
	}
	q := chatRequest{Model: c.config.Model, Temperature: r.Sampling.Temperature, TopP: r.Sampling.TopP, TopK: r.Sampling.TopK, MaxTokens: r.Sampling.MaxTokens, Seed: seed(r.Key, sample)}
	if r.Prompt.System != "" {
		q.Messages = append(q.Messages, message{"system", r.Prompt.System})
	}
	user := message{"user", r.Prompt.User}
	if r.Prompt.Image != "" {
		url, ok := c.images[r.Prompt.Image]
		if !ok {
			return nil, fmt.Errorf("image %q is not loaded; call LoadImage first", r.Prompt.Image)
		}
		user.Content = []part{{Type: "image_url", ImageURL: &imageURL{url}}, {Type: "text", Text: r.Prompt.User}}
	}
	q.Messages = append(q.Messages, user)
	return json.Marshal(q)
}

// seed makes a server that heeds it draw the same for the same call.
func seed(k engine.Key, sample int) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d %d %s %d %d %d %d", k.Seed, k.Step, k.Role, k.Slot, k.Index, k.Attempt, sample)
	return h.Sum32() >> 1 // some servers read a signed number
}

// completion reads a reply.
func completion(b []byte) (engine.Completion, error) {
	var r chatReply
	if err := json.Unmarshal(b, &r); err != nil {
		return engine.Completion{}, fmt.Errorf("the reply is no JSON of a chat completion: %w", err)
	}
	if len(r.Choices) == 0 {
		return engine.Completion{}, fmt.Errorf("the reply has no choices: %s", excerpt(b))
	}
	choice := r.Choices[0]
	out := engine.Completion{Truncated: choice.FinishReason == "length", Counted: max(r.Usage.CompletionTokens, 0)}
	thought := choice.Message.ReasoningContent + choice.Message.Reasoning // servers know it by either name
	if thought != "" {
		out.Text = "<think>\n" + thought + "\n</think>\n"
	}
	switch {
	case choice.Message.Content != nil:
		out.Text += *choice.Message.Content
	case thought == "":
		return out, fmt.Errorf("the reply's message has no content: %s", excerpt(b))
	}
	return out, nil
}

// dataURL embeds an image as the policy sees it before resizing.
func dataURL(encoded []byte) (string, error) {
	rgb, err := imageproc.Decode(bytes.NewReader(encoded), imageproc.Limits{})
	if err != nil {
		return "", err
	}
	mime := "image/png"
	if !bytes.HasPrefix(encoded, []byte("\x89PNG")) || !opaque(encoded) {
		if encoded, err = asPNG(rgb); err != nil {
			return "", err
		}
	}
	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(encoded), nil
}

// opaque says whether a PNG has no transparent pixel.
func opaque(encoded []byte) bool {
	img, err := png.Decode(bytes.NewReader(encoded))
	o, ok := img.(interface{ Opaque() bool })
	return err == nil && ok && o.Opaque()
}

func asPNG(p *imageproc.RGB) ([]byte, error) {
	img := image.NewNRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		img.Set(i%p.Width, i/p.Width, color.NRGBA{R: p.Pix[3*i], G: p.Pix[3*i+1], B: p.Pix[3*i+2], A: 255})
	}
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return b.Bytes(), err
}
