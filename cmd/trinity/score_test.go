package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func trinity(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(&Context{Ctx: t.Context(), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs}, args)
	return code, out.String(), errs.String()
}

func scoreLines(t *testing.T, out string) []scoredEpisode {
	t.Helper()
	var all []scoredEpisode
	for line := range strings.Lines(out) {
		var e scoredEpisode
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		all = append(all, e)
	}
	return all
}

func TestScore(t *testing.T) {
	code, out, _ := trinity(t, `{"candidates":[{"format_ok":true,"fact_q":1,"corr_a":1,"difficulty":0.7,"selected":true},{"format_ok":true,"fact_q":1,"corr_a":1,"difficulty":0.7},{"format_ok":true,"fact_q":0,"corr_a":0,"difficulty":1},{"format_ok":false}],"rollouts":[{"format_ok":true,"correct":0,"reason":1},{"format_ok":true,"correct":0},{"format_ok":true,"correct":0},{"format_ok":true,"correct":1,"reason":0.5}]}

{"candidates":[{"format_ok":false},{"format_ok":false}],"rollouts":[]}
{"candidates":[{"format_ok":true,"fact_q":1,"corr_a":1,"difficulty":0.7,"selected":true}],"rollouts":[{"format_ok":false,"correct":0},{"format_ok":true,"correct":1,"reason":1,"evaluable":false}]}
{"candidates":[{"format_ok":true,"fact_q":1,"corr_a":1,"difficulty":1}],"rollouts":[],"coefficients":{"alpha_q":1},"id":7}
`, "score")
	require.Zero(t, code)
	got := scoreLines(t, out)
	require.Len(t, got, 4)
	require.EqualValues(t, .75, got[0].RChal)
	require.InDelta(t, .70875, float64(got[0].Candidates[0].Reward), 1e-12)
	require.InDelta(t, .6125, float64(got[0].Candidates[0].RDiffTilde), 1e-12)
	require.InDelta(t, .105, float64(got[0].Candidates[1].Reward), 1e-12)
	require.EqualValues(t, 0, got[0].Candidates[2].Reward)
	require.EqualValues(t, -.5, got[0].Candidates[3].Reward)
	require.InDelta(t, .85, float64(got[0].Rollouts[3].Reward), 1e-12)
	require.InDelta(t, 1.732051, float64(got[0].Rollouts[3].Advantage), 1e-6)
	require.True(t, got[0].Rollouts[0].Retained)

	require.EqualValues(t, -.5, got[1].Candidates[0].Advantage, "no variance, negative mean")
	require.Contains(t, out, `"rollouts":[]`)
	require.EqualValues(t, 0, got[2].RChal, "nothing evaluable")
	require.EqualValues(t, 0, got[2].Rollouts[0].Reward)
	require.InDelta(t, .5, float64(got[3].Candidates[0].Reward), 1e-12)
	require.False(t, got[3].Candidates[0].Retained)
}

func TestScoreRefusesBadLinesInPlace(t *testing.T) {
	good := `{"candidates":[{"format_ok":false}],"rollouts":[]}`
	bad := map[string]string{
		`{`:                                   "not valid JSON",
		`[]`:                                  "a JSON object was expected",
		`null`:                                "a JSON object was expected",
		`{}`:                                  "candidates",
		good + good:                           "not valid JSON",
		"\x00\xff":                            "a JSON object was expected",
		`{"candidates":[{}]}`:                 "candidates[0].format_ok is missing",
		`{"candidates":[{"format_ok":1}]}`:    "format_ok is a number",
		`{"candidates":[{"format_ok":true}]}`: "fact_q is missing",
		`{"candidates":[{"format_ok":true,"fact_q":1,"difficulty":1}]}`:                            "corr_a is missing",
		`{"candidates":[{"format_ok":true,"fact_q":1,"corr_a":1}]}`:                                "difficulty is missing",
		`{"candidates":[{"format_ok":true,"fact_q":0.5}]}`:                                         "give 0 or 1",
		`{"candidates":[{"format_ok":true,"fact_q":1,"corr_a":1,"difficulty":7}]}`:                 "from 0 to 1",
		`{"candidates":[{"format_ok":true,"fact_q":1,"corr_a":1,"difficulty":1e999}]}`:             "difficulty",
		`{"candidates":[{"format_ok":true,"fact_q":"NaN"}]}`:                                       "fact_q is a string",
		`{"candidates":[{"format_ok":false,"selected":true},{"format_ok":false,"selected":true}]}`: "2 candidates are selected",
		`{"rollouts":[{"format_ok":true}]}`:                                                        "correct is missing",
		`{"rollouts":[{"correct":1}]}`:                                                             "rollouts[0].format_ok is missing",
		`{"candidates":[],"coefficients":{"alphaq":1}}`:                                            "alpha_q",
		`{"candidates":[],"coefficients":{"alpha_q":-1}}`:                                          "from 0 to 10",
	}
	var in strings.Builder
	var wants []string
	for line, want := range bad {
		in.WriteString(line + "\n" + good + "\n")
		wants = append(wants, want)
	}
	code, out, errs := trinity(t, in.String()+good, "score")
	require.Equal(t, 1, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2*len(bad)+1)
	for i, want := range wants {
		var refused struct{ Error string }
		require.NoError(t, json.Unmarshal([]byte(lines[2*i]), &refused))
		require.Contains(t, refused.Error, want)
		require.Contains(t, lines[2*i+1], `"reward":-0.5`)
	}
	require.Equal(t, 1, strings.Count(errs, "\n"), "one line on standard error")
	require.Contains(t, errs, "trinity: 20 of 41 lines were refused")
}

func TestScoreLongLine(t *testing.T) {
	good := `{"candidates":[{"format_ok":false}]}`
	code, out, _ := trinity(t, strings.Repeat(" ", longestLine)+good+"\n"+strings.Repeat(" ", 1<<20)+good, "score")
	require.Equal(t, 1, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], "longer than 16 MiB")
	require.Contains(t, lines[1], `"reward":-0.5`)
}

func TestScoreEndsWithItsContextWhileInputBlocks(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r, w := io.Pipe()
	defer w.Close()
	require.Equal(t, 1, run(&Context{Ctx: ctx, Stdin: r, Stdout: io.Discard, Stderr: io.Discard}, []string{"score"}))
}

func TestMatch(t *testing.T) {
	code, out, _ := trinity(t, "", "match", "--ref", `\frac{1}{2}`, "--pred", "0.5 cm")
	require.Zero(t, code)
	require.Equal(t, `{"verdict":"match","tier":"rule","normalized_ref":"0.5","normalized_pred":"0.5 cm"}`+"\n", out)

	code, out, _ = trinity(t, `{"ref":"100","pred":"102"}
{"ref":"x <= 2","pred":"king"}
`, "match")
	require.Zero(t, code)
	require.Equal(t, `{"verdict":"mismatch","tier":"guard","normalized_ref":"100","normalized_pred":"102"}
{"verdict":"undecided","tier":"none","normalized_ref":"x<=2","normalized_pred":"king"}
`, out)

	code, out, _ = trinity(t, `{"ref":"100"}`+"\n"+`{"ref":"","pred":""}`+"\n"+`{"ref":5,"pred":"5"}`, "match")
	require.Equal(t, 1, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Contains(t, lines[0], "both needed")
	require.Contains(t, lines[1], "undecided")
	require.Contains(t, lines[2], "a string was expected")

	code, _, errs := trinity(t, "", "match", "--ref", "5")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--pred")
	code, out, _ = trinity(t, "", "match", "--ref=-5", "--pred=")
	require.Zero(t, code)
	require.Contains(t, out, "undecided")
}
