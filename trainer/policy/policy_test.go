package policy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/spec"
)

func TestAdvantagesWorkedNumbers(t *testing.T) {
	tests := []struct{ rewards, want []float64 }{
		{[]float64{1, .85, .2, 0}, []float64{1.155587, .800022, -.740761, -1.214848}},
		{[]float64{.5075, .105, 0, -.5}, []float64{1.335445, .214159, -.078351, -1.471253}},
		{[]float64{1, .2, .2, .2}, []float64{1.732051, -.57735, -.57735, -.57735}},
		{[]float64{-.5, -.5, -.5, -.5}, []float64{-.5, -.5, -.5, -.5}},
		{[]float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}},
		{[]float64{.2, .2, .2, .2}, []float64{0, 0, 0, 0}},
		{[]float64{-.5}, []float64{-.5}},
		{[]float64{.7}, []float64{0}},
		{nil, []float64{}},
	}
	for _, tt := range tests {
		require.InDeltaSlice(t, tt.want, Advantages(tt.rewards), 1e-6, "%v", tt.rewards)
	}
}

func TestTrap01ZeroRewardOfAMalformedRolloutStaysInTheGroupStatistics(t *testing.T) {
	with := Advantages([]float64{1, 1, .7, 0})
	without := Advantages([]float64{1, 1, .7})
	require.Negative(t, with[3])
	require.True(t, Retained(with[3]))
	require.NotEqual(t, without[0], with[0])
	require.Positive(t, with[2], "above the mean that the malformed rollout lowers")
	require.Negative(t, without[2])
}

func TestTrap08GroupWithoutVariance(t *testing.T) {
	for _, a := range Advantages([]float64{.85, .85, .85, .85, .85, .85}) {
		require.Zero(t, a)
		require.False(t, Retained(a))
	}
	for _, a := range Advantages([]float64{-.5, -.5}) {
		require.Equal(t, -.5, a)
		require.True(t, Retained(a))
	}
	require.False(t, Retained(1e-6))
	require.False(t, Retained(-1e-6))
	require.True(t, Retained(1.1e-6))

	// The float32 arithmetic that this avoids.
	var mean, square float32
	for range 6 {
		mean += float32(.85)
	}
	mean /= 6
	for range 6 {
		square += (float32(.85) - mean) * (float32(.85) - mean)
	}
	std := float32(math.Sqrt(float64(square / 6)))
	require.InDelta(t, 5.96e-8, std, 1e-10)
	require.InDelta(t, .856, (float32(.85)-mean)/(std+1e-8), 1e-3)
}

func TestAdvantagesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rewards := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 16).Draw(t, "rewards")
		a := Advantages(rewards)
		var mean, square float64
		lowest, highest := rewards[0], rewards[0]
		for i := range a {
			mean += a[i] / float64(len(a))
			square += a[i] * a[i] / float64(len(a))
			lowest, highest = min(lowest, rewards[i]), max(highest, rewards[i])
			for j := range a {
				if rewards[i] < rewards[j] && a[i] > a[j] {
					t.Fatalf("order of %v is not kept in %v", rewards, a)
				}
			}
		}
		if highest-lowest > 1e-3 && (math.Abs(mean) > 1e-9 || math.Abs(square-1) > 1e-3) {
			t.Fatalf("mean %g, mean square %g", mean, square)
		}
	})
}

func TestLossWorkedNumbers(t *testing.T) {
	up, down := []float64{.001, -.0005, .0007}, []float64{-.001, 0, -.0005}
	tests := []struct {
		l         []float64
		advantage float64
		ratio     float64
		loss      float64
		clipped   bool
	}{
		{up, 1, 1.00040008, -1.0003999710, true},
		{up, -1, 1.00040008, 1.0004001090, false},
		{down, 1, .9995001250, -.9995001042, false},
		{down, -1, .9995001250, .9997000208, true},
		{[]float64{.1, -.1}, 1, 1, -.9994995832, false},
	}
	for _, tt := range tests {
		got := DefaultGSPO().Rollout(tt.l, tt.advantage, nil)
		require.InDelta(t, tt.ratio, got.Ratio, 1e-9)
		require.InDelta(t, tt.loss, got.Total(), 1e-10)
		require.Equal(t, tt.clipped, got.Clipped)
	}
}

func TestTrap10RegulariserIsAnchoredAtTheRolloutPolicy(t *testing.T) {
	got := DefaultGSPO().Rollout([]float64{.5}, 1, nil)
	require.InDelta(t, .14872127, got.KL, 1e-8)
	require.InDelta(t, .014872127, got.Regulariser, 1e-9)
	require.InDelta(t, .10653066, DefaultGSPO().Rollout([]float64{-.5}, 1, nil).KL, 1e-8, "the other sign")

	grad := make([]float64, 2)
	DefaultGSPO().Rollout([]float64{0, 0}, 1, grad)
	require.Equal(t, []float64{-.5, -.5}, grad, "where the policies agree only the surrogate has a gradient")
	GSPO{ClipLow: 1, ClipHigh: 1, Regulariser: 1}.Rollout([]float64{.5}, 0, grad[:1])
	require.InDelta(t, math.E/math.Sqrt(math.E)-1, grad[0], 1e-12, "e^l - 1")
}

func TestGradientMatchesFiniteDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SliceOfN(rapid.Float64Range(-.5, .5), 1, 8).Draw(t, "l")
		advantage := rapid.Float64Range(-2, 2).Draw(t, "advantage")
		g := GSPO{ClipLow: .1, ClipHigh: .2, Regulariser: .1}
		grad := make([]float64, len(l))
		loss := g.Rollout(l, advantage, grad)
		const h = 1e-6
		if math.Abs(loss.Ratio-.9) < 1e-5 || math.Abs(loss.Ratio-1.2) < 1e-5 {
			t.Skip("the loss has a kink here")
		}
		for i := range l {
			shifted := append([]float64(nil), l...)
			shifted[i] += h
			above := g.Rollout(shifted, advantage, nil).Total()
			shifted[i] -= 2 * h
			below := g.Rollout(shifted, advantage, nil).Total()
			if numeric := (above - below) / (2 * h); math.Abs(numeric-grad[i]) > 1e-7 {
				t.Fatalf("token %d: gradient %g, by differences %g", i, grad[i], numeric)
			}
		}
	})
}

func TestClippedRolloutKeepsOnlyTheRegulariserGradient(t *testing.T) {
	grad := make([]float64, 3)
	l := []float64{.001, -.0005, .0007}
	require.True(t, DefaultGSPO().Rollout(l, 1, grad).Clipped)
	for i := range l {
		require.InDelta(t, .1*math.Expm1(l[i])/3, grad[i], 1e-15)
	}
}

func TestTrap09MeanIsOverRetainedRolloutsAlone(t *testing.T) {
	g := DefaultGSPO()
	l := []float64{.0001, -.0002}
	rollouts := []Rollout{
		{LogRatios: l, Advantage: 1},
		{LogRatios: l, Advantage: -2},
		{LogRatios: l, Advantage: 3, Padding: true},
		{LogRatios: l, Advantage: 1e-7},
	}
	grads := [][]float64{{9, 9}, {9, 9}, {9, 9}, {9, 9}}
	got := g.Batch(rollouts, grads)
	first, second := make([]float64, 2), make([]float64, 2)
	a, b := g.Rollout(l, 1, first), g.Rollout(l, -2, second)
	require.Equal(t, 2, got.Count)
	require.Equal(t, 4, got.Tokens)
	require.InDelta(t, (a.Total()+b.Total())/2, got.Total(), 1e-15)
	require.InDelta(t, (a.KL+b.KL)/2, got.KL, 1e-15)
	require.InDeltaSlice(t, []float64{first[0] / 2, first[1] / 2}, grads[0], 1e-15)
	require.InDeltaSlice(t, []float64{second[0] / 2, second[1] / 2}, grads[1], 1e-15)
	require.Equal(t, []float64{0, 0}, grads[2])
	require.Equal(t, []float64{0, 0}, grads[3])

	// Three Questioner rollouts outweigh one Solver rollout three to one.
	unequal := g.Batch([]Rollout{{LogRatios: l, Advantage: 1}, {LogRatios: l, Advantage: 1}, {LogRatios: l, Advantage: 1}, {LogRatios: l, Advantage: -1}}, nil)
	require.InDelta(t, -.5, unequal.Policy, 1e-3)

	require.Equal(t, BatchLoss{}, g.Batch(rollouts[2:], nil))
	require.Equal(t, BatchLoss{}, g.Batch(nil, nil))
}

func TestGSPOConvertsFromTheConfiguration(t *testing.T) {
	require.Equal(t, DefaultGSPO(), GSPO(spec.GSPOConfig{ClipLow: 3e-4, ClipHigh: 4e-4, Regulariser: .1}))
}

func TestAverageIsOfMergedWeightsNotOfFactors(t *testing.T) {
	delta := []float32{0}                                                   // A = 1, B = 0
	require.NoError(t, AverageDelta(delta, []float32{0}, []float32{6}, .5)) // A = 3, B = 2
	require.Equal(t, []float32{3}, delta)
	require.NotEqual(t, float32((3+1)/2*(2+0)/2), delta[0], "the average of the factors")
}

func TestAverageMovesWhereBF16CannotMove(t *testing.T) {
	initial, delta, merged := []float32{1}, []float32{0}, []float32{0}
	for range 300 {
		require.NoError(t, AverageDelta(delta, []float32{1}, []float32{1.0625}, .999))
	}
	require.NoError(t, Merge(merged, initial, delta))
	require.InDelta(t, 1.016206, merged[0], 1e-6)
	require.InDelta(t, .7407, math.Pow(.999, 300), 1e-4)
	require.InDelta(t, .6064, math.Pow(.999, 500), 1e-4)

	require.Error(t, AverageDelta(delta, nil, nil, .5))
	require.Error(t, Merge(merged, initial, nil))
}

// Every bit pattern of the upper half, with lower halves about the tie: the result is the nearer of the two neighbours that
// end in zeros, the even one at a tie. What is stored survives being taken apart and merged again.
func TestRoundToBF16(t *testing.T) {
	round := func(initial, v float32) (phi, delta float32) {
		p, d := []float32{v}, []float32{0}
		require.NoError(t, RoundToBF16(p, []float32{initial}, d))
		return p[0], d[0]
	}
	for high := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			v := math.Float32frombits(high<<16 | low)
			if got, _ := round(0, v); v != v {
				require.True(t, got != got)
			} else {
				up := low > 0x8000 || low == 0x8000 && high%2 == 1
				want := high << 16
				if up {
					want += 1 << 16
				}
				require.Equal(t, math.Float32frombits(want), got)
				for _, initial := range []float32{.3, -2e-3, 0x1p-130} {
					phi, delta := round(initial, v)
					again, same := round(initial, initial+delta)
					require.Equal(t, []float32{phi, delta}, []float32{again, same}, "%g from %g", v, initial)
				}
			}
		}
	}
	require.Error(t, RoundToBF16([]float32{1}, nil, nil))
}

func TestSquaredDistance(t *testing.T) {
	d, err := SquaredDistance([]float32{1, 2, 2}, []float32{1, 0, 0})
	require.NoError(t, err)
	require.Equal(t, 8.0, d)
	_, err = SquaredDistance([]float32{1}, nil)
	require.Error(t, err)
}
