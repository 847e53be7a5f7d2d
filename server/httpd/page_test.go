package httpd_test

import (
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/httpd"
	"github.com/trinity-lab/trinity/server/ingest"
	"github.com/trinity-lab/trinity/server/servertest"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/web/webtest"
)

// site is a server with its pages over a fresh database.
type site struct {
	t       *testing.T
	service *experiment.Service
	http    http.Handler
}

func newSite(t *testing.T) *site {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store := pg.Store(t)
	service := experiment.NewService(store, nil, presets{}, filepath.Join(t.TempDir(), "runs"), time.Now)
	pages, err := httpd.NewSite(service, log, time.Now)
	require.NoError(t, err)
	return &site{t, service, httpd.New(httpd.Options{Service: service, Images: ingest.NewImages(t.TempDir()), Pages: pages, Log: log})}
}

// get reads a page, which must answer with status.
func (s *site) get(target string, status int) webtest.Document {
	s.t.Helper()
	w := s.send(httptest.NewRequestWithContext(s.t.Context(), "GET", target, nil))
	require.Equal(s.t, status, w.Code, w.Body.String())
	return webtest.Parse(s.t, w.Body.String())
}

func (s *site) post(target string, form url.Values) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), "POST", target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(r)
}

func (s *site) send(r *http.Request) *httptest.ResponseRecorder {
	r.Host = "localhost:8080"
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	return w
}

func mainText(d webtest.Document) string { return webtest.Text(d.Tags("main")[0]) }

func TestLaunchPage(t *testing.T) {
	s := newSite(t)
	d := s.get("/launch", 200)
	require.Equal(t, "150", webtest.Attr(d.Find("id", "steps"), "value"))
	require.Contains(t, webtest.Text(d.Find("id", "yaml")), "steps: 150")
	names := 0
	for _, control := range d.All(func(n *html.Node) bool { return webtest.Has(n, "data-control") }) {
		if webtest.Attr(control, "name") != "" {
			names++
		}
	}
	require.Greater(t, names, 50, "every setting of the configuration can be changed")
	require.Contains(t, webtest.Text(s.get("/launch?preset=trinity-qwen3-vl-8b", 200).Find("id", "yaml")), "ema_decay: 0.999")
	require.Contains(t, mainText(s.get("/launch?preset=nonsense", 422)), "windtunnel", "the presets there are")
}

func TestLaunchRefusesAndKeepsWhatWasTyped(t *testing.T) {
	s := newSite(t)
	w := s.post("/launch", url.Values{"preset": {"windtunnel"}, "steps": {"many"}, "gspo.clip_low": {"0.5e-3"}, "verifier.gate": {"false"}})
	require.Equal(t, 422, w.Code)
	d := webtest.Parse(t, w.Body.String())
	require.Equal(t, "many", webtest.Attr(d.Find("id", "steps"), "value"))
	require.Contains(t, webtest.Text(d.Find("id", "fault-steps")), "whole number")
	require.Equal(t, "0.5e-3", webtest.Attr(d.Find("id", "gspo.clip_low"), "value"))
	require.False(t, webtest.Has(d.Find("id", "verifier.gate"), "checked"))

	w = s.post("/launch", url.Values{"preset": {"windtunnel"}, "reward.w_c": {"-1"}})
	require.Equal(t, 422, w.Code)
	d = webtest.Parse(t, w.Body.String())
	require.NotEmpty(t, webtest.Text(d.Find("id", "fault-reward.w_c")))
	open := d.All(func(n *html.Node) bool { return n.Data == "details" && webtest.Has(n, "open") })
	require.Len(t, open, 1, "a fault is not hidden in a folded part")

	page, err := s.service.Runs(t.Context(), experiment.RunQuery{})
	require.NoError(t, err)
	require.Empty(t, page.Runs)
}

func TestLaunchAndStop(t *testing.T) {
	s := newSite(t)
	form := url.Values{"preset": {"windtunnel"}, "name": {servertest.Hostile}, "steps": {" 7 "}, "verifier.gate": {"false", "true"}, "action": {"check"}}
	form.Set("name", strings.ReplaceAll(servertest.Hostile, "\x00", ""))
	require.Equal(t, 200, s.post("/launch", form).Code, "checking launches nothing")
	form.Set("action", "launch")
	w := s.post("/launch", form)
	require.Equal(t, 303, w.Code, w.Body.String())
	at := w.Header().Get("Location")
	run, err := s.service.Run(t.Context(), strings.TrimPrefix(at, "/runs/"))
	require.NoError(t, err)
	require.Equal(t, 7, run.Config.Steps)
	require.True(t, run.Config.Verifier.Gate)

	d := s.get(at, 200)
	require.Equal(t, "queued", webtest.Text(d.Find("id", "status")))
	require.False(t, webtest.Has(d.Find("id", "stop"), "hidden"))
	require.Equal(t, 303, s.post(at+"/stop", nil).Code)
	require.Equal(t, 303, s.post(at+"/stop", nil).Code, "stopping twice is no fault")
	d = s.get(at, 200)
	require.Equal(t, "stopped", webtest.Text(d.Find("id", "status")))
	require.True(t, webtest.Has(d.Find("id", "stop"), "hidden"))
	require.False(t, webtest.Has(d.Find("id", "resume"), "hidden"))
	require.Contains(t, mainText(s.get("/?status=stopped", 200)), run.ID)
	require.NotContains(t, mainText(s.get("/?status=running", 200)), run.ID)
	require.Equal(t, 303, s.post(at+"/resume", nil).Code)
	require.Equal(t, "queued", webtest.Text(s.get(at, 200).Find("id", "status")))
}

func TestLaunchCheck(t *testing.T) {
	s := newSite(t)
	check := func(form url.Values) (answer struct {
		YAML   string
		Faults []spec.FieldError
	}) {
		form.Set("preset", "windtunnel")
		w := s.post("/launch/check", form)
		require.Equal(t, 200, w.Code)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return answer
	}
	good := check(url.Values{"steps": {"9"}})
	require.Empty(t, good.Faults)
	require.Contains(t, good.YAML, "steps: 9")
	bad := check(url.Values{"steps": {"0"}, "seed": {"7"}})
	require.Len(t, bad.Faults, 1)
	require.Equal(t, "steps", bad.Faults[0].Field)
	require.Empty(t, bad.YAML)
}

func TestPagesOfAnImportedRun(t *testing.T) {
	store := pg.Store(t)
	log := slog.New(slog.DiscardHandler)
	service := experiment.NewService(store, nil, presets{}, t.TempDir(), time.Now)
	pages, err := httpd.NewSite(service, log, time.Now)
	require.NoError(t, err)
	images := ingest.NewImages(t.TempDir())
	s := &site{t, service, httpd.New(httpd.Options{Service: service, Images: images, Pages: pages, Log: log})}

	dir := filepath.Join(t.TempDir(), "run")
	writer, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, writer.Append(spec.KindRun, 0, &spec.Run{ID: experiment.NewRunID(), Config: servertest.Config(t, 4)}))
	servertest.WriteSteps(t, writer, 0, 4, 2)
	require.NoError(t, writer.Append(spec.KindLog, 4, &spec.Log{Level: "warn", Message: "one file was skipped"}))
	require.NoError(t, writer.Append(spec.KindEnd, 4, &spec.End{Status: "completed"}))
	require.NoError(t, writer.Close())
	run, err := ingest.Import(t.Context(), store, ingest.New(store, images, log), dir)
	require.NoError(t, err)

	d := s.get("/runs/"+run.ID, 200)
	require.Equal(t, "4 of 4 steps", webtest.Text(d.Find("id", "steps-done")))
	require.Equal(t, "2", webtest.Text(d.Find("id", "window-size")))
	require.Contains(t, webtest.Text(d.Find("data-window", spec.MetricRFact)), "0.0050.025+0.020")
	require.Contains(t, webtest.Text(d.Find("id", "log")), "one file was skipped")
	var live struct {
		Run    string
		After  int64
		Events []struct{ Step int }
	}
	require.NoError(t, json.Unmarshal([]byte(d.Find("id", "live").FirstChild.Data), &live))
	require.Equal(t, run.LastEvent, live.After)
	require.NotEmpty(t, live.Events)
	for _, e := range live.Events {
		require.Equal(t, 3, e.Step, "only the newest step is told")
	}

	d = s.get("/runs/"+run.ID+"/episodes?step=2", 200)
	cards := d.All(func(n *html.Node) bool { return webtest.Attr(n, "class") == "card" })
	require.Len(t, cards, 2)
	d = s.get(webtest.Attr(d.All(func(n *html.Node) bool { return strings.HasPrefix(webtest.Attr(n, "href"), "/episodes/") })[0], "href"), 200)
	require.Contains(t, mainText(d), "How many bars in step 2?")
	require.Contains(t, mainText(d), "the signals give", "the journal's rewards were made up, and the page says so")
	require.Len(t, d.All(func(n *html.Node) bool { return strings.HasPrefix(webtest.Attr(n, "data-key"), "Arrow") }), 2)

	require.Contains(t, mainText(s.get("/runs/"+run.ID+"/episodes?step=x", 200)), "whole number")
	require.Contains(t, mainText(s.get("/runs/"+run.ID+"/episodes?outcome=solved", 200)), "No episode fits")
}

func TestPagesThatAreNotThere(t *testing.T) {
	s := newSite(t)
	for _, target := range []string{"/runs/0123456789abcdef", "/runs/0123456789abcdef/episodes", "/episodes/99", "/episodes/x"} {
		require.Contains(t, mainText(s.get(target, 404)), "Not found", target)
	}
	require.Equal(t, 404, s.post("/runs/0123456789abcdef/stop", nil).Code)
}

// A long run's page stays small and fast: its curves are thinned out, and what a spike looks like is kept.
func TestRunPageOfALongRun(t *testing.T) {
	const steps = 3000
	store := pg.Store(t)
	log := slog.New(slog.DiscardHandler)
	service := experiment.NewService(store, nil, presets{}, t.TempDir(), time.Now)
	pages, err := httpd.NewSite(service, log, time.Now)
	require.NoError(t, err)
	images := ingest.NewImages(t.TempDir())
	s := &site{t, service, httpd.New(httpd.Options{Service: service, Images: images, Pages: pages, Log: log})}
	dir := filepath.Join(t.TempDir(), "run")
	writer, err := journal.Create(dir)
	require.NoError(t, err)
	require.NoError(t, writer.Append(spec.KindRun, 0, &spec.Run{ID: experiment.NewRunID(), Config: servertest.Config(t, steps)}))
	for i := range steps {
		metrics := map[string]spec.Float{}
		for k, name := range spec.Figure2 {
			metrics[name] = spec.Float(0.4 + 0.2*math.Sin(float64(i*(k+1))))
		}
		if i == 1234 {
			metrics[spec.MetricRFact] = 0.987654
		}
		require.NoError(t, writer.Append(spec.KindStep, i, &spec.Step{Metrics: metrics}))
	}
	require.NoError(t, writer.Close())
	run, err := ingest.Import(t.Context(), store, ingest.New(store, images, log), dir)
	require.NoError(t, err)

	r := httptest.NewRequestWithContext(t.Context(), "GET", "/runs/"+run.ID, nil)
	r.Header.Set("Accept-Encoding", "gzip")
	began := time.Now()
	w := s.send(r)
	t.Logf("%d steps: %d bytes in %s", steps, w.Body.Len(), time.Since(began))
	require.Equal(t, 200, w.Code)
	require.Less(t, w.Body.Len(), 200<<10)
	require.Contains(t, s.get("/runs/"+run.ID, 200).Find("id", "figure").FirstChild.Data, "[1234,0.987654]", "the spike is kept")
}
