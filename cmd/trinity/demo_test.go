package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server/config"
	"github.com/trinity-lab/trinity/server/experiment"
)

// asProgram makes this test binary behave as trinity, so that the server under test can start trainers with it.
const asProgram = "TRINITY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// The main job, end to end: demo trains for real on the shipped checkpoint, ends by itself, and what Postgres then holds
// gives the recorded rewards again when it is scored from the stored signals.
func TestDemoStoresWhatItRewarded(t *testing.T) {
	t.Setenv(asProgram, "1")
	t.Setenv("DATABASE_URL", "")
	data := t.TempDir()
	var out, errs bytes.Buffer
	c := &Context{Ctx: context.Background(), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	const steps = 3
	code := run(c, []string{"demo", "--data", data, "--addr", "127.0.0.1:0", "--steps", fmt.Sprint(steps), "--no-browser", "--exit-when-done", "--seed", "7"})
	require.Zero(t, code, errs.String())
	var result demoResult
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	require.Equal(t, experiment.Completed, result.Status)
	require.Equal(t, steps, result.Steps)
	require.Equal(t, steps*16, result.Episodes)
	require.Greater(t, result.Judgements, result.Episodes)
	require.NotContains(t, errs.String(), "could not be kept")

	s, err := startServer(c, config.Config{Addr: "127.0.0.1:0", Data: data})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var page struct {
		Episodes []experiment.EpisodeSummary `json:"episodes"`
		Next     string                      `json:"next"`
	}
	get(t, s.URL()+"api/v1/runs/"+result.Run+"/episodes?limit=200", &page)
	require.Len(t, page.Episodes, result.Episodes)
	judged := 0
	for _, summary := range page.Episodes {
		var e experiment.Episode
		get(t, fmt.Sprintf("%sapi/v1/episodes/%d", s.URL(), summary.ID), &e)
		judged += len(e.Judgements)
		requireScored(t, e)
		response, err := http.Get(s.URL() + "api/v1/images/" + e.Image)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	require.Equal(t, result.Judgements, judged)
}

func get(t *testing.T, url string, into any) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, string(body))
	require.NoError(t, json.Unmarshal(body, into), string(body))
}

// requireScored recomputes an episode's rewards and advantages with trinity score.
func requireScored(t *testing.T, e experiment.Episode) {
	t.Helper()
	line, err := json.Marshal(map[string]any{"candidates": signals(t, e.CandidateList, "format_ok", "fact_q", "corr_a", "difficulty", "selected"),
		"rollouts": signals(t, e.RolloutList, "format_ok", "correct", "reason", "evaluable")})
	require.NoError(t, err)
	var out, errs bytes.Buffer
	code := run(&Context{Ctx: context.Background(), Stdin: bytes.NewReader(line), Stdout: &out, Stderr: &errs}, []string{"score"})
	require.Zero(t, code, errs.String()+out.String())
	var scored struct {
		RChal      float64 `json:"r_chal"`
		Candidates []struct {
			RFact      float64 `json:"r_fact"`
			RDiffTilde float64 `json:"r_diff_tilde"`
			Reward     float64 `json:"reward"`
			Advantage  float64 `json:"advantage"`
			Retained   bool    `json:"retained"`
		} `json:"candidates"`
		Rollouts []struct {
			Reward    float64 `json:"reward"`
			Advantage float64 `json:"advantage"`
			Retained  bool    `json:"retained"`
		} `json:"rollouts"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &scored))
	require.Len(t, scored.Candidates, len(e.CandidateList))
	require.Len(t, scored.Rollouts, len(e.RolloutList))
	for g, c := range e.CandidateList {
		got := scored.Candidates[g]
		require.InDelta(t, got.Reward, c.Reward, 1e-9)
		require.InDelta(t, got.Advantage, c.Advantage, 1e-9)
		require.Equal(t, got.Retained, c.Retained)
		require.InDelta(t, got.RFact, c.RFact, 1e-9)
		if c.Selected {
			require.InDelta(t, scored.RChal, c.RChal, 1e-9)
		}
	}
	for k, r := range e.RolloutList {
		got := scored.Rollouts[k]
		require.InDelta(t, got.Reward, r.Reward, 1e-9)
		require.InDelta(t, got.Advantage, r.Advantage, 1e-9)
		require.Equal(t, got.Retained, r.Retained)
	}
}

// signals picks fields of records as their JSON names them.
func signals[T any](t *testing.T, records []T, names ...string) []map[string]any {
	t.Helper()
	out := []map[string]any{}
	for _, r := range records {
		b, err := json.Marshal(r)
		require.NoError(t, err)
		var all map[string]any
		require.NoError(t, json.Unmarshal(b, &all))
		kept := map[string]any{}
		for _, n := range names {
			require.Contains(t, all, n)
			kept[n] = all[n]
		}
		out = append(out, kept)
	}
	return out
}
