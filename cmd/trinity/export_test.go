package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExportOfARun(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	code, _, stderr := invoke("train", "-f", "windtunnel", "-o", run, "--set", "steps=2", "--set", "corpus.images_per_step=1", "--set", "checkpoint.every=1")
	require.Zero(t, code, stderr)
	for what, file := range map[string]string{"adapter": "adapter_config.json", "model": "config.json"} {
		out := filepath.Join(dir, what)
		code, stdout, stderr := invoke("--json", "export", what, "--run", run, "--step", "1", "-o", out)
		require.Zero(t, code, stderr)
		require.FileExists(t, filepath.Join(out, file))
		var answer struct{ Step int }
		require.NoError(t, json.Unmarshal([]byte(stdout), &answer))
		require.Equal(t, 1, answer.Step)
		code, _, stderr = invoke("export", what, "--run", run, "-o", out)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, "is not empty")
		code, _, stderr = invoke("export", what, "--run", run, "--step", "9", "-o", filepath.Join(dir, "x"))
		require.Equal(t, 2, code)
		require.Contains(t, stderr, "it keeps those after 1, 2")
	}
	code, _, stderr = invoke("export", "model", "--run", run, "--slot", "verifier", "--dtype", "bf16", "-o", filepath.Join(dir, "v"))
	require.Zero(t, code, stderr)
	half, err := os.Stat(filepath.Join(dir, "v", "model.safetensors"))
	require.NoError(t, err)
	whole, err := os.Stat(filepath.Join(dir, "model", "model.safetensors"))
	require.NoError(t, err)
	require.InDelta(t, 0.5, float64(half.Size())/float64(whole.Size()), 0.01)
}
