package httpd

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/static"
	"github.com/trinity-lab/trinity/web/page"
	"github.com/trinity-lab/trinity/web/view"
)

// Site serves the HTML pages and the static files.
type Site struct {
	service Service
	files   *static.Files
	log     *slog.Logger
	now     func() time.Time
}

var _ Pages = (*Site)(nil)

// NewSite returns the pages over a service.
func NewSite(service Service, log *slog.Logger, now func() time.Time) (*Site, error) {
	files, err := static.New()
	if err != nil {
		return nil, err
	}
	return &Site{service: service, files: files, log: log, now: now}, nil
}

// maxForm bounds a posted form, bytes.
const maxForm = 1 << 20

// Mount adds the pages to the root router.
func (s *Site) Mount(r chi.Router) {
	r.Handle(static.Root+"*", s.files)
	r.Get("/", s.page(s.runs))
	r.Get("/launch", s.page(s.launchForm))
	r.Post("/launch", s.page(s.launch))
	r.Post("/launch/check", s.page(s.launchCheck))
	r.Get("/runs/{id}", s.page(s.run))
	r.Post("/runs/{id}/stop", s.page(s.stop))
	r.Post("/runs/{id}/resume", s.page(s.resume))
	r.Get("/runs/{id}/episodes", s.page(s.episodes))
	r.Get("/episodes/{id}", s.page(s.episode))
}

// NotFound is the page for an address that nothing answers.
func (s *Site) NotFound(w http.ResponseWriter, r *http.Request) {
	s.trouble(w, r, experiment.ErrNotFound)
}

// page runs a handler and shows its error as a page.
func (s *Site) page(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := handle(w, r); err != nil {
			s.trouble(w, r, err)
		}
	}
}

// render writes a whole page, or nothing and an error.
func render(w http.ResponseWriter, r *http.Request, status int, c templ.Component) error {
	var b bytes.Buffer
	if err := c.Render(r.Context(), &b); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the reader has gone: nobody is left to tell
	return nil
}

func (s *Site) shell(title, section string) view.Shell {
	return view.Shell{Title: title, Section: section, Static: s.files.Prefix()}
}

// trouble shows an error: what was wrong and how to mend it, never an internal text.
func (s *Site) trouble(w http.ResponseWriter, r *http.Request, err error) {
	status, title, message := describe(err)
	if status == http.StatusInternalServerError {
		if r.Context().Err() != nil {
			return // the reader left
		}
		s.log.Error("page failed", "path", r.URL.Path, "error", err)
	}
	model := view.Trouble{Shell: s.shell(title, ""), Message: message}
	if err := render(w, r, status, page.Trouble(model)); err != nil {
		s.log.Error("page failed", "path", r.URL.Path, "error", err)
		http.Error(w, title, status)
	}
}

func describe(err error) (status int, title, message string) {
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.Is(err, experiment.ErrNotFound):
		return http.StatusNotFound, "Not found", "Nothing is at this address. It may have been removed, or the address may be incomplete."
	case errors.Is(err, experiment.ErrConflict):
		return http.StatusConflict, "Not possible now", "The run has moved on in the meantime. Open it again to see where it stands."
	case errors.Is(err, experiment.ErrUnsupported):
		return http.StatusConflict, "Not possible here", err.Error()
	case errors.Is(err, experiment.ErrInvalid):
		return http.StatusUnprocessableEntity, "Not understood", err.Error()
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, "Too large", "The form is larger than 1 MiB. Shorten its values."
	}
	return http.StatusInternalServerError, "Something failed", "The server could not answer. Its log says why; try again, and see trinity doctor if it stays so."
}
