// Package httpd serves the JSON API, the websocket and the pages.
package httpd

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Pages mounts the HTML pages and static files on the root router. Its handlers run behind the Host check, the
// cross-origin protection, the security headers (strict CSP) and compression of this package.
type Pages interface {
	Mount(r chi.Router)
}

// Service is what the handlers need of the domain; *experiment.Service is one.
type Service interface {
	experiment.Store
	Presets() ([]experiment.Preset, error)
	Resolve(d experiment.Draft) (spec.Config, error)
	Create(ctx context.Context, d experiment.Draft) (experiment.Run, error)
	Stop(ctx context.Context, id string) (experiment.Run, error)
	Resume(ctx context.Context, id string) (experiment.Run, error)
	Metrics(ctx context.Context, id string, q experiment.MetricQuery) ([]experiment.Series, error)
}

var _ Service = (*experiment.Service)(nil)

// Images keeps image files by their SHA-256.
type Images interface {
	Open(sha string) (*os.File, error)
	Add(sha string, r io.Reader) (experiment.Image, error)
}

// Importer takes in a journal that was uploaded.
type Importer interface {
	Import(ctx context.Context, journal io.Reader) (experiment.Run, error)
}

// Options are what the handler is assembled from.
type Options struct {
	Service  Service
	Images   Images
	Importer Importer                        // nil refuses uploads
	Pages    Pages                           // nil serves the API alone
	Live     http.Handler                    // websocket at /api/v1/live
	Ready    func(ctx context.Context) error // nil is always ready
	Hosts    Hosts
	Version  string
	Log      *slog.Logger
}

// New returns the server's handler.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{o}
	r := chi.NewRouter()
	r.Use(a.recoverPanics, a.checkHost, secureHeaders, crossOrigin(), compress)
	r.NotFound(a.notFound)
	r.MethodNotAllowed(a.methodNotAllowed)
	r.Get("/healthz", a.health)
	r.Get("/readyz", a.ready)
	r.Route("/api/v1", a.routes)
	if o.Pages != nil {
		o.Pages.Mount(r)
	}
	return r
}

// api holds the handlers.
type api struct{ Options }

func (a *api) routes(r chi.Router) {
	if a.Live != nil {
		r.Handle("/live", a.Live)
	}
	r.With(limitBody(maxImport)).Post("/imports", a.handle(a.importJournal))
	r.With(limitBody(maxUpload)).Put("/images/{sha}", a.handle(a.putImage))
	r.Get("/images/{sha}", a.handle(a.getImage))
	r.Group(func(r chi.Router) {
		r.Use(limitBody(maxJSON))
		r.Get("/presets", a.handle(a.listPresets))
		r.Post("/validate", a.handle(a.validateRun))
		r.Get("/runs", a.handle(a.listRuns))
		r.Post("/runs", a.handle(a.createRun))
		r.Get("/runs/{id}", a.handle(answerRun(http.StatusOK, a.Service.Run)))
		r.Post("/runs/{id}/stop", a.handle(answerRun(http.StatusAccepted, a.Service.Stop)))
		r.Post("/runs/{id}/resume", a.handle(answerRun(http.StatusAccepted, a.Service.Resume)))
		for _, action := range []string{"pause", "checkpoint", "fork"} {
			r.Post("/runs/{id}/"+action, a.handle(a.unsupported(action)))
		}
		r.Get("/runs/{id}/metrics", a.handle(a.getMetrics))
		r.Get("/runs/{id}/attempts", a.handle(a.listAttempts))
		r.Get("/runs/{id}/events", a.handle(a.listEvents))
		r.Get("/runs/{id}/episodes", a.handle(a.listEpisodes))
		r.Get("/runs/{id}/judgements", a.handle(a.listJudgements))
		r.Get("/episodes/{episode}", a.handle(a.getEpisode))
	})
}

func (a *api) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": a.Version})
}

// ready answers 503 while the database can't be reached.
func (a *api) ready(w http.ResponseWriter, r *http.Request) {
	if a.Ready != nil {
		if err := a.Ready(r.Context()); err != nil {
			a.Log.Warn("not ready", "error", err)
			writeError(w, http.StatusServiceUnavailable, problem{Code: "unavailable", Message: "the database does not answer; look at the server's log"})
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}
