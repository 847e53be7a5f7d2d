package local

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine/enginetest"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/safetensors"
)

// stored is a tensor in a file. Its values are multiples of 1/32 up to 2, which F32, F16 and BF16 hold alike.
type stored struct {
	shape []int
	dtype safetensors.DType
	data  []float32
}

// encode writes values that F16 holds exactly; no code but this test's writes F16.
func (s stored) encode() (out []byte) {
	for _, v := range s.data {
		b := math.Float32bits(v)
		switch s.dtype {
		case safetensors.F32:
			out = binary.LittleEndian.AppendUint32(out, b)
		case safetensors.BF16:
			out = binary.LittleEndian.AppendUint16(out, uint16(b>>16))
		case safetensors.F16:
			half := uint16(b >> 16 & 0x8000)
			if v != 0 {
				half |= uint16((b>>23&0xff)-112)<<10 | uint16(b>>13&0x3ff)
			}
			out = binary.LittleEndian.AppendUint16(out, half)
		default:
			out = append(out, make([]byte, 8)...) // I64
		}
	}
	return out
}

// writeShards writes tensors, dealt out to n files with an index.
func writeShards(t *testing.T, dir string, n int, tensors map[string]stored) {
	t.Helper()
	type entry struct {
		DType   safetensors.DType `json:"dtype"`
		Shape   []int             `json:"shape"`
		Offsets [2]int            `json:"data_offsets"`
	}
	headers, bodies, owner := make([]map[string]entry, n), make([][]byte, n), map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(tensors)) {
		s, k := tensors[name], i%n
		if headers[k] == nil {
			headers[k] = map[string]entry{}
		}
		from := len(bodies[k])
		bodies[k] = append(bodies[k], s.encode()...)
		headers[k][name] = entry{s.dtype, s.shape, [2]int{from, len(bodies[k])}}
		owner[name] = fmt.Sprintf("model-%05d-of-%05d.safetensors", k+1, n)
	}
	for k := range n {
		h, err := json.Marshal(headers[k])
		require.NoError(t, err)
		file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("model-%05d-of-%05d.safetensors", k+1, n)), append(file, bodies[k]...), 0o644))
	}
	index, err := json.Marshal(map[string]any{"weight_map": owner})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, safetensors.IndexFile), index, 0o644))
}

// shardedModel writes a model of several shards, changed by edit, and returns the weights that it should have.
func shardedModel(t *testing.T, tied bool, edit func(map[string]stored)) (dir string, want map[string][]float32) {
	t.Helper()
	config, tok, processor := enginetest.TinyFiles(t, tied)
	dir = t.TempDir()
	for name, b := range map[string][]byte{"config.json": config, "tokenizer.json": tok, "preprocessor_config.json": processor} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	c, err := qwenvl.ParseConfig(config)
	require.NoError(t, err)
	tensors := map[string]stored{}
	want = map[string][]float32{}
	for i, w := range qwenvl.NewWeights(c, nil).Tensors {
		for k := range w.Data {
			w.Data[k] = float32((k*7+i)%129-64) / 32
		}
		want[w.Name] = w.Data
		tensors[w.Name] = stored{w.Shape, safetensors.BF16, w.Data}
	}
	edit(tensors)
	writeShards(t, dir, 3, tensors)
	return dir, want
}

func rename(tensors map[string]stored, old, name string) {
	for _, k := range slices.Collect(maps.Keys(tensors)) {
		if strings.HasPrefix(k, old) {
			tensors[name+k[len(old):]] = tensors[k]
			delete(tensors, k)
		}
	}
}

func TestShardsOfEveryTypeAndSpelling(t *testing.T) {
	for _, tied := range []bool{false, true} {
		for name, edit := range map[string]func(map[string]stored){
			"bf16": func(map[string]stored) {},
			"mixed": func(ts map[string]stored) {
				for i, name := range slices.Sorted(maps.Keys(ts)) {
					s := ts[name]
					s.dtype = []safetensors.DType{safetensors.F32, safetensors.F16, safetensors.BF16}[i%3]
					ts[name] = s
				}
			},
			"older names": func(ts map[string]stored) {
				rename(ts, "model.visual.", "visual.")
				rename(ts, "model.language_model.", "model.")
				ts["model.layers.0.self_attn.rotary_emb.inv_freq"] = stored{[]int{1}, safetensors.F32, []float32{1}}
			},
			"stored though tied": func(ts map[string]stored) {
				s := ts["model.language_model.embed_tokens.weight"]
				if tied {
					ts[headName] = s
				}
			},
		} {
			t.Run(fmt.Sprint(name, " tied ", tied), func(t *testing.T) {
				dir, want := shardedModel(t, tied, edit)
				e, err := Open(dir, Options{})
				require.NoError(t, err)
				for _, w := range e.policy.Tensors {
					require.Equal(t, want[w.Name], w.Data, w.Name)
				}
			})
		}
	}
}

func TestFaultyWeightsAreRefusedByName(t *testing.T) {
	const gate = "model.language_model.layers.1.mlp.gate_proj.weight"
	for want, edit := range map[string]func(map[string]stored){
		"tensor " + gate + " is missing; the safetensors files hold": func(ts map[string]stored) { delete(ts, gate) },
		"safetensors: tensor " + gate + " has shape [32 64]; the configuration implies [64 32]": func(ts map[string]stored) {
			ts[gate] = stored{[]int{32, 64}, safetensors.BF16, ts[gate].data}
		},
		"safetensors: tensor " + gate + " is stored as I64": func(ts map[string]stored) {
			ts[gate] = stored{[]int{64, 32}, "I64", ts[gate].data}
		},
		"tensor extra.weight has no place": func(ts map[string]stored) { ts["extra.weight"] = stored{[]int{1}, safetensors.F32, []float32{1}} },
		"tensor visual.pos_embed.weight has no place": func(ts map[string]stored) { // both spellings at once
			ts["visual.pos_embed.weight"] = ts["model.visual.pos_embed.weight"]
		},
		"tensor lm_head.weight differs from the embeddings": func(ts map[string]stored) {
			s := ts["model.language_model.embed_tokens.weight"]
			s.data = slices.Clone(s.data)
			s.data[0]++
			ts[headName] = s
		},
	} {
		dir, _ := shardedModel(t, true, edit)
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dir)
	}
	dir, _ := shardedModel(t, false, func(ts map[string]stored) { delete(ts, headName) })
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "tensor lm_head.weight is missing")

	dir, _ = shardedModel(t, false, func(map[string]stored) {})
	require.NoError(t, os.WriteFile(filepath.Join(dir, safetensors.IndexFile), []byte(`{"weight_map":{"lm_head.weight":"../model.safetensors"}}`), 0o644))
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "not a plain file name")
}
