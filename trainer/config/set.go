package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Set changes one setting from text such as "gspo.clip_low=3e-4". The error is a spec.FieldError.
func Set(cfg *spec.Config, assignment string) error {
	key, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return spec.FieldError{Field: assignment, Message: "has no value; write key.path=value"}
	}
	return SetValue(cfg, strings.TrimSpace(key), strings.TrimSpace(value))
}

// SetValue changes one setting to a value that has been read from JSON or a form: string, bool, json.Number, a number.
func SetValue(cfg *spec.Config, key string, value any) error {
	v := reflect.ValueOf(cfg).Elem()
	parts := strings.Split(key, ".")
	for i, part := range parts {
		next, ok := reflect.Value{}, false
		if v.Kind() == reflect.Struct {
			next, ok = member(v, part)
		}
		if !ok {
			return spec.FieldError{Field: key, Message: "is not a setting" + suggestKey(key)}
		}
		if v = next; i == len(parts)-1 && v.Kind() == reflect.Struct {
			return spec.FieldError{Field: key, Message: "is a group of settings; set one of " + strings.Join(prefixed(key+".", members(v)), ", ")}
		}
	}
	s, err := text(value)
	if err == nil {
		err = assign(v, s)
	}
	if err != nil {
		return spec.FieldError{Field: key, Message: err.Error()}
	}
	return nil
}

// Apply makes every assignment, then validates the whole. The error joins a spec.FieldError for each fault.
func Apply(cfg *spec.Config, assignments ...string) error {
	var errs []error
	for _, a := range assignments {
		if err := Set(cfg, a); err != nil {
			errs = append(errs, err)
		}
	}
	if err := cfg.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ApplyValues is Apply for a JSON object of dotted keys.
func ApplyValues(cfg *spec.Config, values map[string]any) error {
	var errs []error
	names := make([]string, 0, len(values))
	for key := range values {
		names = append(names, key)
	}
	slices.Sort(names)
	for _, key := range names {
		if err := SetValue(cfg, key, values[key]); err != nil {
			errs = append(errs, err)
		}
	}
	if err := cfg.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Faults flattens an error of this package or of spec.Config.Validate to its field errors; other errors have no field.
func Faults(err error) []spec.FieldError {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []spec.FieldError
		for _, e := range joined.Unwrap() {
			out = append(out, Faults(e)...)
		}
		return out
	}
	var field spec.FieldError
	if errors.As(err, &field) {
		return []spec.FieldError{field}
	}
	return []spec.FieldError{{Message: err.Error()}}
}

func text(value any) (string, error) {
	switch x := value.(type) {
	case string:
		return x, nil
	case json.Number:
		return x.String(), nil
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64), nil
	case bool, int, int64, uint64:
		return fmt.Sprint(x), nil
	}
	return "", fmt.Errorf("has a value of type %T; give a text, a number, true or false", value)
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}
