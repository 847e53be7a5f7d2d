package httpd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/trinity-lab/trinity/server/experiment"
)

// readJSON decodes a request's body strictly. Numbers bound for any stay json.Number.
func readJSON(r *http.Request, v any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return fmt.Errorf("%w: send Content-Type: application/json", errMediaType)
	}
	dec := json.NewDecoder(r.Body)
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return explain(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the JSON object", errBadRequest)
	}
	return nil
}

// explain turns the decoder's errors about a field into field errors.
func explain(err error) error {
	var wrongType *json.UnmarshalTypeError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return err
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return experiment.Invalid(wrongType.Field, "is a %s; use a %s", wrongType.Value, wrongType.Type)
	}
	if name, ok := strings.CutPrefix(err.Error(), `json: unknown field "`); ok {
		return experiment.Invalid(strings.TrimSuffix(name, `"`), "is unknown; leave it out or correct its name")
	}
	return fmt.Errorf("%w: the body is not the JSON object expected: %w", errBadRequest, err)
}

// query reads parameters, collecting faults.
type query struct {
	r      *http.Request
	faults experiment.InvalidError
}

func (q *query) text(name string) string { return q.r.URL.Query().Get(name) }

func (q *query) fail(name, format string, args ...any) {
	q.faults.Fields = append(q.faults.Fields, experiment.FieldErrors(experiment.Invalid(name, format, args...))...)
}

// number is optional; ok is false where it is absent.
func (q *query) number(name string, low, high int64) (n int64, ok bool) {
	s := q.text(name)
	if s == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < low || n > high {
		q.fail(name, "is %q; use a whole number from %d to %d", s, low, high)
		return 0, false
	}
	return n, true
}

func (q *query) limit(most int) int {
	n, _ := q.number("limit", 1, int64(most))
	return int(n)
}

func (q *query) step() *int {
	n, ok := q.number("step", 0, 1<<31-1)
	if !ok {
		return nil
	}
	step := int(n)
	return &step
}

func (q *query) truth(name string) *bool {
	s := q.text(name)
	if s == "" {
		return nil
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		q.fail(name, "is %q; use true or false", s)
		return nil
	}
	return &b
}

// oneOf is optional.
func (q *query) oneOf(name string, allowed ...string) string {
	s := q.text(name)
	if s == "" {
		return ""
	}
	for _, a := range allowed {
		if s == a {
			return s
		}
	}
	q.fail(name, "is %q; use one of %s", s, strings.Join(allowed, ", "))
	return ""
}

func (q *query) err() error {
	if len(q.faults.Fields) > 0 {
		return &q.faults
	}
	return nil
}

func names[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}
