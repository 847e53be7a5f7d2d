// Package prompt holds what is said to the model in each role, as templates filled with text from models.
package prompt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trinity-lab/trinity/configs"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Template is one role's prompt. Placeholders are {question}, {answer}, {reference}, {prediction}, {majority} and
// {reasoning}; all other braces are literal.
type Template struct {
	System string `yaml:"system"` // empty: no system message
	User   string `yaml:"user"`
	Image  bool   `yaml:"image"` // whether the role sees the image
}

// Set is every role's template.
type Set struct {
	Name        string   `yaml:"name"`
	Questioner  Template `yaml:"questioner"`  // F.1
	Solver      Template `yaml:"solver"`      // F.2
	Screening   Template `yaml:"screening"`   // F.3
	Reasoning   Template `yaml:"reasoning"`   // F.4
	Equivalence Template `yaml:"equivalence"` // F.5, text only
	Dispute     Template `yaml:"dispute"`     // F.6
}

// Values fill the placeholders.
type Values struct {
	Question   string
	Answer     string // proposed by the Questioner
	Reference  string // the answer to compare with
	Prediction string // a Solver's answer
	Majority   string // the Solvers' consensus
	Reasoning  string // a Solver's thinking
}

// Load reads an embedded set: "windtunnel" or "trinity".
func Load(name string) (Set, error) {
	text, err := configs.Prompts.ReadFile("prompts/" + name + ".yaml")
	if err != nil {
		return Set{}, fmt.Errorf("prompt set %q is unknown; use windtunnel or trinity", name)
	}
	return parse(name, text)
}

func parse(name string, text []byte) (Set, error) {
	var s Set
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil {
		return s, fmt.Errorf("prompt set %q: %w", name, err)
	}
	for role, want := range required {
		if err := check(role, s.template(role), want); err != nil {
			return s, fmt.Errorf("prompt set %q: %w", name, err)
		}
	}
	return s, nil
}

// required lists the placeholders that each role must show and no others may.
var required = map[string][]string{
	"questioner":  nil,
	"solver":      {"question"},
	"screening":   {"answer", "question"},
	"reasoning":   {"question", "reasoning"},
	"equivalence": {"prediction", "question", "reference"},
	"dispute":     {"majority", "question", "reasoning", "reference"},
}

func (s Set) template(role string) Template {
	switch role {
	case "questioner":
		return s.Questioner
	case "solver":
		return s.Solver
	}
	return s.Judge(spec.Judge(role))
}

// Judge returns the template of a Verifier prompt; the zero Template for an unknown judge.
func (s Set) Judge(j spec.Judge) Template {
	switch j {
	case spec.JudgeScreening:
		return s.Screening
	case spec.JudgeReasoning:
		return s.Reasoning
	case spec.JudgeEquivalence:
		return s.Equivalence
	case spec.JudgeDispute:
		return s.Dispute
	}
	return Template{}
}

var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

func check(role string, t Template, want []string) error {
	if t.User == "" {
		return fmt.Errorf("%s: user text is missing", role)
	}
	var got []string
	for _, m := range placeholder.FindAllStringSubmatch(t.System+t.User, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		return fmt.Errorf("%s: has the placeholders %v; it takes %v", role, got, want)
	}
	return nil
}

// Render fills the placeholders in one pass: a placeholder inside a value stays as it is, since values are hostile text.
func (t Template) Render(v Values) (system, user string) {
	r := strings.NewReplacer("{question}", v.Question, "{answer}", v.Answer, "{reference}", v.Reference,
		"{prediction}", v.Prediction, "{majority}", v.Majority, "{reasoning}", v.Reasoning)
	return r.Replace(t.System), r.Replace(t.User)
}

// Hash is the SHA-256 of the template, hexadecimal: it names the prompt version in a judgement.
func (t Template) Hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s\n%d\n%s\n%t\n", len(t.System), t.System, len(t.User), t.User, t.Image)
	return hex.EncodeToString(h.Sum(nil))
}
