package experiment

import (
	"errors"
	"fmt"
	"strings"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Sentinels that adapters translate their own errors into, and that the HTTP layer turns into statuses.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnsupported = errors.New("not supported")
	ErrInvalid     = errors.New("invalid")
)

// InvalidError lists the invalid fields of a request. It matches ErrInvalid.
type InvalidError struct{ Fields []spec.FieldError }

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Error()
	}
	return strings.Join(parts, "; ")
}

// Is reports whether target is ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Invalid is an InvalidError of one field.
func Invalid(field, format string, args ...any) error {
	return &InvalidError{Fields: []spec.FieldError{{Field: field, Message: fmt.Sprintf(format, args...)}}}
}

// FieldErrors collects every spec.FieldError joined or wrapped in err, in order.
func FieldErrors(err error) []spec.FieldError {
	switch e := err.(type) { //nolint:errorlint // errors.As would find the first only; this walks the whole tree
	case nil:
		return nil
	case spec.FieldError:
		return []spec.FieldError{e}
	case *spec.FieldError:
		return []spec.FieldError{*e}
	case *InvalidError:
		return e.Fields
	case interface{ Unwrap() []error }:
		var all []spec.FieldError
		for _, inner := range e.Unwrap() {
			all = append(all, FieldErrors(inner)...)
		}
		return all
	case interface{ Unwrap() error }:
		return FieldErrors(e.Unwrap())
	}
	return nil
}
