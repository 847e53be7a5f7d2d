package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// problem is the error of a response: {"error":{"code":..,"message":..,"fields":[..]}}.
type problem struct {
	Code    string            `json:"code"`
	Message string            `json:"message"`
	Fields  []spec.FieldError `json:"fields,omitempty"`
}

// statuses turns the domain's errors into responses; the first match counts.
var statuses = []struct {
	err    error
	status int
	code   string
}{
	{experiment.ErrInvalid, http.StatusUnprocessableEntity, "invalid"},
	{experiment.ErrNotFound, http.StatusNotFound, "not_found"},
	{experiment.ErrUnsupported, http.StatusConflict, "unsupported"},
	{experiment.ErrConflict, http.StatusConflict, "conflict"},
	{errBadRequest, http.StatusBadRequest, "bad_request"},
	{errMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type"},
}

var (
	errBadRequest = errors.New("bad request")
	errMediaType  = errors.New("unsupported media type")
)

// statusOf gives the status and body for err. What it doesn't know is the server's fault, and its text stays in the log.
func statusOf(err error) (int, problem) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, problem{Code: "too_large", Message: "the request's body is too large"}
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status, problem{Code: s.code, Message: err.Error(), Fields: experiment.FieldErrors(err)}
		}
	}
	return http.StatusInternalServerError, problem{Code: "internal", Message: "the server failed; look at its log"}
}

// handle wraps a handler that returns its error.
func (a *api) handle(fn func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := fn(w, r)
		if err == nil {
			return
		}
		if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
			return // the client has gone
		}
		status, p := statusOf(err)
		if status >= http.StatusInternalServerError {
			a.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		}
		writeError(w, status, p)
	}
}

func (a *api) notFound(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		if site, ok := a.Pages.(interface {
			NotFound(http.ResponseWriter, *http.Request)
		}); ok {
			site.NotFound(w, r)
			return
		}
		http.NotFound(w, r)
		return
	}
	writeError(w, http.StatusNotFound, problem{Code: "not_found", Message: "there is nothing at " + r.URL.Path})
}

func (a *api) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	writeError(w, http.StatusMethodNotAllowed, problem{Code: "method_not_allowed", Message: r.URL.Path + " does not take " + r.Method})
}

func writeError(w http.ResponseWriter, status int, p problem) {
	writeJSON(w, status, map[string]problem{"error": p})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer could not be encoded"}}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(b, '\n')) // a client that has gone is no fault
}
