package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Field is one setting, for a form.
type Field struct {
	Key     string   `json:"key"`               // dotted, such as "gspo.clip_low"
	Group   string   `json:"group"`             // the part before the first dot; empty for top-level settings
	Type    string   `json:"type"`              // "text", "integer", "number" or "boolean"
	Value   string   `json:"value"`             // as Set takes it
	Choices []string `json:"choices,omitempty"` // where only these are allowed
	Help    string   `json:"help"`
}

// Fields lists every setting of cfg in the order of spec.Config.
func Fields(cfg spec.Config) []Field {
	var out []Field
	walk(reflect.ValueOf(&cfg).Elem(), "", func(key string, v reflect.Value) {
		group, _, nested := strings.Cut(key, ".")
		if !nested {
			group = ""
		}
		out = append(out, Field{Key: key, Group: group, Type: formType(v), Value: format(v), Choices: choices(key), Help: help(key)})
	})
	return out
}

// walk visits the leaves of a struct with their dotted keys.
func walk(v reflect.Value, prefix string, visit func(string, reflect.Value)) {
	for i := range v.NumField() {
		key := prefix + tag(v.Type().Field(i))
		if v.Field(i).Kind() == reflect.Struct {
			walk(v.Field(i), key+".", visit)
		} else {
			visit(key, v.Field(i))
		}
	}
}

func tag(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// member finds a struct's field by key.
func member(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tag(v.Type().Field(i)) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func members(v reflect.Value) []string {
	names := make([]string, v.NumField())
	for i := range names {
		names[i] = tag(v.Type().Field(i))
	}
	return names
}

func keys() []string {
	var out []string
	walk(reflect.ValueOf(new(spec.Config)).Elem(), "", func(key string, _ reflect.Value) { out = append(out, key) })
	return out
}

// assign parses s into a field.
func assign(v reflect.Value, s string) error {
	bad := func() error { return fmt.Errorf("is %q; give %s", s, typeName(v)) }
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return bad()
		}
		v.SetBool(b)
	case reflect.Int:
		n, err := strconv.ParseInt(s, 10, strconv.IntSize)
		if err != nil {
			return bad()
		}
		v.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return bad()
		}
		v.SetUint(n)
	case reflect.Float64:
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return bad()
		}
		v.SetFloat(x)
	default:
		return fmt.Errorf("has type %s, which cannot be set", v.Type())
	}
	return nil
}

func format(v reflect.Value) string {
	if v.Kind() == reflect.Float64 {
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

func formType(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	return "text"
}

func typeName(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number, 0 or more"
	case reflect.Float64:
		return "a finite number"
	}
	return "a text"
}
