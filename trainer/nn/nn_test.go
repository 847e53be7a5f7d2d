package nn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
)

func random(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// requireGradient compares an analytic gradient of x with central differences of loss along random directions.
func requireGradient(t *testing.T, rng *rand.Rand, x, grad []float32, loss func() float64) {
	t.Helper()
	for range 4 {
		dir := random(rng, len(x))
		cpu.Scale(float32(1/math.Sqrt(float64(len(x)))), dir)
		var want float64
		for i := range dir {
			want += float64(dir[i]) * float64(grad[i])
		}
		const h = 1e-2
		saved := append([]float32(nil), x...)
		move := func(step float32) float64 {
			copy(x, saved)
			cpu.Axpy(step, dir, x)
			l := loss()
			copy(x, saved)
			return l
		}
		got := (8*(move(h/2)-move(-h/2)) - (move(h) - move(-h))) / (6 * h)
		require.InDelta(t, want, got, 2e-3+0.005*math.Abs(want))
	}
}

// weigh is a loss whose gradient with respect to y is g.
func weigh(y, g []float32) float64 {
	var s float64
	for i := range y {
		s += float64(y[i]) * float64(g[i])
	}
	return s
}

func TestRMSNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const rows, d = 3, 8
	x, w, g := random(rng, rows*d), random(rng, d), random(rng, rows*d)
	y, inv := make([]float32, rows*d), make([]float32, rows)
	forward := func() float64 { RMSNormForward(x, w, 1e-6, y, inv); return weigh(y, g) }
	forward()
	for i := range rows {
		var square float64
		for _, v := range x[i*d : (i+1)*d] {
			square += float64(v * v)
		}
		require.InDelta(t, float64(x[i*d]*w[0])/math.Sqrt(square/d+1e-6), y[i*d], 1e-5)
	}
	dx, dw := make([]float32, rows*d), make([]float32, d)
	RMSNormBackward(x, w, inv, g, dx, dw)
	requireGradient(t, rng, x, dx, forward)
	requireGradient(t, rng, w, dw, forward)
	again := make([]float32, rows*d)
	RMSNormBackward(x, w, inv, g, again, nil)
	require.Equal(t, dx, again, "a frozen weight changes nothing else")
}

func TestLayerNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	const rows, d = 3, 8
	n := Norm{random(rng, d), random(rng, d)}
	x, g := random(rng, rows*d), random(rng, rows*d)
	y, mean, inv := make([]float32, rows*d), make([]float32, rows), make([]float32, rows)
	forward := func() float64 { n.Forward(x, 1e-6, y, mean, inv); return weigh(y, g) }
	forward()
	dx, grad := make([]float32, rows*d), Norm{make([]float32, d), make([]float32, d)}
	n.Backward(x, mean, inv, g, dx, &grad)
	requireGradient(t, rng, x, dx, forward)
	requireGradient(t, rng, n.W, grad.W, forward)
	requireGradient(t, rng, n.B, grad.B, forward)
}

func TestActivations(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const n = 24
	x, g, y, keep, dx := random(rng, n), random(rng, n), make([]float32, n), make([]float32, n), make([]float32, n)
	tanh := func() float64 { GELUTanhForward(x, y, keep); return weigh(y, g) }
	tanh()
	for i, v := range x {
		z := float64(v)
		require.InDelta(t, z/2*(1+math.Tanh(math.Sqrt(2/math.Pi)*(z+0.044715*z*z*z))), y[i], 1e-5)
	}
	GELUTanhBackward(x, keep, g, dx)
	requireGradient(t, rng, x, dx, tanh)

	exact := func() float64 { GELUForward(x, y); return weigh(y, g) }
	exact()
	require.InDelta(t, float64(x[3])*0.5*math.Erfc(-float64(x[3])/math.Sqrt2), y[3], 1e-6)
	GELUBackward(x, g, dx)
	requireGradient(t, rng, x, dx, exact)

	const f = 4
	gateUp, act, sig, dGateUp := random(rng, 3*2*f), make([]float32, 3*f), make([]float32, 3*f), make([]float32, 3*2*f)
	swiglu := func() float64 { SwiGLUForward(gateUp, f, act, sig); return weigh(act, g[:3*f]) }
	swiglu()
	gate, up := float64(gateUp[2*f]), float64(gateUp[3*f]) // row 1, column 0
	require.InDelta(t, gate/(1+math.Exp(-gate))*up, act[f], 1e-6)
	SwiGLUBackward(gateUp, f, sig, g[:3*f], dGateUp)
	requireGradient(t, rng, gateUp, dGateUp, swiglu)
}

func TestRotateIsARotation(t *testing.T) {
	cos, sin := []float32{float32(math.Cos(.3)), float32(math.Cos(1.1))}, []float32{float32(math.Sin(.3)), float32(math.Sin(1.1))}
	x := []float32{1, 2, 3, 4}
	Rotate(x, cos, sin)
	require.InDelta(t, math.Cos(.3)-3*math.Sin(.3), x[0], 1e-6)
	require.InDelta(t, 3*math.Cos(.3)+math.Sin(.3), x[2], 1e-6)
	RotateBack(x, cos, sin)
	require.InDeltaSlice(t, []float32{1, 2, 3, 4}, x, 1e-6)
}

func TestHeadNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	x, w, g, y := random(rng, 4), random(rng, 4), random(rng, 4), make([]float32, 4)
	cos, sin := []float32{.8, .6}, []float32{.6, .8}
	var r float32
	forward := func() float64 { r = HeadNormForward(x, w, 1e-6, cos, sin, y); return weigh(y, g) }
	forward()
	dx, dw := make([]float32, 4), make([]float32, 4)
	HeadNormBackward(x, w, r, cos, sin, append([]float32(nil), g...), dx, dw)
	requireGradient(t, rng, x, dx, forward)
	requireGradient(t, rng, w, dw, forward)
}

func TestLinearWithBiasAndAdapters(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	const rows, in, out = 3, 6, 7
	var g cpu.Gemm
	var scratch []float32
	base := random(rng, out*in)
	l := Linear{In: in, Out: out, W: append([]float32(nil), base...), B: random(rng, out),
		Adapters: []Adapter{{Row: 0, Out: 3, Rank: 2, Scale: .7, A: random(rng, 2*in), B: random(rng, 3*2), W0: base[:3*in]},
			{Row: 3, Out: 4, Rank: 2, Scale: .7, A: random(rng, 2*in), B: random(rng, 4*2), W0: base[3*in:]}}}
	x, dy, y := random(rng, rows*in), random(rng, rows*out), make([]float32, rows*out)
	forward := func() float64 {
		for i := range l.Adapters {
			l.Adapters[i].Merge(&g, l.W, in)
		}
		l.Forward(&g, rows, x, in, y, out, false)
		return weigh(y, dy)
	}
	forward()
	grad := Linear{In: in, Out: out, W: make([]float32, out*in), B: make([]float32, out),
		Adapters: []Adapter{{A: make([]float32, 2*in), B: make([]float32, 6)}, {A: make([]float32, 2*in), B: make([]float32, 8)}}}
	dx := make([]float32, rows*in)
	l.Backward(&g, rows, x, in, dy, out, dx, in, false, &grad, &scratch)
	requireGradient(t, rng, x, dx, forward)
	requireGradient(t, rng, l.B, grad.B, forward)
	for i := range l.Adapters {
		requireGradient(t, rng, l.Adapters[i].A, grad.Adapters[i].A, forward)
		requireGradient(t, rng, l.Adapters[i].B, grad.Adapters[i].B, forward)
	}
	requireGradient(t, rng, l.W, grad.W, func() float64 { l.Forward(&g, rows, x, in, y, out, false); return weigh(y, dy) })
}

// naiveAttention is the textbook form, in float64.
func naiveAttention(a Attention, groups []Group, qkv []float32) []float64 {
	row, d := a.Row(), a.HeadDim
	out := make([]float64, len(qkv)/row*a.Heads*d)
	for _, gr := range groups {
		for _, s := range gr.Segments {
			for i := range s.Len {
				var seen []int
				for j := range gr.Prefix.Len {
					seen = append(seen, gr.Prefix.Start+j)
				}
				for j := range s.Len {
					if gr.Full || j <= i {
						seen = append(seen, s.Start+j)
					}
				}
				for h := range a.Heads {
					q, k, v := a.offsets(h)
					at := (s.Start + i) * row
					var total float64
					p := make([]float64, len(seen))
					for n, j := range seen {
						var dot float64
						for c := range d {
							dot += float64(qkv[at+q+c]) * float64(qkv[j*row+k+c])
						}
						p[n] = math.Exp(dot * float64(a.Scale))
						total += p[n]
					}
					for n, j := range seen {
						for c := range d {
							out[((s.Start+i)*a.Heads+h)*d+c] += p[n] / total * float64(qkv[j*row+v+c])
						}
					}
				}
			}
		}
	}
	return out
}

func TestAttention(t *testing.T) {
	a := Attention{Heads: 4, KVHeads: 2, HeadDim: 4, Scale: 0.5}
	for name, groups := range map[string][]Group{
		"causal":         {{Segments: []Segment{{0, 5}, {5, 3}}}},
		"shared prefix":  {{Segments: []Segment{{0, 4}}}, {Prefix: Segment{0, 4}, Segments: []Segment{{4, 3}, {7, 1}, {8, 5}}}},
		"full":           {{Segments: []Segment{{0, 6}, {6, 2}}, Full: true}},
		"pieces":         {{Segments: []Segment{{0, 130}, {130, 1}, {131, 64}, {195, 65}}}},
		"strips":         {{Segments: []Segment{{0, 9}}}, {Prefix: Segment{0, 9}, Segments: []Segment{{9, 530}, {539, 40}}}},
		"full strips":    {{Segments: []Segment{{0, 700}}, Full: true}},
		"several groups": {{Segments: []Segment{{0, 2}}}, {Prefix: Segment{0, 2}, Segments: []Segment{{2, 3}}}, {Segments: []Segment{{5, 4}}}},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(6, 1))
			segments := groups[len(groups)-1].Segments
			last := segments[len(segments)-1]
			rows := last.Start + last.Len
			var g cpu.Gemm
			qkv, dout := random(rng, rows*a.Row()), random(rng, rows*a.Heads*a.HeadDim)
			out := make([]float32, len(dout))
			forward := func() float64 { a.Forward(&g, groups, qkv, out); return weigh(out, dout) }
			forward()
			for i, want := range naiveAttention(a, groups, qkv) {
				require.InDelta(t, want, out[i], 1e-5)
			}
			dqkv := make([]float32, len(qkv))
			a.Backward(&g, groups, qkv, dout, dqkv)
			requireGradient(t, rng, qkv, dqkv, forward)

			forward()
			threads := cpu.Gemm{Threads: 3}
			again, dAgain := make([]float32, len(out)), make([]float32, len(dqkv))
			a.Forward(&threads, groups, qkv, again)
			a.Backward(&threads, groups, qkv, dout, dAgain)
			require.True(t, slices.Equal(out, again), "threads change nothing")
			require.True(t, slices.Equal(dqkv, dAgain), "threads change nothing")
		})
	}
}

func TestGrowKeepsCapacity(t *testing.T) {
	var buf []float32
	a := Grow(&buf, 10)
	b := Grow(&buf, 4)
	require.Len(t, b, 4)
	require.Same(t, &a[0], &b[0], "no new allocation")
}
