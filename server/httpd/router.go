// Package httpd serves the JSON API, the websocket and the pages.
package httpd

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
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
	Create(ctx context.Context, d experiment.Draft) (experiment.Run, error)
	Stop(ctx context.Context, id string) (experiment.Run, error)
	Resume(ctx context.Context, id string) (experiment.Run, error)
	Metrics(ctx context.Context, id string, q experiment.MetricQuery) ([]experiment.Series, error)
}

var _ Service = (*experiment.Service)(nil)

// Options are what the handler is assembled from.
type Options struct {
	Service Service
	Pages   Pages        // nil serves the API alone
	Live    http.Handler // websocket at /api/v1/live
}

// New returns the server's handler.
func New(o Options) http.Handler {
	r := chi.NewRouter()
	if o.Live != nil {
		r.Handle("/api/v1/live", o.Live)
	}
	if o.Pages != nil {
		o.Pages.Mount(r)
	}
	return r
}
