package endpoint

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/imageproc"
	"github.com/trinity-lab/trinity/trainer/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "sk-very-secret-0123456789"

// serve starts a server and returns a client of it that gives up after two tries.
func serve(t *testing.T, handle http.HandlerFunc, change ...func(*spec.EndpointConfig)) *Client {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	cfg := spec.EndpointConfig{URL: s.URL + "/v1", Model: "judge", KeyEnv: "TEST_API_KEY", Attempts: 2}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg, func(name string) string { return map[string]string{"TEST_API_KEY": secret}[name] }, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func answer(w http.ResponseWriter, text, finish string) {
	fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%q},"finish_reason":%q}],"usage":{"completion_tokens":5}}`, text, finish)
}

func ask(c *Client, requests ...engine.Request) ([]engine.Completion, error) {
	var out []engine.Completion
	err := c.Generate(context.Background(), engine.Verifier, requests, func(d engine.Completion) { out = append(out, d) })
	return out, err
}

func say(text string) engine.Request {
	return engine.Request{Prompt: engine.Prompt{User: text}, N: 1, Sampling: spec.SamplingConfig{Temperature: .7, TopP: .8, TopK: 20, MaxTokens: 9}}
}

func pngOf(t *testing.T, c color.Color) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	for i := range 6 {
		img.Set(i%3, i/3, c)
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

func TestRequestAndReply(t *testing.T) {
	var got map[string]any
	var path, auth string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path, auth = r.Method+" "+r.URL.Path, r.Header.Get("Authorization")
		_ = json.NewDecoder(r.Body).Decode(&got)
		answer(w, "yes", "length")
	})
	picture := pngOf(t, color.White)
	require.NoError(t, c.LoadImage(context.Background(), "p", picture))
	r := say("right?")
	r.Prompt.System, r.Prompt.Image = "judge", "p"
	out, err := ask(c, r)
	require.NoError(t, err)
	require.Equal(t, []engine.Completion{{Text: "yes", Truncated: true, Counted: 5}}, out)
	require.Equal(t, 5, out[0].Length())
	require.Equal(t, "POST /v1/chat/completions", path)
	require.Equal(t, "Bearer "+secret, auth)
	require.Equal(t, map[string]any{
		"model": "judge", "temperature": .7, "top_p": .8, "top_k": 20., "max_tokens": 9., "seed": float64(seed(r.Key, 0)),
		"messages": []any{
			map[string]any{"role": "system", "content": "judge"},
			map[string]any{"role": "user", "content": []any{
				map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture)}},
				map[string]any{"type": "text", "text": "right?"},
			}},
		},
	}, got)
	c.DropImages()
	_, err = ask(c, r)
	require.ErrorContains(t, err, `image "p" is not loaded`)
	r.Prompt.Image, r.Prompt.Prefix = "", "<think>"
	_, err = ask(c, r)
	require.ErrorContains(t, err, "opened turn")
}

// A server must see what the policy sees: on white where it is transparent, and in a format that all servers read.
func TestImagesArePNGOfWhatThePolicySees(t *testing.T) {
	var photo bytes.Buffer
	require.NoError(t, jpeg.Encode(&photo, image.NewGray(image.Rect(0, 0, 8, 8)), nil))
	for name, encoded := range map[string][]byte{"transparent": pngOf(t, color.NRGBA{255, 0, 0, 100}), "photograph": photo.Bytes()} {
		url, err := dataURL(encoded)
		require.NoError(t, err, name)
		data, ok := strings.CutPrefix(url, "data:image/png;base64,")
		require.True(t, ok, name)
		sent, err := base64.StdEncoding.DecodeString(data)
		require.NoError(t, err)
		require.True(t, opaque(sent), name)
		want, err := imageproc.Decode(bytes.NewReader(encoded), imageproc.Limits{})
		require.NoError(t, err)
		got, err := imageproc.Decode(bytes.NewReader(sent), imageproc.Limits{})
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	_, err := dataURL([]byte("\x89PNG\r\n\x1a\nnot really"))
	require.Error(t, err)
}

func TestThinkingThatAServerSplitsOffIsKept(t *testing.T) {
	for body, want := range map[string]string{
		`{"choices":[{"message":{"content":"yes","reasoning_content":"so"}}]}`: "<think>\nso\n</think>\nyes",
		`{"choices":[{"message":{"content":null,"reasoning":"so"}}]}`:          "<think>\nso\n</think>\n",
	} {
		out, err := completion([]byte(body))
		require.NoError(t, err)
		require.Equal(t, want, out.Text)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"error":"x"}`, `{"choices":[{"message":{}}]}`, `{"choices":[{"message":{"content":3}}]}`} {
		_, err := completion([]byte(bad))
		require.Error(t, err, bad)
	}
}

// Failures that pass are met by asking again; those that last stop with the field to look at, and never with a verdict.
func TestFailures(t *testing.T) {
	huge := strings.Repeat("x", maxReply+1)
	for name, test := range map[string]struct {
		handle http.HandlerFunc
		tries  int32
		want   []string
	}{
		"overloaded": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusTooManyRequests) }, 2, []string{urlField, "HTTP 429: busy", "2 tries"}},
		"at fault":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh\nno", 500) }, 2, []string{urlField, "HTTP 500: oh no"}},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // a server only notices that a client has gone once it has read all
			<-r.Context().Done()
		}, 2, []string{timeoutField, "within 100ms"}},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"choices":[{"mess`) }, 2,
			[]string{urlField, "no JSON of a chat completion"}},
		"hung up": {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, 2, []string{urlField, "EOF"}},
		"endless": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, huge) }, 1, []string{urlField, "longer than 8 MiB"}},
		"wrong key": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "bad key "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		}, 1,
			[]string{keyField, "bad key Bearer [key]", "TEST_API_KEY"}},
		"no model": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "unknown", http.StatusNotFound) }, 1, []string{modelField, `"judge"`}},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusTemporaryRedirect)
		}, 1,
			[]string{urlField, `"http://192.0.2.1/"`}},
		"refused from the start": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no images here", 400) }, 1, []string{modelField, "no images here"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) { tries.Add(1); test.handle(w, r) },
				func(e *spec.EndpointConfig) {
					if name == "slow" {
						e.Timeout = .1
					}
				})
			out, err := ask(c, say("x"))
			require.Empty(t, out)
			require.ErrorIs(t, err, engine.ErrUnavailable)
			for _, want := range append(test.want, c.config.URL) {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), secret)
			require.Equal(t, test.tries, tries.Load())
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		c := serve(t, nil, func(e *spec.EndpointConfig) { e.URL = "http://127.0.0.1:1/v1" })
		_, err := ask(c, say("x"))
		require.ErrorIs(t, err, engine.ErrUnavailable)
		require.ErrorContains(t, err, urlField)
		require.ErrorContains(t, err, "connection refused")
	})
}

func TestRetryAfterIsHeeded(t *testing.T) {
	var first time.Time
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if first.IsZero() {
			first = time.Now()
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		answer(w, fmt.Sprint(time.Since(first) >= time.Second), "stop")
	})
	out, err := ask(c, say("x"))
	require.NoError(t, err)
	require.Equal(t, "true", out[0].Text)

	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, 2*time.Second, retryAfter(now.Add(2*time.Second).Format(http.TimeFormat), now))
	require.Zero(t, retryAfter(now.Add(-time.Hour).Format(http.TimeFormat), now))
	require.Equal(t, maxWait, retryAfter("99999999", now))
	require.Zero(t, retryAfter("soon", now))
	for attempt := range 40 {
		wait := backoff(attempt+1, 0)
		require.GreaterOrEqual(t, wait, firstWait/2)
		require.Less(t, wait, longWait)
	}
	require.Equal(t, maxWait, backoff(1, 24*time.Hour))
}

// Once the server has shown that it works, what it refuses is the prompt's fault: the run would meet it again after a resume.
func TestRefusedPrompt(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []struct{ Content string } }
		_ = json.NewDecoder(r.Body).Decode(&q)
		if q.Messages[0].Content == "long" {
			http.Error(w, "too many tokens", 400)
			return
		}
		answer(w, "yes", "stop")
	})
	out, err := ask(c, say("long"), say("short"))
	require.NoError(t, err)
	require.Len(t, out, 2)
	require.Equal(t, 1, out[0].Request)
	require.Contains(t, out[1].Refused, "too many tokens")
	require.Empty(t, out[1].Text)
}

func TestConcurrencyIsBoundedAndAStopIsHeeded(t *testing.T) {
	var now, most atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		answer(w, "yes", "stop")
	}, func(e *spec.EndpointConfig) { e.Concurrency = 3 })
	r := say("x")
	r.N = 20
	out, err := ask(c, r)
	require.NoError(t, err)
	require.Len(t, out, 20)
	require.LessOrEqual(t, most.Load(), int32(3))
	require.Greater(t, most.Load(), int32(1))

	ctx, cancel := context.WithCancel(context.Background())
	busy := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.Header().Set("Retry-After", "60")
		http.Error(w, "busy", http.StatusServiceUnavailable)
	})
	require.ErrorIs(t, busy.Generate(ctx, engine.Verifier, []engine.Request{r}, func(engine.Completion) {}), context.Canceled)
}

func TestMissingKey(t *testing.T) {
	for _, value := range []string{"", " ", "two words", "line\nbreak"} {
		_, err := New(spec.EndpointConfig{KeyEnv: "TEST_API_KEY"}, func(string) string { return value }, nil)
		var f spec.FieldError
		require.ErrorAs(t, err, &f)
		require.Equal(t, keyField, f.Field)
	}
}
