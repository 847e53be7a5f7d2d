package browser

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// build compiles trinity as it ships: static, without cgo.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trinity")
	command := exec.Command("go", "build", "-o", path, "github.com/trinity-lab/trinity/cmd/trinity")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// serveProgram runs "trinity serve" on a free port and returns its address without a trailing slash. It is told to end with
// the test and must end cleanly.
func serveProgram(t *testing.T, program string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())

	command := exec.Command(program, "serve", "--addr", addr, "--data", dataDir(t))
	command.Env = append(os.Environ(), "DATABASE_URL=")
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	var said string
	ended := make(chan error, 1)
	go func() {
		said = tail(stderr)
		ended <- command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended already
		require.NoError(t, <-ended, "trinity serve said:\n%s", said)
	})
	base := "http://" + addr
	for deadline := time.After(2 * time.Minute); ; {
		if response, err := http.Get(base + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return base
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("trinity serve ended early: %v; it said:\n%s", err, said)
		case <-deadline:
			t.Fatal("trinity serve did not become ready within two minutes")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tail reads to the end and keeps the last lines.
func tail(r io.Reader) string {
	var last []string
	for scanner := bufio.NewScanner(r); scanner.Scan(); {
		if last = append(last, scanner.Text()); len(last) > 30 {
			last = last[1:]
		}
	}
	return strings.Join(last, "\n")
}

// The whole way of a newcomer, with nothing replaced: the program, its Postgres, its model, its trainer, a browser.
func TestLaunchedRunMovesThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for a minute; leave -short out")
	}
	chromium(t)
	base := serveProgram(t, build(t))
	b := open(t)

	b.visit(base + "/launch")
	for key, value := range map[string]string{"name": "from a browser", "steps": "3", "corpus.images_per_step": "2", "questioner.samples": "2", "solver.samples": "2"} {
		b.run(chromedp.SetValue(chromedp.CSS(`[name="`+key+`"]`), value))
	}
	b.run(chromedp.Click(chromedp.CSS(`button[value=launch]`)), until(`location.pathname.startsWith("/runs/") && document.readyState === "complete"`))
	require.Equal(t, "from a browser", eval[string](b, `document.querySelector("h1").textContent`))

	points := `Number(document.querySelector("[data-plot=fact]").dataset.points)`
	before := eval[int](b, points)
	b.run(do(`window.sameDocument = true`))
	b.within(4*time.Minute, until(points+` >= 1`))
	b.look("run-live")
	b.within(4*time.Minute, until(points+` >= 3`))
	require.Less(t, before, 3, "the run was over before the page was there: nothing was seen to move")
	b.within(time.Minute, until(`document.getElementById("status").textContent === "completed"`))
	require.True(t, eval[bool](b, `window.sameDocument`), "the page was not loaded again")
	require.Equal(t, "3 of 3 steps", eval[string](b, `document.getElementById("steps-done").textContent`))
	require.Positive(t, eval[int](b, `document.querySelectorAll("#talk .turn").length`))
	require.False(t, eval[bool](b, `document.getElementById("windows").hidden`))

	b.run(chromedp.Click(chromedp.CSS(`a[data-key=e]`)), until(`document.querySelectorAll(".card").length === 6`),
		chromedp.Click(chromedp.CSS(`.card a`)), until(`location.pathname.startsWith("/episodes/") && document.readyState === "complete"`))
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll("article[aria-label^=Candidate]").length`))
	require.True(t, eval[bool](b, `document.querySelector(".shown").naturalWidth > 0`))
	require.Zero(t, eval[int](b, `[...document.querySelectorAll(".tag.warn")].filter(n => n.textContent.includes("the signals give")).length`))
	b.quiet()
}
