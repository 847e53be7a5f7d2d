package trainer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// judgeServer answers /v1/chat/completions with the shipped checkpoint. While down holds a status it answers with that.
func judgeServer(t *testing.T, down *atomic.Int32) string {
	t.Helper()
	folder, err := modelFolder("model.path", "builtin:windtunnel", filepath.Join(t.TempDir(), "m"))
	require.NoError(t, err)
	e, err := local.Open(folder, local.Options{Threads: 1})
	require.NoError(t, err)
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := int(down.Load()); code != 0 {
			http.Error(w, "not now", code)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		c, err := complete(r, e)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		finish := map[bool]string{false: "stop", true: "length"}[c.Truncated]
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": c.Text}, "finish_reason": finish}},
			"usage": map[string]any{"completion_tokens": len(c.Tokens)}})
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func complete(r *http.Request, e *local.Engine) (out engine.Completion, err error) {
	var q struct {
		Temperature float64
		TopP        float64 `json:"top_p"`
		MaxTokens   int     `json:"max_tokens"`
		Messages    []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return out, err
	}
	var p engine.Prompt
	for _, m := range q.Messages {
		var parts []struct {
			Text     string
			ImageURL struct{ URL string } `json:"image_url"`
		}
		switch {
		case m.Role == "system":
			err = json.Unmarshal(m.Content, &p.System)
		case bytes.HasPrefix(m.Content, []byte("[")):
			if err = json.Unmarshal(m.Content, &parts); err != nil {
				return out, err
			}
			p.Image, p.User = parts[0].ImageURL.URL, parts[1].Text
			_, data, _ := strings.Cut(p.Image, ",")
			encoded, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				return out, err
			}
			if err := e.LoadImage(r.Context(), p.Image, encoded); err != nil {
				return out, err
			}
		default:
			err = json.Unmarshal(m.Content, &p.User)
		}
		if err != nil {
			return out, err
		}
	}
	requests := []engine.Request{{Prompt: p, N: 1, Sampling: spec.SamplingConfig{Temperature: q.Temperature, TopP: q.TopP, MaxTokens: q.MaxTokens}}}
	err = e.Generate(r.Context(), engine.Policy, requests, func(c engine.Completion) { out = c })
	return out, err
}

// greedy settings make the judge's words a function of the question.
func judgedBy(t *testing.T, set ...string) spec.Config {
	return shipped(t, append([]string{"verifier.thinking.temperature=0", "verifier.judging.temperature=0", "verifier.judging.top_k=0", "verifier.judging.top_p=1",
		"corpus.images_per_step=4", "solver.samples=4", "optimizer.learning_rate=1e-3"}, set...)...)
}

// tale is what a run says apart from who judged.
func tale(t *testing.T, dir string) (judgements int, lines []string) {
	t.Helper()
	for r, err := range journal.ReadCommitted(dir) {
		require.NoError(t, err)
		switch d := r.Data.(type) {
		case *spec.Judgement:
			judgements++
			d.Verifier, d.Latency = spec.VerifierVersion{}, 0
		case *spec.Candidate, *spec.Rollout, *spec.Dispute:
		default:
			continue
		}
		b, err := json.Marshal(r.Data)
		require.NoError(t, err)
		lines = append(lines, string(b))
	}
	return judgements, lines
}

// The same checkpoint judges alike in the policy's process and behind a server, and the policy learns the same from it.
func TestEndpointJudgesAsTheSameFixedCheckpoint(t *testing.T) {
	ctx, near, far := context.Background(), t.TempDir(), t.TempDir()
	require.NoError(t, Run(ctx, judgedBy(t, "verifier.update=fixed", "verifier.path=builtin:windtunnel"), near, Options{}))
	url := judgeServer(t, new(atomic.Int32))
	require.NoError(t, Run(ctx, judgedBy(t, "verifier.update=endpoint", "verifier.endpoint.url="+url, "verifier.endpoint.model=windtunnel"), far, Options{}))
	n, want := tale(t, near)
	_, got := tale(t, far)
	require.Positive(t, n)
	require.Equal(t, want, got)
	for r, err := range journal.ReadCommitted(far) {
		require.NoError(t, err)
		switch d := r.Data.(type) {
		case *spec.Judgement:
			require.Equal(t, spec.VerifierVersion{Update: "endpoint", Model: "windtunnel"}, d.Verifier)
		case *spec.Step:
			require.NotContains(t, d.Metrics, spec.MetricVerifierDrift)
		}
	}
}

// A fixed Verifier may be any checkpoint: this one is untrained and of another size.
func TestFixedCheckpointOfAnotherSize(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Run(context.Background(), judgedBy(t, "steps=1", "verifier.update=fixed", "verifier.path="+tinyModel(t)), dir, Options{}))
	n := 0
	for r, err := range journal.ReadCommitted(dir) {
		require.NoError(t, err)
		if d, ok := r.Data.(*spec.Judgement); ok {
			n++
			require.False(t, d.FormatOK, "untrained weights judge, not the policy's")
			require.Equal(t, "fixed", d.Verifier.Update)
		}
	}
	require.Positive(t, n)
	_, _, err := OpenCheckpoint(context.Background(), dir)
	require.NoError(t, err)
}

// A server that goes away stops the run with the last committed step saved; back again, the run ends as if nothing had happened.
func TestOutageStopsARunThatCanBeResumed(t *testing.T) {
	for _, code := range []int32{http.StatusServiceUnavailable, http.StatusUnauthorized} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Setenv("TRINITY_TEST_API_KEY", "sk-never-to-be-seen")
			var down atomic.Int32
			cfg := judgedBy(t, "checkpoint.every=100", "verifier.update=endpoint", "verifier.endpoint.url="+judgeServer(t, &down), "verifier.endpoint.model=m",
				"verifier.endpoint.key_env=TRINITY_TEST_API_KEY", "verifier.endpoint.attempts=2")
			ctx, whole, broken := context.Background(), t.TempDir(), t.TempDir()
			require.NoError(t, Run(ctx, cfg, whole, Options{}))
			err := Run(ctx, cfg, broken, Options{OnStep: func(n int, _ spec.Step) {
				if n == 0 {
					down.Store(code)
				}
			}})
			require.ErrorIs(t, err, engine.ErrUnavailable)
			require.ErrorContains(t, err, cfg.Verifier.Endpoint.URL)
			var end *spec.End
			for r, err := range journal.Read(broken, 0) {
				require.NoError(t, err)
				if d, ok := r.Data.(*spec.End); ok {
					end = d
				}
				if d, ok := r.Data.(*spec.Judgement); ok {
					require.Zero(t, r.Step, "no verdict is made up: %s", d.Text)
				}
			}
			require.Equal(t, "stopped", end.Status)
			require.Contains(t, end.Reason, "stopped before step 1: ")
			require.Contains(t, end.Reason, fmt.Sprintf("HTTP %d: not now", code))

			down.Store(0)
			from := -1
			require.NoError(t, Resume(ctx, broken, Options{OnStart: func(_ spec.Run, n int) { from = n }}))
			require.Equal(t, 1, from)
			require.Equal(t, digest(t, whole), digest(t, broken))
			require.NoError(t, filepath.Walk(broken, func(name string, info os.FileInfo, err error) error {
				if err != nil || info.IsDir() {
					return err
				}
				b, err := os.ReadFile(name)
				require.False(t, bytes.Contains(b, []byte("sk-never-to-be-seen")), name)
				return err
			}))
		})
	}
}

func TestBadVerifierStartsNothing(t *testing.T) {
	for field, set := range map[string][]string{
		"verifier.path":             {"verifier.path=/nonexistent", "verifier.update=fixed"},
		"verifier.endpoint.key_env": {"verifier.update=endpoint", "verifier.endpoint.url=http://127.0.0.1:1/v1", "verifier.endpoint.model=m", "verifier.endpoint.key_env=TRINITY_UNSET_API_KEY"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		err := Run(context.Background(), shipped(t, set...), dir, Options{})
		require.ErrorIs(t, err, ErrInput)
		require.ErrorContains(t, err, field)
		require.NoDirExists(t, dir)
	}
}
