package httpd

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// contentPolicy lets a page use what this server serves, nothing inline and nothing from elsewhere.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Limits of request bodies, bytes.
const (
	maxJSON   = 1 << 20
	maxUpload = 64 << 20
	maxImport = 16 << 30
)

// Hosts says which Host headers are answered, so that a name that an attacker points at this machine gets nothing (DNS
// rebinding). Loopback names always are.
type Hosts struct {
	Names     []string // further host names, without port
	Addresses bool     // any IP address; no name, so it can't be rebound
}

// Allowed reports whether a Host header may be answered.
func (h Hosts) Allowed(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || h.Addresses
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(h.Names, host)
}

// SameOrigin reports whether a request that carries an Origin comes from a page of this server. Browsers always send
// one with a websocket; programs needn't.
func SameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "http" || u.Scheme == "https")
}

func (a *api) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.Hosts.Allowed(r.Host) {
			writeError(w, http.StatusForbidden, problem{Code: "forbidden_host",
				Message: "this server does not answer to that host name; use 127.0.0.1 or localhost, or start it with --host"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		next.ServeHTTP(w, r)
	})
}

// crossOrigin refuses unsafe requests that a browser sends for another site.
func crossOrigin() func(http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusForbidden, problem{Code: "cross_origin", Message: "requests from pages of other sites are refused"})
	}))
	return protection.Handler
}

// compress gzips answers that profit; the websocket and images pass as they are.
func compress(next http.Handler) http.Handler {
	wrapper, err := gzhttp.NewWrapper(gzhttp.MinSize(1024))
	if err != nil { // only wrong options fail
		return next
	}
	zipped := wrapper(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		zipped.ServeHTTP(w, r)
	})
}

func limitBody(limit int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			next.ServeHTTP(w, r)
		})
	}
}

// recoverPanics answers 500 where a handler panics, and logs where.
func (a *api) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p) // net/http's own way to drop a connection
			}
			a.Log.Error("handler panicked", slog.String("path", r.URL.Path), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			writeError(w, http.StatusInternalServerError, problem{Code: "internal", Message: "the server failed; look at its log"})
		}()
		next.ServeHTTP(w, r)
	})
}
