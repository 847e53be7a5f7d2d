package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// golden.json is made by testdata/make.py with transformers' own rendering.
func TestRenderMatchesTransformers(t *testing.T) {
	b, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var cases []struct {
		File, Template string
		Variables      json.RawMessage
		Want           *string
	}
	require.NoError(t, json.Unmarshal(b, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		source := c.Template
		if c.File != "" {
			b, err := os.ReadFile(filepath.Join("testdata/trl", c.File+".jinja"))
			require.NoError(t, err)
			source = string(b)
		}
		name := fmt.Sprintf("%s%s %s", c.File, c.Template, c.Variables)
		got, err := render(source, value(t, c.Variables).(Dict))
		if c.Want == nil {
			require.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, *c.Want, got, name)
	}
}

func render(source string, variables Dict) (string, error) {
	tpl, err := Parse(source)
	if err != nil {
		return "", err
	}
	return tpl.Render(variables)
}

// value decodes JSON into a template's values, mappings in their order.
func value(t *testing.T, b json.RawMessage) any {
	b = bytes.TrimSpace(b)
	switch b[0] {
	case '{':
		d := json.NewDecoder(bytes.NewReader(b))
		out := Dict{}
		_, err := d.Token()
		require.NoError(t, err)
		for d.More() {
			key, err := d.Token()
			require.NoError(t, err)
			var v json.RawMessage
			require.NoError(t, d.Decode(&v))
			out = append(out, Entry{key.(string), value(t, v)})
		}
		return out
	case '[':
		var list []json.RawMessage
		require.NoError(t, json.Unmarshal(b, &list))
		out := []any{}
		for _, v := range list {
			out = append(out, value(t, v))
		}
		return out
	}
	var n int
	if json.Unmarshal(b, &n) == nil && string(b) != "null" {
		return n
	}
	var v any
	require.NoError(t, json.Unmarshal(b, &v))
	return v
}

func TestRefusesByName(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{"a\n{% include 'x' %}", `line 2: the statement "include" is not supported`},
		{"{% import 'os' as os %}", `"import" is not supported`},
		{"{% macro m() %}{% endmacro %}", `"macro" is not supported`},
		{"{{ strftime_now('%Y') }}", `the function "strftime_now" is not supported`},
		{"{{ x | attr('y') }}", `the filter "attr" is not supported`},
		{"{{ x is divisibleby(3) }}", `the test "divisibleby" is not supported`},
		{"{{ 'a'.format(1) }}", "format: this method of a string is not supported"},
		{"{{ 2 ** 3 }}", "** is not supported"},
		{"{{ [1] }}", "a list written as text is not supported"},
		{"{{ {} | tojson(indent=2) }}", "some arguments of tojson are not supported"},
		{"{{ x.__class__.__mro__ }}", "x is undefined"},
		{"{{ ''.__class__ }}{{ ''.__class__.y }}", "__class__ is undefined"},
		{"{% for x in [1] recursive %}{% endfor %}", "a recursive loop is not supported"},
		{"{% if a %}", `where {% endif %} belongs`},
		{"{% endif %}", "without its beginning"},
		{"{% for x in y %}{% endif %}", `"endif" where endfor belongs`},
		{"{% break %}", "break outside a loop"},
		{"{{ 'a }}", "without its closing"},
		{"{{ a", "a tag without }}"},
		{"{# a", "a comment without end"},
		{"{{ a b }}", `"b" where }} belongs`},
		{"{{ }}", `where an expression belongs`},
		{"{{ a ? b }}", `unexpected character '?'`},
		{"{% set x.y = 1 %}", "x is not a namespace"},
		{"{% set a, b = [1] %}", "cannot be taken apart into a, b"},
		{"{{ 1 // 0 }}", "division by zero"},
		{"{{ raise_exception('only text') }}", "the template refuses these messages: only text"},
		{"{{ 9999999999999999999999 }}", "the number 9999999999999999999999 is not supported"},
	} {
		_, err := render(c.template, nil)
		require.ErrorContains(t, err, c.want, c.template)
	}
}

// Each of these would take minutes or the machine's memory without bounds.
func TestHostileTemplatesAreBounded(t *testing.T) {
	deep := strings.Repeat
	for name, template := range map[string]string{
		"doubling":       "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"adding":         "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"lists":          "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"range":          "{% for i in range(1000000000000) %}{% endfor %}",
		"loops":          deep("{% for i in range(1000) %}", 5) + "x" + deep("{% endfor %}", 5),
		"output":         "{% for i in range(100000) %}" + deep("x", 10000) + "{% endfor %}",
		"replace":        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s.replace('a', ns.s) %}{% endfor %}",
		"join":           "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = range(60) | join(ns.s) %}{% endfor %}",
		"block":          "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set b %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = b %}{% endfor %}",
		"equality":       "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
		"json":           "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson }}",
		"deep value":     "{% set ns = namespace(a=1, b=1) %}{% for i in range(10000) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
		"deep json":      "{% set ns = namespace(a=1) %}{% for i in range(10000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a | tojson }}",
		"parentheses":    "{{ " + deep("(", 50000) + "1" + deep(")", 50000) + " }}",
		"brackets":       "{{ " + deep("[", 50000) + deep("]", 50000) + " }}",
		"not":            "{{ " + deep("not ", 30000) + "1 }}",
		"minus":          "{{ " + deep("-", 50000) + "1 }}",
		"if":             deep("{% if 1 %}", 10000),
		"elif":           "{% if 1 %}" + deep("{% elif 1 %}", 8000) + "{% endif %}",
		"accesses":       "{{ a" + deep(".b", 50000) + " }}",
		"size":           deep("x", maxSource+1),
		"split":          "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s.split('a') | join(ns.s) %}{% endfor %}",
		"characters":     "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(21) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s | list | length }}",
		"slice":          "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(21) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s[::-1] }}",
		"search in long": "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(20) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{% for i in range(100000) %}{{ 'b' in ns.s }}{% endfor %}",
	} {
		begun := time.Now()
		_, err := render(template, nil)
		require.ErrorIs(t, err, ErrTooMuch, name)
		require.Less(t, time.Since(begun), 20*time.Second, name)
	}
	sum := "{{ 1" + deep("+1", 60000) + " }}" // long, and no harm
	got, err := render(sum, nil)
	require.NoError(t, err)
	require.Equal(t, "60001", got)
}

func FuzzRender(f *testing.F) {
	for _, name := range []string{"qwen2_5_vl", "qwen3_vl"} {
		b, err := os.ReadFile(filepath.Join("testdata/trl", name+".jinja"))
		require.NoError(f, err)
		f.Add(string(b))
	}
	f.Add("{% for a, b in d.items() if a is defined %}{{ a[::-1] ~ b|tojson }}{%- else -%}{# c #}{% endfor %}")
	f.Fuzz(func(t *testing.T, source string) {
		tpl, err := Parse(source)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		messages := []any{Dict{{"role", "user"}, {"content", []any{Dict{{"type", "image"}}, Dict{{"type", "text"}, {"text", "x"}}}}}}
		first, err1 := tpl.Render(Dict{{"messages", messages}, {"d", Dict{{"k", 1}}}})
		second, err2 := tpl.Render(Dict{{"messages", messages}, {"d", Dict{{"k", 1}}}})
		require.Equal(t, first, second)
		require.Equal(t, fmt.Sprint(err1), fmt.Sprint(err2))
	})
}
