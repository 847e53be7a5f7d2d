package browser

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium finds the browser. Where it is missing the test is skipped in view of all, and fails in continuous integration.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const reason = "no Chromium found: install it (Debian: apt install chromium) to run the browser tests"
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}

// tab is a browser window that notes every complaint of a page: console errors, exceptions, refused content, failed requests.
type tab struct {
	context.Context
	t *testing.T

	mu         sync.Mutex
	complaints []string
}

// open starts a Chromium with a fresh profile. Nothing but the server on this machine can be reached from it.
func open(t *testing.T) *tab {
	t.Helper()
	path := chromium(t)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	}
	allocator, cancelAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		cancel()
		cancelAllocator()
	})
	b := &tab{Context: ctx, t: t}
	watch(b, chromedp.Events(ctx, log.EntryAdded), func(e log.EventEntryAdded) {
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.complain("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	})
	watch(b, chromedp.Events(ctx, runtime.ConsoleAPICalled), func(e runtime.EventConsoleAPICalled) {
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			b.complain("console: %s", strings.Join(words, " "))
		}
	})
	watch(b, chromedp.Events(ctx, runtime.ExceptionThrown), func(e runtime.EventExceptionThrown) {
		b.complain("exception: %s", e.ExceptionDetails.Text)
	})
	b.run(command(log.Enable, cdp.Empty{}))
	return b
}

// watch hands a kind of event to fn as long as the browser runs.
func watch[E any](b *tab, events iter.Seq2[E, error], fn func(E)) {
	go func() {
		for e, err := range events {
			if err != nil {
				return // the browser has ended
			}
			fn(e)
		}
	}()
}

// command is a protocol command whose answer does not matter.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (b *tab) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, fmt.Sprintf(format, args...))
}

// quiet fails the test where a page complained.
func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.t.Errorf("the browser complained:\n%s", strings.Join(b.complaints, "\n"))
		b.complaints = nil
	}
}

// run performs actions within a minute.
func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.within(time.Minute, actions...)
}

func (b *tab) within(limit time.Duration, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	get(b, limit, chromedp.Steps(actions...))
}

// get performs an action within a limit and returns its value.
func get[T any](b *tab, limit time.Duration, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, limit)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("in the browser, within %s: %v\ncomplaints: %q", limit, err, b.complaints)
	}
	return value
}

// eval evaluates an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return get(b, time.Minute, chromedp.Evaluate[T](expression))
}

// do runs statements in the page.
func do(script string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](script)
}

// click clicks an element. A page that moves may replace the node between its being found and being clicked; it is then
// looked for again.
func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for {
			_, err := chromedp.Click(chromedp.CSS(selector))(ctx, t)
			if err == nil || !strings.Contains(err.Error(), "Could not find node") {
				return err
			}
		}
	})
}

// until waits until an expression holds, also on a page that a navigation brings.
func until(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for {
			// An error means that the page is being left; the next one is asked.
			if holds, err := chromedp.Evaluate[bool](expression)(ctx, t); err == nil && holds {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for %s: %w", expression, ctx.Err())
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

// size sets the window's inner size, CSS pixels, and its theme: "light" or "dark".
func (b *tab) size(width, height int64, theme string) {
	b.t.Helper()
	b.run(
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}),
	)
}
