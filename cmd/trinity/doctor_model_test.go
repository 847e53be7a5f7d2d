package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/configs"
)

// inspectModel asks for the report on a folder.
func inspectModel(t *testing.T, wantCode int, args ...string) (r checkpointReport, stderr string) {
	t.Helper()
	code, stdout, stderr := invoke(append([]string{"--json", "doctor"}, args...)...)
	require.Equal(t, wantCode, code, stderr)
	if stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	}
	return r, stderr
}

func statuses(r checkpointReport) map[string]string {
	m := map[string]string{}
	for _, k := range r.Files {
		m[k.Name] = k.Status
	}
	return m
}

// The counts of the released 8B checkpoint, from its config.json alone.
func TestDoctorCountsQwen3VL8B(t *testing.T) {
	const dir = "testdata/qwen3-vl-8b"
	r, _ := inspectModel(t, 0, "--model", dir)
	require.Equal(t, map[string]int{"vision": 415_891_440, "merger": 160_496_896, "text": 7_568_405_504, "head": 622_329_856, "total": 8_767_123_696}, r.Parameters)
	require.Equal(t, trainReport{Mode: "lora", Rank: 32, Trainable: 87_293_952}, r.Train)
	require.Equal(t, map[string]string{"config.json": "ok", "tokenizer.json": "missing", "preprocessor_config.json": "missing", "weights": "missing", "chat template": "warning"}, statuses(r))
	require.False(t, r.OK)
	sum := 0
	for _, term := range r.Memory.Terms {
		require.Positive(t, term.Bytes, term.Name)
		sum += term.Bytes
	}
	require.Equal(t, sum, r.Memory.Total)
	require.Equal(t, "8,767,123,696 weights x 4 bytes", r.Memory.Terms[0].Formula)

	r, _ = inspectModel(t, 0, "--model", dir, "--rank", "8")
	require.Equal(t, 87_293_952/4, r.Train.Trainable)
	r, _ = inspectModel(t, 0, "--model", dir, "--set", "model.train=full")
	require.Equal(t, trainReport{Mode: "full", Trainable: r.Parameters["text"] + r.Parameters["head"]}, r.Train)

	code, stdout, stderr := invoke("doctor", "--model", dir)
	require.Zero(t, code, stderr)
	for _, want := range []string{"8,767,123,696 parameters", "LoRA, rank 32: 87,293,952 parameters to train", "missing  tokenizer.json", " copies: the sum, one a thread x 87,293,952 parameters x 4 bytes"} {
		require.Contains(t, stdout, want)
	}
}

// The counts of the released Qwen2.5-VL checkpoints are those of transformers' models.
func TestDoctorCountsQwen25VL(t *testing.T) {
	for dir, want := range map[string]checkpointReport{
		"testdata/qwen2.5-vl-7b": {Parameters: map[string]int{"vision": 631_975_680, "merger": 44_574_464, "text": 7_070_619_136, "head": 544_997_376, "total": 8_292_166_656},
			Train: trainReport{Mode: "lora", Rank: 32, Trainable: 80_740_352}},
		"testdata/qwen2.5-vl-3b": {Parameters: map[string]int{"vision": 631_975_680, "merger": 36_708_608, "text": 3_085_938_688, "head": 0, "total": 3_754_622_976}, // tied
			Train: trainReport{Mode: "lora", Rank: 32, Trainable: 59_867_136}},
	} {
		r, _ := inspectModel(t, 0, "--model", dir, "--from", "trinity-qwen2.5-vl-7b", "--rank", "32")
		require.Equal(t, "Qwen2.5-VL", r.Architecture)
		require.Equal(t, want.Parameters, r.Parameters)
		require.Equal(t, want.Train, r.Train)
	}
}

func TestDoctorLooksAtTheFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, configs.Models))
	dir = filepath.Join(dir, "model", "windtunnel")
	r, _ := inspectModel(t, 0, "--model", dir, "-f", "windtunnel")
	require.True(t, r.OK)
	require.True(t, r.Memory.Fits)

	shard := []byte(`{"weight_map":{"lm_head.weight":"model-1.safetensors","x":"model-2.safetensors"}}`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), shard, 0o644))
	r, _ = inspectModel(t, 0, "--model", dir, "-f", "windtunnel")
	require.Equal(t, "missing", statuses(r)["weights"])
	require.Contains(t, r.Files[3].Found, "2 of 2 shards cannot be read")
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors.index.json")))

	require.NoError(t, os.Truncate(filepath.Join(dir, "model.safetensors"), 1<<20))
	r, stderr := inspectModel(t, 1, "--model", dir, "-f", "windtunnel")
	require.Equal(t, "error", statuses(r)["weights"])
	require.Contains(t, stderr, "1 of 5 files of")

	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	var c map[string]any
	require.NoError(t, json.Unmarshal(b, &c))
	c["text_config"].(map[string]any)["hidden_act"] = "gelu"
	b, err = json.Marshal(c)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644))
	_, stderr = inspectModel(t, 2, "--model", dir)
	require.Contains(t, stderr, `text_config.hidden_act is "gelu"; supported: silu`)
	_, stderr = inspectModel(t, 2, "--model", filepath.Join(dir, "absent"))
	require.Contains(t, stderr, "config.json")
	_, stderr = inspectModel(t, 2, "--model", dir, "--set", "steps=many")
	require.Contains(t, stderr, "give a whole number")
}
