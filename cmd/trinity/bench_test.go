package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func bench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(&Context{Ctx: t.Context(), Stdout: &out, Stderr: &errs}, append([]string{"bench"}, args...))
	return code, out.String(), errs.String()
}

func benchEngine(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return bench(t, append([]string{"engine"}, args...)...)
}

func TestBenchModelWithoutPyTorch(t *testing.T) {
	code, out, errs := bench(t, "model", "--quick", "--rounds=1", "--python=/nowhere/python")
	require.Zero(t, code, errs)
	require.Contains(t, out, "pip install torch", "says how to get the reference")
	require.Contains(t, out, "| tiny")
}

// Both sides must do the same work: on the same weights and tokens the losses of the first step are equal but for rounding.
func TestBenchModelBesidePyTorch(t *testing.T) {
	code, out, errs := bench(t, "model", "--quick", "--rounds=1", "--json")
	require.Zero(t, code, errs)
	var report speedReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	if report.Reference == "" {
		t.Skip(report.Note)
	}
	require.Len(t, report.Rows, 5)
	for _, row := range report.Rows[1:] {
		require.Positive(t, row.Ratio)
		require.InEpsilon(t, row.TorchLoss, row.Loss, 1e-5, row.Work)
	}
}

func TestBenchEngineWithoutOpenBLAS(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, out, _ := benchEngine(t, "--quick", "--rounds=1", "--span=1ms", "--threads=1")
	require.Zero(t, code)
	require.Contains(t, out, "libopenblas0", "says how to get the reference")
	require.Contains(t, out, "512")

	code, out, _ = benchEngine(t, "--quick", "--rounds=1", "--span=1ms", "--threads=2", "--json")
	require.Zero(t, code)
	var report engineReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.NotEmpty(t, report.Note)
	require.Len(t, report.Rows, 3)
	for _, row := range report.Rows {
		require.Positive(t, row.Ours)
		require.Zero(t, row.Ratio)
		require.Equal(t, 2, row.Threads)
	}
}

func TestBenchEngineBesideOpenBLAS(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	t.Setenv("OPENBLAS_CORETYPE", "Prescott")
	code, out, errs := benchEngine(t, "--quick", "--rounds=2", "--span=4ms", "--json")
	require.Zero(t, code, errs)
	var report engineReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	if report.OpenBLAS == "" {
		t.Skip("OpenBLAS is not installed")
	}
	require.NotContains(t, report.OpenBLAS, "Prescott", "a forced core type must not reach the reference")
	require.Len(t, report.Rows, 6)
	require.Len(t, report.Summary, 2)
	for _, row := range report.Rows {
		require.InEpsilon(t, row.Ours/row.OpenBLAS, row.Ratio, 1e-9)
	}
}

func TestBenchEngineRefusesNonsense(t *testing.T) {
	for _, flag := range []string{"--rounds=0", "--span=0s", "--threads=0", "--threads=1000"} {
		code, _, errs := benchEngine(t, "--quick", flag)
		require.Equal(t, 2, code, flag)
		require.NotEmpty(t, errs)
	}
}

func TestWithoutOpenBLASSettings(t *testing.T) {
	require.Equal(t, []string{"HOME=/x", "EMPTY="}, withoutOpenBLASSettings(
		[]string{"HOME=/x", "OPENBLAS_CORETYPE=Prescott", "OPENBLAS_L2_SIZE=1", "OMP_NUM_THREADS=1", "EMPTY="}))
	require.NotEmpty(t, withoutOpenBLASSettings(os.Environ()))
}

func TestSummariseRatios(t *testing.T) {
	sums := summarise([]engineRow{{Threads: 1, Ratio: 0.5}, {Threads: 2, Ratio: 1}, {Threads: 1, Ratio: 2}, {Threads: 2}})
	require.Len(t, sums, 2)
	require.Equal(t, engineSum{Threads: 2, Ratio: 1, Worst: 1}, sums[1])
	require.InEpsilon(t, 1.0, sums[0].Ratio, 1e-12)
	require.Equal(t, 0.5, sums[0].Worst)
}

func TestBenchMemory(t *testing.T) {
	if _, err := residentPeak(); err != nil {
		t.Skip(err)
	}
	t.Setenv(asProgram, "1")
	code, out, errs := bench(t, "memory", "--quick", "--json")
	require.Zero(t, code, errs)
	var rows []memoryRow
	require.NoError(t, json.Unmarshal([]byte(out), &rows))
	require.Len(t, rows, 5)
	for _, r := range rows {
		require.Greater(t, r.Peak, r.Program+r.Weights, r.Work)
		require.InEpsilon(t, float64(r.Peak)/float64(r.needed()), r.Ratio, 1e-9)
		require.Equal(t, r.Work == "generate", r.KV > 0)
		require.Equal(t, r.Work != "generate", r.Optimiser > 0 && r.Gradient > 0)
		require.Positive(t, r.Activations)
	}
	var text bytes.Buffer
	require.NoError(t, printMemory(&text, 2, rows))
	require.Contains(t, text.String(), "| tiny")

	code, _, errs = bench(t, "memory", "--threads=0")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--threads")
}

func TestBenchContext(t *testing.T) {
	code, out, errs := bench(t, "context", "--quick", "--rounds=1", "--json")
	require.Zero(t, code, errs)
	var report contextReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Rows, 3)
	for _, r := range report.Rows {
		require.Positive(t, r.Decode)
		require.Positive(t, r.Forward)
		require.Positive(t, r.Step)
	}
	code, _, errs = bench(t, "context", "--rounds=0")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--rounds")
}

func TestGrowthIsAnExponent(t *testing.T) {
	g := growthOf([]contextRow{{Context: 128, Decode: 1, Forward: 1, Step: 1}, {Context: 256, Decode: 2, Forward: 1, Step: 1.1}, {Context: 512, Decode: 4, Forward: 2, Step: 16}})
	require.InDelta(t, 1, g.Decode, 1e-12)
	require.InDelta(t, .5, g.Forward, 1e-12)
	require.InDelta(t, 2, g.Step, 1e-12)
}

// The counts follow from the seed, and sharing saves something of every step.
func TestBenchPrefix(t *testing.T) {
	small := []string{"prefix", "--steps=1", "--json", "--set=corpus.images_per_step=2"}
	code, out, errs := bench(t, small...)
	require.Zero(t, code, errs)
	var report prefixReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Positive(t, report.Computed)
	require.Positive(t, report.Decoded)
	require.Less(t, report.Share, .8)
	_, again, _ := bench(t, append(small, "--set=threads=1")...)
	require.Equal(t, out, again)

	code, _, errs = bench(t, "prefix", "--steps=0")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "steps")
}

func TestBenchAllIsAPage(t *testing.T) {
	if _, err := residentPeak(); err != nil {
		t.Skip(err)
	}
	t.Setenv(asProgram, "1")
	code, out, errs := bench(t, "all", "--quick", "--rounds=1", "--python=/nowhere/python")
	require.Zero(t, code, errs)
	for _, part := range []string{"engine", "model", "context", "prefix", "memory"} {
		require.Contains(t, out, "`trinity bench "+part+"`\n\n")
	}
}
