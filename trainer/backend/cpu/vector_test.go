package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	inf    = float32(math.Inf(1))
	negInf = float32(math.Inf(-1))
	nan    = float32(math.NaN())
)

func random(rng *rand.Rand, n int, scale float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = (rng.Float32()*2 - 1) * scale
	}
	return x
}

func clone(x []float32) []float32 { return append([]float32(nil), x...) }

// guarded returns x in the middle of a larger array, and a check that the array was not touched around it.
func guarded(x []float32) (inner []float32, intact func(t *testing.T)) {
	const margin = 16
	all := make([]float32, len(x)+2*margin)
	for i := range all {
		all[i] = 12345
	}
	copy(all[margin:], x)
	return all[margin : margin+len(x) : margin+len(x)], func(t *testing.T) {
		t.Helper()
		for i := range margin {
			require.Equal(t, float32(12345), all[i], "before the slice")
			require.Equal(t, float32(12345), all[len(all)-1-i], "after the slice")
		}
	}
}

// ulps is the distance of got from want in units of want's last place.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	if got == w {
		return 0
	}
	unit := float64(math.Nextafter32(float32(math.Abs(want)), inf)) - math.Abs(float64(w))
	return math.Abs(float64(got)-want) / unit
}

var lengths = func() []int {
	var n []int
	for i := 1; i <= 40; i++ {
		n = append(n, i)
	}
	return append(n, 63, 64, 65, 96, 100, 127, 128, 129, 1000)
}()

// expForms are Exp by every path; the shift is always 0.
func expForms() map[string]func(dst, x []float32) {
	return map[string]func(dst, x []float32){
		"exported": Exp,
		"portable": func(dst, x []float32) { expShiftPortable(dst, x, 0) },
	}
}

func TestExp(t *testing.T) {
	for name, exp := range expForms() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			worst := 0.0
			for range 200 {
				x := random(rng, 997, 88.7)
				for i := range x[:300] {
					x[i] /= 100
				}
				dst := make([]float32, len(x))
				exp(dst, x)
				for i := range x {
					want := math.Exp(float64(x[i]))
					if want < 1.2e-38 {
						require.InDelta(t, want, dst[i], 3e-45, "exp(%v)", x[i])
						continue
					}
					worst = max(worst, ulps(dst[i], want))
				}
			}
			require.Less(t, worst, 2.0)
			x := []float32{0, float32(math.Copysign(0, -1)), negInf, inf, -1000, 1000, 88.8, -104, nan, 1}
			exp(x, x)
			require.Equal(t, []float32{1, 1, 0, inf, 0, inf, inf, 0}, x[:8])
			require.True(t, x[8] != x[8])
			require.InEpsilon(t, math.E, x[9], 2e-7)
		})
	}
}

func TestSigmoid(t *testing.T) {
	for name, sigmoid := range map[string]func(dst, x []float32){"exported": Sigmoid, "portable": sigmoidPortable} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 1))
			worst := 0.0
			for _, n := range lengths {
				x := random(rng, n, 85)
				if n%2 == 0 {
					x = random(rng, n, 8)
				}
				dst, intact := guarded(x)
				sigmoid(dst, x)
				intact(t)
				for i := range x {
					worst = max(worst, ulps(dst[i], 1/(1+math.Exp(-float64(x[i])))))
				}
			}
			require.Less(t, worst, 4.0)
			x := []float32{0, inf, negInf, 200, -200, nan}
			sigmoid(x, x)
			require.Equal(t, []float32{0.5, 1, 0, 1, 0}, x[:5])
			require.True(t, x[5] != x[5])
		})
	}
}

// An element must not change with its place: the masked end and the wide middle are the same function.
func TestElementwiseKernelsIgnorePosition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, n := range lengths {
		x := random(rng, n, 20)
		whole := make([]float32, n)
		one := make([]float32, 1)
		Exp(whole, x)
		for i := range x {
			Exp(one, x[i:i+1])
			require.Equal(t, one[0], whole[i], "exp, length %d, place %d", n, i)
		}
		Sigmoid(whole, x)
		for i := range x {
			Sigmoid(one, x[i:i+1])
			require.Equal(t, one[0], whole[i], "sigmoid, length %d, place %d", n, i)
		}
		y := random(rng, n, 1)
		copy(whole, y)
		Axpy(0.3, x, whole)
		for i := range x {
			one[0] = y[i]
			Axpy(0.3, x[i:i+1], one)
			require.Equal(t, one[0], whole[i], "axpy, length %d, place %d", n, i)
		}
	}
}

func softmaxPortable(x []float32) { scalePortable(1/expShiftPortable(x, x, largestPortable(x)), x) }

func TestSoftmax(t *testing.T) {
	for name, softmax := range map[string]func(x []float32){"exported": Softmax, "portable": softmaxPortable} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(4, 1))
			for _, n := range lengths {
				x := random(rng, n, 30)
				for i := range x {
					if i > 0 && rng.IntN(5) == 0 {
						x[i] = negInf
					}
				}
				var total float64
				top := largestPortable(x)
				for _, v := range x {
					total += math.Exp(float64(v - top))
				}
				got, intact := guarded(x)
				softmax(got)
				intact(t)
				for i := range x {
					want := math.Exp(float64(x[i]-top)) / total
					require.InDelta(t, want, got[i], 1e-38+want*6e-7, "length %d, place %d, x = %v", n, i, x[i])
					if math.IsInf(float64(x[i]), -1) {
						require.Zero(t, got[i])
					}
				}
			}
		})
	}
}

func TestSoftmaxAtTheEdges(t *testing.T) {
	x := []float32{negInf, negInf, negInf}
	Softmax(x)
	require.Equal(t, []float32{0, 0, 0}, x)
	x = []float32{3e38, -3e38, 3e38}
	Softmax(x)
	require.Equal(t, []float32{0.5, 0, 0.5}, x)
	x = []float32{7}
	Softmax(x)
	require.Equal(t, []float32{1}, x)
	Softmax(nil)
	for _, bad := range [][]float32{{1, nan, 2}, {negInf, nan}, {1, inf, 2}} {
		Softmax(bad)
		for _, v := range bad {
			require.True(t, v != v, "NaN and +Inf must not be hidden")
		}
	}
}

func TestLogSumExp(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, n := range lengths {
		x := random(rng, n, 50)
		top := largestPortable(x)
		var total float64
		for _, v := range x {
			total += math.Exp(float64(v - top))
		}
		want := float64(top) + math.Log(total)
		require.InDelta(t, want, LogSumExp(x), 1e-6+math.Abs(want)*2e-7)
		require.InDelta(t, total, sumExpShiftPortable(x, top), total*1e-6)
		require.Equal(t, sumExpShift(x, top), expShift(clone(x), x, top), "the two sums share their bits")
	}
	require.Equal(t, negInf, LogSumExp(nil))
	require.Equal(t, negInf, LogSumExp([]float32{negInf, negInf}))
	require.Equal(t, inf, LogSumExp([]float32{1, inf}))
	require.Equal(t, float32(1000), LogSumExp([]float32{1000, -1000}))
	require.True(t, math.IsNaN(float64(LogSumExp([]float32{1, nan}))))
}

func TestReductionsAgainstFloat64(t *testing.T) {
	for name, dot := range map[string]func(x, y []float32) float32{"exported": Dot, "portable": dotPortable} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(6, 1))
			for _, n := range lengths {
				x, y := random(rng, n, 1), random(rng, n, 1)
				var want, mass, squares float64
				for i := range x {
					want += float64(x[i]) * float64(y[i])
					mass += math.Abs(float64(x[i]) * float64(y[i]))
					squares += float64(x[i]) * float64(x[i])
				}
				require.InDelta(t, want, dot(x, y), mass*3e-7, "length %d", n)
				require.InEpsilon(t, squares, SumSquares(x), 3e-7, "length %d", n)
			}
		})
	}
	require.Zero(t, Dot(nil, nil))
	require.Zero(t, SumSquares(nil))
	ones := make([]float32, 20_000_001) // beyond 2^24, where a float32 stops counting
	for i := range ones {
		ones[i] = 1
	}
	require.Equal(t, float32(20_000_001), SumSquares(ones))
}

func TestLargest(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, n := range lengths {
		x := random(rng, n, 10)
		at := rng.IntN(n)
		x[at] = 11
		require.Equal(t, float32(11), largest(x), "length %d, largest at %d", n, at)
		for i := range x {
			x[i] = -x[i] - 20
		}
		require.Equal(t, largestPortable(x), largest(x))
	}
}

func TestLinearKernels(t *testing.T) {
	type forms struct {
		axpy  func(alpha float32, x, y []float32)
		scale func(alpha float32, x []float32)
		add   func(dst, x []float32)
	}
	for name, f := range map[string]forms{"exported": {Axpy, Scale, Add}, "portable": {axpyPortable, scalePortable, addPortable}} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 1))
			for _, n := range lengths {
				x, y := random(rng, n, 1), random(rng, n, 1)
				a, intactA := guarded(y)
				f.axpy(-1.7, x, a)
				s, intactS := guarded(x)
				f.scale(-1.7, s)
				d, intactD := guarded(y)
				f.add(d, x)
				for i := range x {
					require.InDelta(t, float64(y[i])+float64(float32(-1.7))*float64(x[i]), a[i], 3e-7)
					require.Equal(t, x[i]*-1.7, s[i])
					require.Equal(t, x[i]+y[i], d[i])
				}
				intactA(t)
				intactS(t)
				intactD(t)
			}
		})
	}
	Axpy(1, nil, nil)
	Scale(1, nil)
	Add(nil, nil)
	require.PanicsWithValue(t, "cpu: Axpy: y needs 3 floats, has 2", func() { Axpy(1, make([]float32, 3), make([]float32, 2)) })
}

func TestDotRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for _, n := range lengths {
		const rows = 11
		ldw := n + rng.IntN(3)
		x, w := random(rng, n, 1), random(rng, (rows-1)*ldw+n, 1)
		whole, intact := guarded(make([]float32, rows))
		DotRows(x, w, ldw, rows, whole)
		intact(t)
		plain := make([]float32, rows)
		dotRowsPortable(x, w, ldw, rows, plain)
		for r := range rows {
			var want float64
			for i := range x {
				want += float64(x[i]) * float64(w[r*ldw+i])
			}
			require.InDelta(t, want, whole[r], 1e-6*math.Sqrt(float64(n)), "length %d, row %d", n, r)
			require.InDelta(t, want, plain[r], 1e-6*math.Sqrt(float64(n)), "length %d, row %d", n, r)
			for count := 1; r+count <= rows; count++ {
				part := make([]float32, count)
				DotRows(x, w[r*ldw:], ldw, count, part)
				require.Equal(t, whole[r:r+count], part, "length %d: rows %d to %d", n, r, r+count)
			}
		}
	}
	y := []float32{5, 5}
	DotRows(nil, nil, 0, 1, y)
	require.Equal(t, []float32{0, 5}, y)
	require.Panics(t, func() { DotRows(make([]float32, 4), make([]float32, 7), 4, 2, y) })
}

func TestAccumulateRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 1))
	for _, n := range lengths {
		for _, rows := range []int{1, 2, 7, 30} {
			ldv := n + rng.IntN(3)
			p, v, y := random(rng, rows, 1), random(rng, (rows-1)*ldv+n, 1), random(rng, n, 1)
			got, intact := guarded(y)
			AccumulateRows(p, v, ldv, rows, got)
			intact(t)
			plain := clone(y)
			accumulateRowsPortable(p, v, ldv, rows, plain)
			stepwise := clone(y)
			for r := range rows {
				Axpy(p[r], v[r*ldv:r*ldv+n], stepwise)
			}
			require.Equal(t, stepwise, got, "length %d, rows %d: one chain in the order of rows", n, rows)
			for i := range y {
				want := float64(y[i])
				for r := range rows {
					want += float64(p[r]) * float64(v[r*ldv+i])
				}
				require.InDelta(t, want, got[i], 3e-6)
				require.InDelta(t, want, plain[i], 3e-6)
			}
		}
	}
	AccumulateRows(nil, nil, 0, 0, []float32{1})
	require.Panics(t, func() { AccumulateRows(make([]float32, 2), make([]float32, 7), 4, 2, make([]float32, 4)) })
}

func TestAdamW(t *testing.T) {
	portable := func(w, g, m, v []float32, p AdamWParams) {
		c := p.constants()
		adamWPortable(w, g, m, v, &c)
	}
	for name, update := range map[string]func(w, g, m, v []float32, p AdamWParams){"exported": AdamW, "portable": portable} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 1))
			for _, n := range lengths {
				w, g := random(rng, n, 1), random(rng, n, 0.1)
				m, v := make([]float32, n), make([]float32, n)
				w64, m64, v64 := make([]float64, n), make([]float64, n), make([]float64, n)
				for i := range w {
					w64[i] = float64(w[i])
				}
				wi, intactW := guarded(w)
				mi, intactM := guarded(m)
				vi, intactV := guarded(v)
				for step := 1; step <= 20; step++ {
					p := AdamWParams{LR: 2e-3, Beta1: 0.9, Beta2: 0.98, Eps: 1e-8, WeightDecay: 0.01, GradScale: 0.7,
						C1: float32(1 - math.Pow(0.9, float64(step))), C2: float32(1 - math.Pow(0.98, float64(step)))}
					update(wi, g, mi, vi, p)
					for i := range w64 {
						d := float64(g[i]) * float64(p.GradScale)
						m64[i] = 0.9*m64[i] + 0.1*d
						v64[i] = 0.98*v64[i] + 0.02*d*d
						w64[i] -= 2e-3 * (m64[i]/float64(p.C1)/(math.Sqrt(v64[i]/float64(p.C2))+1e-8) + 0.01*w64[i])
					}
				}
				for i := range w64 {
					require.InDelta(t, w64[i], wi[i], 2e-6, "length %d", n)
					require.InDelta(t, m64[i], mi[i], 1e-7)
					require.InDelta(t, v64[i], vi[i], 1e-8)
				}
				intactW(t)
				intactM(t)
				intactV(t)
			}
		})
	}
}

func BenchmarkVector(b *testing.B) {
	rng := rand.New(rand.NewPCG(12, 1))
	for _, n := range []int{64, 700, 4096} {
		x, y, z, u := random(rng, n, 1), random(rng, n, 1), make([]float32, n), make([]float32, n)
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					f()
				}
			})
		}
		run("Softmax", func() { Softmax(y) })
		run("Sigmoid", func() { Sigmoid(z, x) })
		run("Exp", func() { Exp(z, x) })
		run("Dot", func() { Dot(x, y) })
		run("Axpy", func() { Axpy(1e-9, x, z) })
		run("AdamW", func() { AdamW(y, x, z, u, AdamWParams{LR: 1e-9, Beta1: .9, Beta2: .98, Eps: 1e-8, C1: 1, C2: 1}) })
	}
	for _, rows := range []int{16, 150} {
		const head = 32
		x, w, y := random(rng, head, 1), random(rng, rows*head, 1), make([]float32, rows)
		b.Run(fmt.Sprintf("DotRows/%dx%d", rows, head), func(b *testing.B) {
			for b.Loop() {
				DotRows(x, w, head, rows, y)
			}
		})
		b.Run(fmt.Sprintf("AccumulateRows/%dx%d", rows, head), func(b *testing.B) {
			for b.Loop() {
				AccumulateRows(y, w, head, rows, x)
			}
		})
	}
}
