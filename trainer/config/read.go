package config

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Error is one fault in a configuration file.
type Error struct {
	File string
	Line int
	spec.FieldError
}

func (e Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.FieldError.Error()) }

// Unwrap lets callers find the spec.FieldError.
func (e Error) Unwrap() error { return e.FieldError }

// reader fills a Config from a YAML tree and collects every fault on the way.
type reader struct {
	file string
	errs []error
}

func (r *reader) fail(line int, field, format string, args ...any) {
	r.errs = append(r.errs, Error{r.file, line, spec.FieldError{Field: field, Message: fmt.Sprintf(format, args...)}})
}

func (r *reader) mapping(cfg *spec.Config, root *yaml.Node) {
	r.section(reflect.ValueOf(cfg).Elem(), root, "")
}

// section reads a mapping into a struct; prefix is the dotted key so far, with its dot.
func (r *reader) section(v reflect.Value, n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, label(prefix), "is not a mapping; write keys and values below it")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := prefix + key.Value
		field, ok := member(v, key.Value)
		switch {
		case !ok:
			r.fail(key.Line, name, "is not a setting%s", suggest(key.Value, members(v)))
		case seen[key.Value]:
			r.fail(key.Line, name, "is given twice; keep one")
		case value.Kind == yaml.AliasNode || value.Anchor != "":
			r.fail(value.Line, name, "uses an anchor or alias; write the value out")
		case field.Kind() == reflect.Struct:
			r.section(field, value, name+".")
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			r.fail(value.Line, name, "has no single value; give %s", typeName(field))
		case field.Kind() == reflect.String && value.Tag != "!!str":
			r.fail(value.Line, name, "is %s; put it in quotes to make it text", value.Value)
		case field.Kind() != reflect.String && value.Tag == "!!str":
			r.fail(value.Line, name, "is the text %q; give %s", value.Value, typeName(field))
		default:
			if err := assign(field, value.Value); err != nil {
				r.fail(value.Line, name, "%v", err)
			}
		}
		seen[key.Value] = true
	}
}

func label(prefix string) string {
	if prefix == "" {
		return "configuration"
	}
	return prefix[:len(prefix)-1]
}
