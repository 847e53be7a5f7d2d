package local

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// floatBytes is the memory of all float32 slices reachable from x, by their capacity; views of one array count once.
func floatBytes(x any) int {
	type span struct{ from, to uintptr }
	var spans []span
	seen := map[any]bool{}
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Map:
			if v.IsNil() || seen[[2]any{v.Pointer(), v.Type()}] {
				return
			}
			seen[[2]any{v.Pointer(), v.Type()}] = true
			if v.Kind() == reflect.Pointer {
				visit(v.Elem())
				return
			}
			for it := v.MapRange(); it.Next(); {
				visit(it.Value())
			}
		case reflect.Interface:
			visit(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				visit(v.Field(i))
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Float32 {
				spans = append(spans, span{v.Pointer(), v.Pointer() + uintptr(v.Cap()*floatSize)})
				return
			}
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case reflect.Array:
			for i := range v.Len() {
				visit(v.Index(i))
			}
		}
	}
	visit(reflect.ValueOf(x))
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), -cmp.Compare(a.to, b.to)) })
	total, end := 0, uintptr(0)
	for _, s := range spans {
		if s.to > end {
			total += int(s.to - max(s.from, end))
			end = s.to
		}
	}
	return total
}

// The plan's terms are what Open allocates, to the byte.
func TestPlanOfWeightsIsExact(t *testing.T) {
	model := newModel(t)
	lora := spec.LoRAConfig{Rank: 4, Alpha: 8}
	for name, opts := range map[string]Options{
		"reading":       {},
		"adapters":      {Model: spec.ModelConfig{Train: "lora", LoRA: lora}},
		"full":          {Model: spec.ModelConfig{Train: "full"}},
		"frozen vision": {Model: spec.ModelConfig{Train: "full", FreezeVision: true}},
		"Verifier":      {Model: spec.ModelConfig{Train: "lora", LoRA: lora}, Verifier: model},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Open(model, opts)
			require.NoError(t, err)
			in, err := Inspect(model, opts)
			require.NoError(t, err)
			require.Equal(t, floatBytes(e), in.Memory.Bytes(), in.Memory)
			require.Equal(t, e.Info().Parameters, in.Parameters.Total())
			if e.optimizer != nil {
				require.Len(t, e.optimizer.M, in.Trainable)
			}
			for _, f := range in.Files {
				if !f.Optional {
					require.NoError(t, f.Err)
					require.NotEmpty(t, f.Found)
				}
			}
		})
	}
}
