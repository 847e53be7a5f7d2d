package sample

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Known answers of Philox4x32-10 from the authors' Random123 distribution (kat_vectors).
func TestPhiloxKnownAnswers(t *testing.T) {
	for _, v := range []struct {
		key     uint64
		counter [4]uint32
		want    [4]uint32
	}{
		{0, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{math.MaxUint64, [4]uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0a4093822, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		require.Equal(t, v.want, Philox(v.key, v.counter))
	}
}

func TestUniformCoversTheUnitInterval(t *testing.T) {
	var bins [10]int
	for i := range 10000 {
		u := Uniform(7, [4]uint32{uint32(i)})
		require.True(t, u >= 0 && u < 1)
		bins[int(u*10)]++
	}
	for _, n := range bins {
		require.InDelta(t, 1000, n, 150)
	}
}

func logits(p ...float64) []float32 {
	out := make([]float32, len(p))
	for i, v := range p {
		out[i] = float32(math.Log(v)) + 3 // an arbitrary shift
	}
	return out
}

func TestChoose(t *testing.T) {
	p := logits(.1, .4, .3, .2)
	for _, c := range []struct {
		name string
		s    spec.SamplingConfig
		u    float64
		want int32
	}{
		{"greedy", spec.SamplingConfig{TopP: 1}, .99, 1},
		{"first", spec.SamplingConfig{Temperature: 1, TopP: 1}, 0, 0},
		{"by mass", spec.SamplingConfig{Temperature: 1, TopP: 1}, .49, 1},
		{"last", spec.SamplingConfig{Temperature: 1, TopP: 1}, .999, 3},
		{"top-k 2 keeps 1 and 2", spec.SamplingConfig{Temperature: 1, TopP: 1, TopK: 2}, .99, 2},
		{"top-p .6 keeps 1 and 2", spec.SamplingConfig{Temperature: 1, TopP: .6}, .99, 2},
		{"top-p .4 keeps 1", spec.SamplingConfig{Temperature: 1, TopP: .39}, .99, 1},
		{"hot is flat", spec.SamplingConfig{Temperature: 100, TopP: 1}, .2, 0},
		{"cold is greedy", spec.SamplingConfig{Temperature: .01, TopP: 1}, .999, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ch Chooser
			token, lp := ch.Choose(p, c.s, c.u)
			require.Equal(t, c.want, token)
			require.InDelta(t, math.Log([]float64{.1, .4, .3, .2}[token]), lp, 1e-5, "full vocabulary at temperature 1, whatever the filters")
		})
	}
}

func TestChooseTiesTakeTheLowestID(t *testing.T) {
	var ch Chooser
	token, _ := ch.Choose(logits(.25, .25, .25, .25), spec.SamplingConfig{TopP: 1}, 0)
	require.Zero(t, token)
	token, _ = ch.Choose(logits(.25, .25, .25, .25), spec.SamplingConfig{Temperature: 1, TopP: 1, TopK: 1}, .9)
	require.Zero(t, token)
}

func TestChooseAlwaysReturnsAToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float32Range(-80, 80), 1, 40).Draw(t, "logits")
		s := spec.SamplingConfig{Temperature: rapid.Float64Range(0, 3).Draw(t, "temperature"), TopP: rapid.Float64Range(.01, 1).Draw(t, "p"), TopK: rapid.IntRange(0, 50).Draw(t, "k")}
		var ch Chooser
		token, lp := ch.Choose(x, s, rapid.Float64Range(0, .9999999).Draw(t, "u"))
		if token < 0 || int(token) >= len(x) || lp > 1e-5 || math.IsNaN(float64(lp)) {
			t.Fatalf("token %d, log-prob %g", token, lp)
		}
	})
}

func TestChooseFollowsTheDistribution(t *testing.T) {
	var ch Chooser
	var n [4]int
	for i := range 20000 {
		token, _ := ch.Choose(logits(.1, .4, .3, .2), spec.SamplingConfig{Temperature: 1, TopP: 1}, Uniform(1, [4]uint32{uint32(i)}))
		n[token]++
	}
	for i, want := range []float64{.1, .4, .3, .2} {
		require.InDelta(t, want, float64(n[i])/20000, .012)
	}
}
