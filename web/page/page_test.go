package page

import (
	"strings"
	"testing"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/trinity-lab/trinity/web/chart"
	"github.com/trinity-lab/trinity/web/view"
	"github.com/trinity-lab/trinity/web/webtest"
)

// hostile is what a model, a configuration or a log may hold.
const hostile = `</script></pre><script>alert(1)</script><img src=x onerror=alert(1)>" onfocus="alert(1) javascript:alert(1)`

var shell = view.Shell{Title: hostile, Section: "runs", Static: "/static/abc/"}

func show(t *testing.T, c templ.Component) webtest.Document {
	t.Helper()
	var b strings.Builder
	require.NoError(t, c.Render(t.Context(), &b))
	d := webtest.Parse(t, b.String())
	require.Empty(t, d.All(func(n *html.Node) bool { return n.Data == "img" && webtest.Attr(n, "src") == "x" }), "text became markup")
	return d
}

func TestRunsWithoutRunsSayHowToLaunch(t *testing.T) {
	d := show(t, Runs(view.Runs{Shell: shell}))
	text := webtest.Text(d.Tags("main")[0])
	require.Contains(t, text, "No run yet")
	require.Contains(t, text, "trinity train -f windtunnel")
}

func TestRuns(t *testing.T) {
	d := show(t, Runs(view.Runs{Shell: shell, Filter: "running", States: []string{"running"}, Next: "/?cursor=x", Rows: []view.RunRow{{
		ID: "ab", Name: hostile, URL: "/runs/ab", Status: view.Status{Name: "running", Note: hostile}, Done: 3, Steps: 9,
		Rewards: []view.Reward{{Symbol: view.Symbol{Letter: "R", Sub: "fact"}, Value: "0.500", Spark: view.SparkOf([]float64{0, 1}, 0, 1)}},
		Created: view.Time{ISO: "2026-01-02T03:04:05Z", Words: "now"},
	}}}))
	require.Equal(t, hostile, webtest.Text(d.Find("href", "/runs/ab")))
	bar := d.Tags("progress")[0]
	require.Equal(t, "3", webtest.Attr(bar, "value"))
	require.Equal(t, "9", webtest.Attr(bar, "max"))
	require.Len(t, d.Tags("polyline"), 1)
	require.True(t, webtest.Has(d.Find("href", "/?status=running"), "aria-current"))
}

func TestLaunchPutsFaultsBesideTheirSettings(t *testing.T) {
	d := show(t, Launch(view.Launch{
		Shell: shell, Preset: "windtunnel", Presets: []string{"windtunnel", "other"}, Invalid: 2,
		Faults: []view.Fault{{Field: "loop", Message: hostile}},
		Main: []view.Setting{
			{Key: "steps", Label: "Steps", Type: "integer", Value: "0", Preset: "150", Help: "Outer steps.", Fault: "is 0; use 1 or more"},
			{Key: "verifier.gate", Label: "Verifier gate", Type: "boolean", Value: "true", Preset: "true", Help: "Screens."},
			{Key: "corpus.path", Label: "Images", Type: "text", Value: hostile, Preset: hostile, Help: "A folder."},
		},
		Groups: []view.Group{{Name: "Model", Settings: []view.Setting{{Key: "model.train", Label: "Train", Type: "text", Value: "lora", Preset: "lora", Choices: []string{"full", "lora"}, Help: "How."}}}},
		YAML:   "name: " + hostile,
	}))
	form := d.Find("id", "launch")
	require.Equal(t, "post", webtest.Attr(form, "method"), "it works without script")
	steps := d.Find("id", "steps")
	require.Equal(t, "true", webtest.Attr(steps, "aria-invalid"))
	require.Contains(t, webtest.Attr(steps, "aria-describedby"), "fault-steps")
	require.Equal(t, "is 0; use 1 or more", webtest.Text(d.Find("id", "fault-steps")))
	require.Contains(t, webtest.Text(d.Find("id", "help-steps")), "Preset: 150")
	require.True(t, webtest.Has(d.Find("id", "verifier.gate"), "checked"))
	require.Equal(t, hostile, webtest.Attr(d.Find("id", "corpus.path"), "value"))
	require.Equal(t, "lora", webtest.Attr(d.All(func(n *html.Node) bool { return webtest.Has(n, "selected") && webtest.Attr(n, "value") == "lora" })[0], "value"))
	require.Contains(t, webtest.Text(d.Find("role", "alert")), "2 settings need another value")
}

func TestRun(t *testing.T) {
	panels := []view.Panel{{ID: "fact", Symbol: view.Symbol{Letter: "R", Sub: "fact"}, Title: "question factuality", Latest: "0.5",
		Keys: []view.Key{{Label: "R_fact", Dash: "solid"}, {Label: "truly grounded", Dash: "dashed", Oracle: true}}}}
	m := view.Run{
		Shell: shell, ID: "ab", Name: hostile, Status: view.Status{Name: "running"}, Done: 1, Steps: 9, CanStop: true, Panels: panels,
		Figure:  chart.Draw([]chart.Panel{{ID: "fact"}}, 9),
		Windows: []view.WindowRow{{Metric: "reward/r_fact/mean", Symbol: view.Symbol{Letter: "R", Sub: "fact"}, Title: "question factuality"}},
		YAML:    hostile, Log: []view.LogLine{{Level: "warn", Text: hostile, Time: "01:02:03"}},
		Live: view.Live{Run: "ab", Events: []any{map[string]string{"text": hostile}}},
	}
	m.Charts = true
	d := show(t, Run(m))
	require.Equal(t, "post", webtest.Attr(d.Find("id", "stop"), "method"))
	require.False(t, webtest.Has(d.Find("id", "stop"), "hidden"))
	require.True(t, webtest.Has(d.Find("id", "resume"), "hidden"))
	require.Equal(t, "status", webtest.Attr(d.Find("id", "status"), "role"), "a change is read out")
	require.True(t, webtest.Has(d.Find("data-window", "reward/r_fact/mean"), "hidden"), "rows wait for two steps")
	require.Contains(t, d.Find("id", "live").FirstChild.Data, `\u003c/script\u003e`, "text can't end the script that carries it")
	require.Contains(t, webtest.Text(d.Tags("main")[0]), "known truth")
	require.Contains(t, webtest.Text(d.Tags("main")[0]), "mean of the 15 steps")
	dashes := map[string]bool{}
	for _, n := range d.Tags("line") {
		dashes[webtest.Attr(n, "data-dash")] = true
	}
	require.Len(t, dashes, 2, "curves differ without colour")

	m.CanStop, m.CanResume, m.Status = false, true, view.Status{Name: "failed", Note: "out of memory"}
	d = show(t, Run(m))
	require.True(t, webtest.Has(d.Find("id", "stop"), "hidden"))
	require.False(t, webtest.Has(d.Find("id", "resume"), "hidden"))
	require.Equal(t, "out of memory", webtest.Text(d.Find("id", "status-note")))
}

func TestEpisodes(t *testing.T) {
	d := show(t, Episodes(view.Episodes{
		Shell: shell, RunName: hostile, RunURL: "/runs/ab", Filter: view.EpisodeFilter{Outcome: "mixed", Step: hostile, Text: hostile, Fault: "no step"},
		Outcomes: []view.Outcome{{Name: "mixed", Meaning: "some"}}, Next: "/runs/ab/episodes?cursor=x", First: "/runs/ab/episodes",
		Rows: []view.EpisodeRow{
			{URL: "/episodes/1", Image: "/api/v1/images/x", Outcome: view.Outcome{Name: "mixed"}, Question: hostile, Reference: hostile, Rollouts: 4, Correct: 1},
			{URL: "/episodes/2", Image: "/api/v1/images/x", Outcome: view.Outcome{Name: "rejected"}, Candidates: 4},
		},
	}))
	require.Len(t, d.All(func(n *html.Node) bool { return n.Data == "li" && webtest.Attr(n, "class") == "card" }), 2)
	require.Contains(t, webtest.Text(d.Find("href", "/episodes/2")), "None of 4 candidates")
	require.Equal(t, "n", webtest.Attr(d.Find("href", "/runs/ab/episodes?cursor=x"), "data-key"))
	require.Contains(t, webtest.Text(show(t, Episodes(view.Episodes{Shell: shell, RunName: "a", RunURL: "/runs/ab"})).Tags("main")[0]), "No episode yet")
}

func TestEpisode(t *testing.T) {
	said := view.Utterance{Text: hostile, Tokens: 7, FormatOK: true}
	broken := view.Utterance{Text: hostile, Truncated: true, Fault: "no JSON object"}
	verdict := view.Judgement{Name: "screening", Parsed: true, Verdict: []view.Fact{{Label: "grounded", Value: "yes"}, {Label: "answer right", Value: "no"}, {Label: "difficulty", Value: "0.7"}}, Justification: hostile, Utterance: said}
	k := view.Coefficients{AlphaQ: .3, BetaQ: .7, RhoF: .5, WC: .5, WR: .3, WF: .2}
	m := view.Episode{
		Shell: shell, RunName: hostile, RunURL: "/runs/ab", ListURL: "/runs/ab/episodes", Image: "/api/v1/images/x", ImageHash: hostile,
		Outcome: view.Outcome{Name: "overturned"}, Question: hostile, Reference: hostile, Final: hostile, Previous: "/episodes/1",
		Candidates: []view.Candidate{
			{G: 0, Question: hostile, Answer: hostile, Selected: true, Utterance: said, Screening: []view.Judgement{verdict}, Final: true,
				Sum:    view.QuestionerSum(k, view.QuestionerSignals{FormatOK: true, Fact: 1, Corr: 1, Difficulty: .7, Chal: .5, Selected: true, Evaluable: 4, Incorrect: 2, Reward: .5075}),
				Oracle: &view.Oracle{Parsed: true, Grounded: "yes", Right: "no", Answer: hostile, Conflict: "the Verifier passed a wrong answer"}},
			{G: 1, Utterance: broken, Final: true, Sum: view.QuestionerSum(k, view.QuestionerSignals{Reward: -.5})},
		},
		Rollouts: []view.Rollout{{K: 0, Think: hostile, Answer: hostile, Correct: true, Tier: "rule", Evaluable: true, Utterance: said, Final: true,
			Sum: view.SolverSum(k, view.SolverSignals{FormatOK: true, Correct: 1, Reason: .5, Reward: .2})}},
		Dispute: &view.Dispute{Reference: hostile, Majority: hostile, Outcome: "fallback", Overturned: true, Attempts: 3},
	}
	d := show(t, Episode(m))
	text := webtest.Text(d.Tags("main")[0])
	require.Contains(t, text, "1 × (0.3 × 0.525 + 0.7 × 0.5)=0.5075", "the reward is worked out with the numbers in")
	require.Contains(t, text, "2 incorrect of 4 evaluable")
	require.Contains(t, text, "malformed, so −ρ_f")
	require.Contains(t, text, "The stored reward is 0.2, the signals give 0.85.")
	require.Contains(t, text, "the Verifier passed a wrong answer")
	require.Contains(t, text, "No verdict could be read in 3 attempts")
	require.Contains(t, text, "grounded : yes", "marks are words too")
	require.Equal(t, "ArrowLeft", webtest.Attr(d.Find("href", "/episodes/1"), "data-key"))
	require.Len(t, d.All(func(n *html.Node) bool { return webtest.Attr(n, "aria-disabled") == "true" }), 1, "there is no next episode")
}

func TestTrouble(t *testing.T) {
	d := show(t, Trouble(view.Trouble{Shell: view.Shell{Title: "Not found", Static: "/static/abc/"}, Message: hostile}))
	require.Equal(t, "Not found", webtest.Text(d.Tags("h1")[0]))
}
