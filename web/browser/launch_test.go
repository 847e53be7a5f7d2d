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

// program is a running "trinity serve".
type program struct {
	t       *testing.T
	command *exec.Cmd
	ended   chan struct{}
	err     error // how it ended, once it has
	said    string
}

// free is a loopback address that nothing listens on.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// serveProgram runs "trinity serve" and waits until it is ready. It is stopped with the test and must end cleanly.
func serveProgram(t *testing.T, path, addr, data string) *program {
	t.Helper()
	p := &program{t: t, command: exec.Command(path, "serve", "--addr", addr, "--data", data), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), "DATABASE_URL=")
	stderr, err := p.command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	go func() {
		defer close(p.ended)
		p.said = tail(stderr)
		p.err = p.command.Wait()
	}()
	t.Cleanup(p.stop)
	for deadline := time.After(2 * time.Minute); ; {
		if response, err := http.Get("http://" + addr + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return p
			}
		}
		select {
		case <-p.ended:
			t.Fatalf("trinity serve ended early: %v; it said:\n%s", p.err, p.said)
		case <-deadline:
			t.Fatal("trinity serve did not become ready within two minutes")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop asks the program to end and waits for it. Stopping twice is no fault.
func (p *program) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended already
	<-p.ended
	require.NoError(p.t, p.err, "trinity serve said:\n%s", p.said)
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

// points is how many steps the page has drawn.
const points = `Number(document.querySelector("[data-plot=fact]").dataset.points)`

// launch fills in the form for a small run and waits for its page, in which sameDocument tells a reload.
func (b *tab) launch(base, steps string) {
	b.t.Helper()
	b.visit(base + "/launch")
	for key, value := range map[string]string{"name": "from a browser", "steps": steps, "corpus.images_per_step": "2", "questioner.samples": "2", "solver.samples": "2"} {
		b.run(chromedp.SetValue(chromedp.CSS(`[name="`+key+`"]`), value))
	}
	b.run(click(`button[value=launch]`), until(`location.pathname.startsWith("/runs/") && document.readyState === "complete"`),
		do(`window.sameDocument = true`))
	require.Equal(b.t, "from a browser", eval[string](b, `document.querySelector("h1").textContent`))
}

// The whole way of a newcomer, with nothing replaced: the program, its Postgres, its model, its trainer, a browser.
func TestLaunchedRunMovesThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for a minute; leave -short out")
	}
	chromium(t)
	addr := free(t)
	serveProgram(t, build(t), addr, dataDir(t))
	b := open(t)
	b.launch("http://"+addr, "3")

	before := eval[int](b, points)
	b.within(4*time.Minute, until(points+` >= 1`))
	b.look("run-live")
	b.within(4*time.Minute, until(points+` >= 3`))
	require.Less(t, before, 3, "the run was over before the page was there: nothing was seen to move")
	b.within(time.Minute, until(`document.getElementById("status").textContent === "completed"`))
	require.True(t, eval[bool](b, `window.sameDocument`), "the page was not loaded again")
	require.Equal(t, "3 of 3 steps", eval[string](b, `document.getElementById("steps-done").textContent`))
	require.Positive(t, eval[int](b, `document.querySelectorAll("#talk .turn").length`))
	require.False(t, eval[bool](b, `document.getElementById("windows").hidden`))

	b.run(click(`a[data-key=e]`), until(`document.querySelectorAll(".card").length === 6`),
		click(`.card a`), until(`location.pathname.startsWith("/episodes/") && document.readyState === "complete"`))
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll("article[aria-label^=Candidate]").length`))
	require.True(t, eval[bool](b, `document.querySelector(".shown").naturalWidth > 0`))
	require.Zero(t, eval[int](b, `[...document.querySelectorAll(".tag.warn")].filter(n => n.textContent.includes("the signals give")).length`))
	b.quiet()
}

// The server is stopped and started again under a page that is open: the run goes on, and the page catches up by itself.
func TestPageOutlivesTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for a minute; leave -short out")
	}
	chromium(t)
	path, addr, data := build(t), free(t), dataDir(t)
	first := serveProgram(t, path, addr, data)
	b := open(t)
	b.launch("http://"+addr, "16")
	b.within(4*time.Minute, until(points+` >= 2`))
	first.stop()
	b.run(until(`document.getElementById("connection").dataset.state === "lost"`))
	seen := eval[int](b, points)
	require.Less(t, seen, 16, "the run was over before the server was stopped")

	serveProgram(t, path, addr, data)
	b.within(4*time.Minute, until(points+` === 16`), until(`document.getElementById("status").textContent === "completed"`))
	require.True(t, eval[bool](b, `window.sameDocument`))
	require.Equal(t, "live", eval[string](b, `document.getElementById("connection").dataset.state`))
	steps := eval[[]int](b, `echarts.getInstanceByDom(document.querySelector("[data-plot=fact]")).getOption().series[0].data.map(([step]) => step)`)
	for i, step := range steps {
		require.Equal(t, i, step, "no step is missing or out of order")
	}
}
