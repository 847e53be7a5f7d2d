package local

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/safetensors"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// trainedAdapter returns an engine whose policy was trained for a little, and its exported adapter.
func trainedAdapter(t *testing.T, model string) (*Engine, string) {
	t.Helper()
	e := open(t, model, "lora", 2)
	update(t, e, 2)
	dir := filepath.Join(t.TempDir(), "adapter")
	require.NoError(t, e.Export(context.Background(), engine.Policy, engine.PEFT, dir))
	return e, dir
}

func TestAdapterRoundTrip(t *testing.T) {
	ctx := context.Background()
	model := newModel(t)
	e, dir := trainedAdapter(t, model)

	reader, err := Open(model, Options{Adapter: dir})
	require.NoError(t, err)
	require.Equal(t, e.policy.Flat, reader.policy.Flat)
	require.Zero(t, reader.Info().Trainable)
	require.ErrorIs(t, reader.Save(ctx, t.TempDir()), errReadOnly)
	require.ErrorIs(t, reader.Restore(ctx, t.TempDir()), errReadOnly)
	_, err = reader.Average(ctx, engine.Verifier, engine.Policy, .5)
	require.ErrorIs(t, err, errReadOnly)
	_, err = reader.Update(ctx, nil, engine.Objective{}, 1)
	require.ErrorIs(t, err, errReadOnly)

	for _, train := range []string{"lora", "full"} {
		further, err := Open(model, Options{Adapter: dir, Model: spec.ModelConfig{Train: train, FreezeVision: true, LoRA: spec.LoRAConfig{Rank: 4, Alpha: 8}}, Optimizer: adam(), Seed: 77})
		require.NoError(t, err)
		require.Equal(t, e.policy.Flat, further.policy.Flat, train)
		require.InDeltaSlice(t, further.policy.Fork(e.config, further.averaged).Flat, further.verifier.Flat, 1e-7, "the Verifier starts as the policy does")
		if train == "lora" {
			require.Equal(t, e.adapters.Flat, further.adapters.Flat)
		}
	}
	_, err = Open(model, Options{Adapter: dir, Model: spec.ModelConfig{Train: "lora", LoRA: spec.LoRAConfig{Rank: 8, Alpha: 8}}})
	require.ErrorContains(t, err, "set model.lora.rank=4 and model.lora.alpha=8")
}

// The frozen tensors are held once, however many slots there are.
func TestFrozenTensorsAreShared(t *testing.T) {
	e := open(t, newModel(t), "lora", 1)
	own := 0
	for i, w := range e.verifier.Tensors {
		require.Equal(t, !qwenvl.IsAdapted(w.Name), &w.Data[0] == &e.policy.Tensors[i].Data[0], w.Name)
		if qwenvl.IsAdapted(w.Name) {
			own += len(w.Data)
		}
	}
	require.Len(t, e.verifier.Flat, own)
	require.Len(t, e.base.Flat, own)
	require.Len(t, e.delta, own)
	reader, err := Open(e.dir, Options{})
	require.NoError(t, err)
	require.Same(t, reader.policy, reader.verifier)
	require.Nil(t, reader.delta)
}

// edit rewrites an adapter's configuration and its tensors.
func edit(t *testing.T, dir string, fields map[string]any, tensors func([]safetensors.Tensor) []safetensors.Tensor) string {
	t.Helper()
	out := t.TempDir()
	b, err := os.ReadFile(filepath.Join(dir, adapterConfigFile))
	require.NoError(t, err)
	config := map[string]any{}
	require.NoError(t, json.Unmarshal(b, &config))
	for k, v := range fields {
		config[k] = v
	}
	b, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(out, adapterConfigFile), b, 0o644))
	f, err := safetensors.Open(filepath.Join(dir, adapterWeightsFile))
	require.NoError(t, err)
	defer f.Close()
	var ts []safetensors.Tensor
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		data, err := f.Float32(name)
		require.NoError(t, err)
		ts = append(ts, safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: info.Shape, Data: data})
	}
	if tensors != nil {
		ts = tensors(ts)
	}
	require.NoError(t, safetensors.Write(filepath.Join(out, adapterWeightsFile), ts, nil))
	return out
}

func TestAdaptersOfOthers(t *testing.T) {
	model := newModel(t)
	e, dir := trainedAdapter(t, model)
	older := func(ts []safetensors.Tensor) []safetensors.Tensor {
		for i := range ts {
			ts[i].Name = strings.Replace(ts[i].Name, "model.language_model.", "model.", 1)
		}
		return ts
	}
	only := func(module string) func([]safetensors.Tensor) []safetensors.Tensor {
		return func(ts []safetensors.Tensor) []safetensors.Tensor {
			return slices.DeleteFunc(ts, func(x safetensors.Tensor) bool { return !strings.Contains(x.Name, module) })
		}
	}
	for name, c := range map[string]struct {
		fields  map[string]any
		tensors func([]safetensors.Tensor) []safetensors.Tensor
		changed string // tensors that differ from the checkpoint's; empty means all seven
	}{
		"older spelling":     {nil, older, ""},
		"expression":         {map[string]any{"target_modules": `model\.language_model\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)`}, nil, ""},
		"older expression":   {map[string]any{"target_modules": `.*\bmodel\.layers\..*_proj`}, older, ""},
		"values only":        {map[string]any{"target_modules": []string{"v_proj"}, "lora_dropout": 0.1, "eva_config": nil, "init_lora_weights": true}, only("v_proj"), "v_proj"},
		"one module by path": {map[string]any{"target_modules": []string{"layers.1.mlp.up_proj"}}, only("layers.1.mlp.up_proj"), "layers.1.mlp.up_proj"},
		"unknown, but off":   {map[string]any{"use_something": false, "something_config": nil, "pattern": map[string]any{}, "list": []string{}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			back, err := Open(model, Options{Adapter: edit(t, dir, c.fields, c.tensors)})
			require.NoError(t, err)
			plain, err := Open(model, Options{})
			require.NoError(t, err)
			for i, w := range back.policy.Tensors {
				if qwenvl.IsAdapted(w.Name) && strings.Contains(w.Name, c.changed) {
					require.Equal(t, e.policy.Tensors[i].Data, w.Data, w.Name)
					require.NotEqual(t, plain.policy.Tensors[i].Data, w.Data, w.Name)
				} else {
					require.Equal(t, plain.policy.Tensors[i].Data, w.Data, w.Name)
				}
			}
		})
	}
}

func TestForeignAdaptersAreRefusedByName(t *testing.T) {
	model := newModel(t)
	_, dir := trainedAdapter(t, model)
	drop := func(ts []safetensors.Tensor) []safetensors.Tensor { return ts[1:] }
	add := func(ts []safetensors.Tensor) []safetensors.Tensor {
		return append(ts, safetensors.Tensor{Name: "base_model.model.model.visual.blocks.0.mlp.linear_fc1.lora_A.weight", DType: safetensors.F32, Shape: []int{4, 16}, Data: make([]float32, 64)})
	}
	for want, c := range map[string]struct {
		fields  map[string]any
		tensors func([]safetensors.Tensor) []safetensors.Tensor
	}{
		"use_rslora is true":                      {map[string]any{"use_rslora": true}, nil},
		"use_dora is true":                        {map[string]any{"use_dora": true}, nil},
		"modules_to_save is [lm_head]":            {map[string]any{"modules_to_save": []string{"lm_head"}}, nil},
		"rank_pattern is map[q_proj:8]":           {map[string]any{"rank_pattern": map[string]int{"q_proj": 8}}, nil},
		"layers_to_transform is [0]":              {map[string]any{"layers_to_transform": []int{0}}, nil},
		"use_invention is true":                   {map[string]any{"use_invention": true}, nil},
		"fan_in_fan_out is true":                  {map[string]any{"fan_in_fan_out": true}, nil},
		"bias is all; supported: none":            {map[string]any{"bias": "all"}, nil},
		"peft_type is LOHA; supported: LORA":      {map[string]any{"peft_type": "LOHA"}, nil},
		`init_lora_weights is "pissa"`:            {map[string]any{"init_lora_weights": "pissa"}, nil},
		"r is 0; it must be a rank":               {map[string]any{"r": 0}, nil},
		"r is 2.5; it must be a rank":             {map[string]any{"r": 2.5}, nil},
		"lora_alpha is <nil>; it must be":         {map[string]any{"lora_alpha": nil}, nil},
		"has shape [4 32]; the configuration":     {map[string]any{"r": 8}, nil},
		"target_modules: is <nil>":                {map[string]any{"target_modules": nil}, nil},
		"target_modules: error parsing regexp":    {map[string]any{"target_modules": "(?!x)"}, nil},
		"only the decoder's q_proj, k_proj":       {map[string]any{"target_modules": []string{"q_proj"}}, nil},
		"it adapts no module of the decoder":      {map[string]any{"target_modules": []string{"fc1"}}, func([]safetensors.Tensor) []safetensors.Tensor { return nil }},
		"q_proj.lora_A.weight is missing":         {nil, drop},
		"visual.blocks.0.mlp.linear_fc1.lora_A.w": {nil, add},
	} {
		_, err := Open(model, Options{Adapter: edit(t, dir, c.fields, c.tensors)})
		require.ErrorContains(t, err, want)
	}
	_, err := Open(model, Options{Adapter: model})
	require.ErrorContains(t, err, "give a folder in PEFT's format")
}
