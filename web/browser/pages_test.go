package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server"
	"github.com/trinity-lab/trinity/server/config"
	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/ingest"
)

// screenshots names a folder to which TestPages writes a picture of every page, for people to look at.
const screenshots = "TRINITY_SCREENSHOTS"

// serve starts a server on a fresh data directory.
func serve(t *testing.T) (*server.Server, config.Config) {
	t.Helper()
	c := config.Config{Addr: "127.0.0.1:0", Data: dataDir(t)}
	s, err := server.Start(t.Context(), server.Options{Config: c, Program: "/bin/false", Version: "test", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, c
}

// dataDir is a folder that Postgres's own user may pass through, as t.TempDir is not for root.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "trinity-browser")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// take imports a run directory into a server's database.
func take(t *testing.T, c config.Config, dir string) experiment.Run {
	t.Helper()
	lab, err := server.OpenLab(t.Context(), c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer lab.Close()
	run, err := ingest.Import(context.WithoutCancel(t.Context()), lab.Store, lab.Ingester, dir)
	require.NoError(t, err)
	return run
}

func TestPages(t *testing.T) {
	chromium(t)
	s, c := serve(t)
	base := strings.TrimSuffix(s.URL(), "/")
	b := open(t)

	t.Run("without runs", func(t *testing.T) {
		b.t = t
		b.visit(base + "/")
		require.Contains(t, eval[string](b, `document.querySelector("main").innerText`), "No run yet")
		b.look("runs-empty")
		b.quiet()
	})

	dir := simulate(t, 64, func(string, int) {})
	run := take(t, c, dir)
	runURL := base + "/runs/" + run.ID

	t.Run("runs", func(t *testing.T) {
		b.t = t
		b.visit(base + "/")
		require.Equal(t, "completed", eval[string](b, `document.querySelector("tbody .status").textContent`))
		require.GreaterOrEqual(t, eval[int](b, `document.querySelectorAll("tbody polyline").length`), 5)
		b.look("runs")
		b.quiet()
	})
	t.Run("launch", func(t *testing.T) {
		b.t = t
		b.visit(base + "/launch")
		b.run(chromedp.SetValue(chromedp.CSS(`#steps`), "0"), do(`document.getElementById("steps").dispatchEvent(new Event("input", {bubbles: true}))`),
			chromedp.WaitVisible(chromedp.CSS(`#fault-steps`)))
		require.Equal(t, "true", eval[string](b, `document.getElementById("steps").getAttribute("aria-invalid")`))
		b.look("launch-fault")
		b.run(chromedp.SetValue(chromedp.CSS(`#steps`), "12"), do(`document.getElementById("steps").dispatchEvent(new Event("input", {bubbles: true}))`),
			chromedp.WaitNotPresent(chromedp.CSS(`#fault-steps`)), until(`document.getElementById("yaml").textContent.includes("steps: 12")`))
		b.look("launch")
		b.quiet()
	})
	t.Run("run", func(t *testing.T) {
		b.t = t
		b.visit(runURL)
		b.run(chromedp.WaitVisible(chromedp.CSS(`[data-plot=fact] canvas`)), until(`document.getElementById("connection").dataset.state === "live"`))
		require.Equal(t, "64", eval[string](b, `document.querySelector("[data-plot=fact]").dataset.points`))
		require.Equal(t, 6, eval[int](b, `document.querySelectorAll(".plot canvas").length`))
		require.Equal(t, "32", eval[string](b, `document.getElementById("window-size").textContent`))
		require.Positive(t, eval[int](b, `document.querySelectorAll("#talk .turn").length`), "the newest episode is told")
		b.look("run")
		b.quiet()
	})
	t.Run("zoom", func(t *testing.T) {
		b.t = t
		zoom := func() []float64 {
			return eval[[]float64](b, `(({start, end}) => [start, end])(echarts.getInstanceByDom(document.querySelector("[data-plot=verifier]")).getOption().dataZoom[0])`)
		}
		require.Equal(t, []float64{0, 100}, zoom())
		b.run(click(`[data-zoom=in]`))
		require.Equal(t, []float64{25, 75}, zoom(), "all panels follow")
		b.run(click(`[data-toggle-theme]`))
		require.Equal(t, []float64{25, 75}, zoom(), "a change of theme keeps the zoom")
		b.run(click(`[data-toggle-theme]`), chromedp.KeyEvent("0"))
		require.Equal(t, []float64{0, 100}, zoom())
		b.run(do(`localStorage.clear(); delete document.documentElement.dataset.theme`))
		b.quiet()
	})
	t.Run("live", func(t *testing.T) { testLive(t, b, c, base) })
	t.Run("episodes", func(t *testing.T) {
		b.t = t
		b.visit(runURL + "/episodes")
		require.Equal(t, 36, eval[int](b, `document.querySelectorAll(".card").length`))
		b.look("episodes")
		b.visit(runURL + "/episodes?step=3")
		require.Equal(t, 6, eval[int](b, `document.querySelectorAll(".card").length`))
		b.visit(runURL + "/episodes?step=-x&outcome=rejected")
		require.Contains(t, eval[string](b, `document.querySelector("[role=alert]").textContent`), "whole number")
		b.quiet()
	})
	t.Run("episode", func(t *testing.T) {
		b.t = t
		for _, outcome := range []string{"overturned", "mixed", "rejected"} {
			b.visit(runURL + "/episodes?outcome=" + outcome)
			href := eval[string](b, `document.querySelector(".card a").href`)
			b.visit(href)
			require.Equal(t, outcome, eval[string](b, `document.querySelector(".head .tag").textContent`))
			require.Zero(t, eval[int](b, `[...document.querySelectorAll(".tag.warn")].filter(n => n.textContent.includes("the signals give")).length`), "stored rewards equal those worked out")
			require.True(t, eval[bool](b, `document.querySelector(".shown").naturalWidth > 0`), "the image is there")
			b.look("episode-" + outcome)
		}
		here := eval[string](b, `location.pathname`)
		b.run(chromedp.KeyEvent("\u0302"), // ArrowLeft
			until(fmt.Sprintf(`location.pathname !== %q && document.readyState === "complete"`, here)))
		b.run(chromedp.KeyEvent("?"), chromedp.WaitVisible(chromedp.CSS(`dialog[open]`)))
		require.Contains(t, eval[string](b, `document.querySelector("dialog").innerText`), "next episode")
		b.quiet()
	})
	t.Run("hostile text stays text", func(t *testing.T) {
		b.t = t
		b.visit(runURL + "/episodes?q=" + url.QueryEscape("é雪"))
		b.visit(eval[string](b, `document.querySelector(".card a").href`))
		require.Contains(t, eval[string](b, `document.querySelector("main").textContent`), `<img src=x onerror=`)
		require.NotEqual(t, "owned", eval[string](b, `document.title`))
		require.Zero(t, eval[int](b, `document.querySelectorAll("main script, main img[src=x]").length`))
		b.quiet()
	})
	t.Run("missing", func(t *testing.T) {
		b.t = t
		b.visit(base + "/episodes/999999")
		require.Equal(t, "Not found", eval[string](b, `document.querySelector("h1").textContent`))
	})
}

// testLive watches a run whose journal grows: points come without a reload, the zoom stays, and the averages that the page
// adds are the server's.
func testLive(t *testing.T, b *tab, c config.Config, base string) {
	b.t = t
	const first, steps = 12, 24
	averages := `JSON.stringify(echarts.getInstanceByDom(document.querySelector("[data-plot=correct]")).getOption().series.map(s => s.data))`
	table := `[...document.querySelectorAll(".windows tbody tr:not([hidden])")].map(row => row.innerText).join("\n")`
	var id string
	simulate(t, steps, func(dir string, step int) {
		switch step {
		case first - 1:
			id = take(t, c, dir).ID
			b.visit(base + "/runs/" + id)
			b.run(until(`document.getElementById("connection").dataset.state === "live"`), click(`[data-zoom=in]`), do(`window.sameDocument = true`))
			require.Equal(t, "12", eval[string](b, `document.querySelector("[data-plot=fact]").dataset.points`))
		case steps - 1:
			take(t, c, dir)
		}
	})
	b.run(until(`document.querySelector("[data-plot=fact]").dataset.points === "24"`))
	require.True(t, eval[bool](b, `window.sameDocument`))
	require.Equal(t, []float64{25, 75}, eval[[]float64](b, `(({start, end}) => [start, end])(echarts.getInstanceByDom(document.querySelector("[data-plot=fact]")).getOption().dataZoom[0])`))
	require.Equal(t, "24 of 24 steps", eval[string](b, `document.getElementById("steps-done").textContent`))
	require.Contains(t, eval[string](b, `document.getElementById("talk-place").textContent`), "step 23")
	curves, rows := eval[string](b, averages), eval[string](b, table)
	b.visit(base + "/runs/" + id)
	requireCurves(t, eval[string](b, averages), curves)
	require.Equal(t, eval[string](b, table), rows)
	b.quiet()
}

// visit opens a page and waits until it has run.
func (b *tab) visit(url string) {
	b.t.Helper()
	b.run(chromedp.Navigate(url), until(`document.readyState === "complete"`))
}

// look checks the page as it stands at both widths and in both themes: nothing sticks out sideways. It writes screenshots
// where they are asked for.
func (b *tab) look(name string) {
	b.t.Helper()
	folder := os.Getenv(screenshots)
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 390} {
			b.size(width, 900, theme)
			b.run(chromedp.Sleep(150 * time.Millisecond)) // charts follow the size
			require.LessOrEqual(b.t, eval[int](b, `document.documentElement.scrollWidth`), int(width), "%s is wider than %d px", name, width)
			if folder != "" {
				png := get(b, time.Minute, chromedp.FullScreenshot(100))
				require.NoError(b.t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%s-%d.png", name, theme, width)), png, 0o644))
			}
		}
	}
	b.size(1440, 900, "light")
}

// requireCurves compares series of [step, value] pairs; the server sends six decimals.
func requireCurves(t *testing.T, want, got string) {
	t.Helper()
	var a, b [][][2]*float64
	require.NoError(t, json.Unmarshal([]byte(want), &a))
	require.NoError(t, json.Unmarshal([]byte(got), &b))
	require.Equal(t, len(a), len(b))
	for i := range a {
		require.Equal(t, len(a[i]), len(b[i]), "points of series %d", i)
		for j := range a[i] {
			for k := range 2 {
				x, y := a[i][j][k], b[i][j][k]
				require.Equal(t, x == nil, y == nil)
				if x != nil {
					require.InDelta(t, *x, *y, 1e-6)
				}
			}
		}
	}
}
