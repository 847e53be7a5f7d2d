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

// serveProgram runs "trinity serve" on a free port and returns its address without a trailing slash. It is told to end with the test.
func serveProgram(t *testing.T, program string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())

	command := exec.Command(program, "serve", "--addr", addr, "--data", dataDir(t))
	command.Env = append(os.Environ(), "DATABASE_URL=")
	said, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	lines := make(chan string, 1)
	go func() { lines <- tail(said) }()
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = command.Process.Signal(syscall.SIGTERM)
		}
		said := <-lines
		require.NoError(t, command.Wait(), "trinity serve must end cleanly; it said:\n%s", said)
	})
	base := "http://" + addr
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if response, err := http.Get(base + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return base
			}
		}
		if command.Process.Signal(syscall.Signal(0)) != nil || time.Now().After(deadline) {
			ended = command.Process.Signal(syscall.Signal(0)) != nil
			t.Fatal("trinity serve did not become ready within two minutes")
		}
		time.Sleep(100 * time.Millisecond)
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
