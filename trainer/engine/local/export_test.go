package local

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/safetensors"
)

// A checkpoint is exported with what describes it and nothing that belongs to its old weights.
func TestExportedCheckpointIsComplete(t *testing.T) {
	ctx := context.Background()
	dir := newModel(t)
	for _, name := range []string{"generation_config.json", "chat_template.jinja", "merges.txt", "LICENSE", "README.md", "model.safetensors.index.json.bak", "pytorch_model.bin", "training_args.bin"} {
		text := map[string]string{"generation_config.json": "{}", "chat_template.jinja": defaultTemplate}[name]
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	elsewhere := filepath.Join(t.TempDir(), "blob")
	require.NoError(t, os.WriteFile(elsewhere, []byte("{}"), 0o644))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "tokenizer_config.json")))
	e := open(t, dir, "lora", 1)
	update(t, e, 2)
	for format, torch := range map[engine.Format]string{engine.CheckpointF32: "float32", engine.CheckpointBF16: "bfloat16"} {
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, e.Export(ctx, engine.Policy, format, out))
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		var names []string
		for _, f := range entries {
			names = append(names, f.Name())
		}
		require.Equal(t, []string{"LICENSE", "chat_template.jinja", "config.json", "generation_config.json", "merges.txt", "model.safetensors", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"}, names)
		var config map[string]any
		b, err := os.ReadFile(filepath.Join(out, "config.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &config))
		require.Equal(t, torch, config["dtype"])
		set, err := safetensors.OpenDir(out)
		require.NoError(t, err)
		defer set.Close()
		info, _ := set.Info("lm_head.weight")
		require.Equal(t, strings.ToUpper(string(format)), string(info.DType))
		back := open(t, out, "lora", 1)
		if format == engine.CheckpointF32 {
			require.Equal(t, e.policy.Flat, back.policy.Flat)
		} else {
			require.InDeltaSlice(t, e.policy.Flat, back.policy.Flat, 0.01)
		}
	}
	require.ErrorContains(t, e.Export(ctx, "base", engine.CheckpointF32, t.TempDir()), `weight slot "base"`)
	require.ErrorContains(t, e.Export(ctx, engine.Policy, "f16", t.TempDir()), `format "f16" is unknown`)
	require.ErrorContains(t, e.Export(ctx, engine.Verifier, engine.PEFT, t.TempDir()), `export "verifier" as an adapter`)
	require.ErrorContains(t, open(t, dir, "full", 1).Export(ctx, engine.Policy, engine.PEFT, t.TempDir()), `export "policy" as an adapter`)
}

func TestSetDType(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":1e-6}`, `{"a":1e-6,"dtype":"float32"}`},
		{`{"torch_dtype":"bfloat16","text_config":{"torch_dtype":"bfloat16","n":12345678901234567890}}`, `{"torch_dtype":"float32","text_config":{"torch_dtype":"float32","n":12345678901234567890}}`},
		{`{"dtype":"float16","vision_config":{"dtype":null}}`, `{"dtype":"float32","vision_config":{"dtype":null}}`},
	} {
		out, err := setDType([]byte(c.in), "float32")
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(out))
		require.Equal(t, strings.Contains(c.in, "12345678901234567890"), strings.Contains(string(out), "12345678901234567890"), "numbers stay as written")
	}
	_, err := setDType([]byte("[]"), "float32")
	require.ErrorContains(t, err, "config.json")
}
