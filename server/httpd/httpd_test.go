package httpd_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/httpd"
	"github.com/trinity-lab/trinity/server/ingest"
	"github.com/trinity-lab/trinity/server/postgres"
	"github.com/trinity-lab/trinity/server/servertest"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

var pg servertest.Postgres

func TestMain(m *testing.M) { pg.Main(m) }

type presets struct{}

func (presets) Names() []string { return config.Presets() }
func (presets) Load(name string) (spec.Config, error) {
	c, _, err := config.Preset(name)
	return c, err
}
func (presets) Set(c *spec.Config, key string, value any) error {
	return config.SetValue(c, key, value)
}

// page stands in for the HTML pages.
type page struct{}

func (page) Mount(r chi.Router) {
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<!doctype html>"+strings.Repeat("page ", 1000))
	})
	r.Post("/launch", func(http.ResponseWriter, *http.Request) { panic("a handler's fault") })
}

type lab struct {
	t     *testing.T
	store *postgres.Store
	http  http.Handler
	ready error
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, store: pg.Store(t)}
	log := slog.New(slog.DiscardHandler)
	data := t.TempDir()
	images := ingest.NewImages(filepath.Join(data, "images"))
	l.http = httpd.New(httpd.Options{
		Service: experiment.NewService(l.store, nil, presets{}, filepath.Join(data, "runs"), time.Now), Images: images, Pages: page{}, Log: log,
		Importer: &ingest.Uploads{Dir: filepath.Join(data, "imports"), Store: l.store, Ingester: ingest.New(l.store, images, log)},
		Ready:    func(context.Context) error { return l.ready },
	})
	return l
}

// call makes a request and decodes a JSON answer into an object.
func (l *lab) call(method, target, body string, headers ...string) (*http.Response, map[string]any) {
	l.t.Helper()
	r := httptest.NewRequestWithContext(l.t.Context(), method, target, strings.NewReader(body))
	r.Host = "localhost:8080"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	l.http.ServeHTTP(w, r)
	var answer map[string]any
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		require.NoError(l.t, json.Unmarshal(w.Body.Bytes(), &answer))
	}
	resp := w.Result()
	resp.Body.Close()
	return resp, answer
}

func code(answer map[string]any) any {
	e, _ := answer["error"].(map[string]any)
	return e["code"]
}

func TestCreateAndReadARun(t *testing.T) {
	l := newLab(t)
	resp, run := l.call("POST", "/api/v1/runs", `{"preset":"windtunnel","set":{"steps":20,"seed":18446744073709551615},"tags":["a"]}`)
	require.Equal(t, 201, resp.StatusCode, "%v", run)
	id := run["id"].(string)
	require.Equal(t, "/api/v1/runs/"+id, resp.Header.Get("Location"))
	require.Equal(t, "queued", run["status"])
	resp, run = l.call("GET", "/api/v1/runs/"+id, "")
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, float64(20), run["steps"])
	resp, list := l.call("GET", "/api/v1/runs?limit=1", "")
	require.Equal(t, 200, resp.StatusCode)
	require.Len(t, list["runs"], 1)
	stored, err := l.store.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, uint64(18446744073709551615), stored.Config.Seed, "a seed keeps all its digits")

	config, err := json.Marshal(map[string]any{"config": stored.Config, "name": "again"})
	require.NoError(t, err)
	resp, run = l.call("POST", "/api/v1/runs", string(config))
	require.Equal(t, 201, resp.StatusCode, "%v", run)
	require.Equal(t, "again", run["name"])
	resp, _ = l.call("POST", "/api/v1/runs/"+id+"/stop", "")
	require.Equal(t, 202, resp.StatusCode)
	resp, answer := l.call("POST", "/api/v1/runs/"+id+"/stop", "")
	require.Equal(t, 409, resp.StatusCode)
	require.Equal(t, "conflict", code(answer))
	for _, action := range []string{"pause", "checkpoint", "fork"} {
		resp, answer = l.call("POST", "/api/v1/runs/"+id+"/"+action, "")
		require.Equal(t, 409, resp.StatusCode)
		require.Equal(t, "unsupported", code(answer))
	}
	resp, _ = l.call("POST", "/api/v1/runs/"+id+"/resume", "")
	require.Equal(t, 202, resp.StatusCode)
}

func TestFaultsAreNamed(t *testing.T) {
	l := newLab(t)
	for _, test := range []struct {
		method, target, body string
		status               int
		code, field          string
	}{
		{"POST", "/api/v1/runs", `{"preset":"windtunnel","set":{"steps":0,"gspo.clip_low":"x"}}`, 422, "invalid", "gspo.clip_low"},
		{"POST", "/api/v1/runs", `{"preset":"windtunnel","set":{"steps":0}}`, 422, "invalid", "steps"},
		{"POST", "/api/v1/runs", `{"preset":"nosuch"}`, 422, "invalid", "preset"},
		{"POST", "/api/v1/runs", `{"presett":"windtunnel"}`, 422, "invalid", "presett"},
		{"POST", "/api/v1/runs", `{"config":{"steps":"many"}}`, 422, "invalid", "config.steps"},
		{"POST", "/api/v1/runs", `{"config":{}}`, 422, "invalid", "loop"},
		{"POST", "/api/v1/runs", `{`, 400, "bad_request", ""},
		{"POST", "/api/v1/runs", `{"preset":"windtunnel"} {}`, 400, "bad_request", ""},
		{"POST", "/api/v1/runs", `{"notes":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "too_large", ""},
		{"GET", "/api/v1/runs?status=happy&limit=0", "", 422, "invalid", "status"},
		{"GET", "/api/v1/runs?cursor=x", "", 422, "invalid", "cursor"},
		{"GET", "/api/v1/runs/0000000000000000", "", 404, "not_found", ""},
		{"GET", "/api/v1/runs/0000000000000000/metrics", "", 404, "not_found", ""},
		{"GET", "/api/v1/runs/0000000000000000/episodes", "", 404, "not_found", ""},
		{"GET", "/api/v1/runs/0000000000000000/judgements", "", 404, "not_found", ""},
		{"POST", "/api/v1/runs/0000000000000000/pause", "", 404, "not_found", ""},
		{"GET", "/api/v1/episodes/x", "", 404, "not_found", ""},
		{"GET", "/api/v1/episodes/1", "", 404, "not_found", ""},
		{"GET", "/api/v1/images/..%2f..%2fetc%2fpasswd", "", 404, "not_found", ""},
		{"GET", "/api/v1/nothing", "", 404, "not_found", ""},
		{"DELETE", "/api/v1/runs", "", 405, "method_not_allowed", ""},
	} {
		resp, answer := l.call(test.method, test.target, test.body)
		require.Equal(t, test.status, resp.StatusCode, "%s %s: %v", test.method, test.target, answer)
		require.Equal(t, test.code, code(answer), test.target)
		if test.field != "" {
			fields := answer["error"].(map[string]any)["fields"].([]any)
			found := []any{}
			for _, f := range fields {
				found = append(found, f.(map[string]any)["field"])
			}
			require.Contains(t, found, test.field)
		}
	}
	resp, answer := l.call("POST", "/api/v1/runs", `{"preset":"windtunnel"}`, "Content-Type", "text/plain")
	require.Equal(t, 415, resp.StatusCode)
	require.Equal(t, "unsupported_media_type", code(answer))
}

// fill stores a journal with three steps of two episodes and returns its run.
func (l *lab) fill(dir string) experiment.Run {
	l.t.Helper()
	run := servertest.Run(l.t, 3)
	w, err := journal.Create(dir)
	require.NoError(l.t, err)
	require.NoError(l.t, w.Append(spec.KindRun, 0, &spec.Run{ID: run.ID, Config: run.Config}))
	servertest.WriteSteps(l.t, w, 0, 3, 2)
	require.NoError(l.t, w.Append(spec.KindEnd, 2, &spec.End{Status: "completed"}))
	require.NoError(l.t, w.Close())
	return run
}

func TestImportAndReadEverything(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	run := l.fill(dir)
	b, err := os.ReadFile(filepath.Join(dir, journal.FileName))
	require.NoError(t, err)
	for range 2 { // twice, the same
		resp, answer := l.call("POST", "/api/v1/imports", string(b), "Content-Type", "application/octet-stream")
		require.Equal(t, 201, resp.StatusCode, "%v", answer)
		require.Equal(t, run.ID, answer["id"])
		require.Equal(t, "completed", answer["status"])
	}
	resp, answer := l.call("GET", "/api/v1/runs/"+run.ID+"/metrics?names=reward/*,loss/total&max_points=2", "")
	require.Equal(t, 200, resp.StatusCode)
	series := answer["series"].([]any)
	require.Len(t, series, 3)
	loss := series[0].(map[string]any)
	require.Equal(t, "loss/total", loss["name"])
	require.Equal(t, map[string]any{"step": 1.0, "value": "NaN"}, loss["points"].([]any)[1])

	_, answer = l.call("GET", "/api/v1/runs/"+run.ID+"/episodes?outcome=overturned&q=onerror&limit=2", "")
	require.Len(t, answer["episodes"], 2)
	require.NotEmpty(t, answer["next"])
	first := answer["episodes"].([]any)[0].(map[string]any)
	_, next := l.call("GET", "/api/v1/runs/"+run.ID+"/episodes?outcome=overturned&limit=2&cursor="+answer["next"].(string), "")
	require.Len(t, next["episodes"], 1)
	require.Nil(t, next["next"])

	_, episode := l.call("GET", fmt.Sprintf("/api/v1/episodes/%.0f", first["id"]), "")
	require.Len(t, episode["candidate_list"], 2)
	require.Len(t, episode["judgements"], 2)
	require.Equal(t, true, episode["dispute"].(map[string]any)["overturned"])
	_, judgements := l.call("GET", "/api/v1/runs/"+run.ID+"/judgements?judge=screening&parsed=true&step=1", "")
	require.Len(t, judgements["judgements"], 4)
	_, events := l.call("GET", "/api/v1/runs/"+run.ID+"/events?after=2&limit=3", "")
	require.Len(t, events["events"], 3)
	require.Equal(t, 3.0, events["events"].([]any)[0].(map[string]any)["seq"])

	resp, answer = l.call("POST", "/api/v1/imports", strings.Replace(string(b), "three bars", "seven bars", 1), "Content-Type", "application/octet-stream")
	require.Equal(t, 422, resp.StatusCode)
	require.Contains(t, fmt.Sprint(answer), "damaged")
}

func TestImages(t *testing.T) {
	l := newLab(t)
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))))
	sum := sha256.Sum256(b.Bytes())
	sha := hex.EncodeToString(sum[:])
	resp, _ := l.call("GET", "/api/v1/images/"+sha, "")
	require.Equal(t, 404, resp.StatusCode)
	resp, answer := l.call("PUT", "/api/v1/images/"+sha, b.String())
	require.Equal(t, 201, resp.StatusCode)
	require.Equal(t, "image/png", answer["media_type"])
	resp, _ = l.call("PUT", "/api/v1/images/"+strings.Repeat("a", 64), b.String())
	require.Equal(t, 422, resp.StatusCode)
	resp, _ = l.call("GET", "/api/v1/images/"+sha, "")
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "image/png", resp.Header.Get("Content-Type"))
	require.Contains(t, resp.Header.Get("Cache-Control"), "immutable")
	resp, _ = l.call("GET", "/api/v1/images/"+sha, "", "If-None-Match", resp.Header.Get("ETag"))
	require.Equal(t, 304, resp.StatusCode)
}

func TestOtherSitesAndNamesAreRefused(t *testing.T) {
	l := newLab(t)
	for host, want := range map[string]int{"localhost": 200, "127.0.0.1:9": 200, "[::1]:9": 200, "lab.localhost:9": 200, "evil.example": 403, "192.168.0.7": 403, "": 403} {
		resp, _ := l.call("GET", "/healthz", "", "Host", host)
		require.Equal(t, want, resp.StatusCode, host)
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		resp, answer := l.call("POST", "/api/v1/runs", `{"preset":"windtunnel"}`, header...)
		require.Equal(t, 403, resp.StatusCode)
		require.Equal(t, "cross_origin", code(answer))
	}
	remote := httpd.Hosts{Names: []string{"lab.example"}, Addresses: true}
	require.True(t, remote.Allowed("192.168.0.7:80"))
	require.True(t, remote.Allowed("LAB.example:80"))
	require.False(t, remote.Allowed("evil.example"))
}

func TestHeadersCompressionAndPanics(t *testing.T) {
	l := newLab(t)
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.Host = "localhost"
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	l.http.ServeHTTP(w, r)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	z, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(text, []byte("<!doctype html>page")))
	policy := w.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "frame-ancestors 'none'")
	require.NotContains(t, policy, "unsafe")
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))

	resp, answer := l.call("POST", "/launch", "")
	require.Equal(t, 500, resp.StatusCode)
	require.NotContains(t, fmt.Sprint(answer), "a handler's fault")
}

func TestHealth(t *testing.T) {
	l := newLab(t)
	resp, _ := l.call("GET", "/healthz", "")
	require.Equal(t, 200, resp.StatusCode)
	resp, _ = l.call("GET", "/readyz", "")
	require.Equal(t, 200, resp.StatusCode)
	l.ready = errors.New("database password is hunter2")
	resp, answer := l.call("GET", "/readyz", "")
	require.Equal(t, 503, resp.StatusCode)
	require.NotContains(t, fmt.Sprint(answer), "hunter2")
}
