package qwenvl

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/nn"
)

// tinyConfig has every part of Qwen3-VL at the smallest size: two deepstack levels, grouped queries, untied head.
func tinyConfig() Config {
	return Config{
		ImageTokenID: 3,
		Text: TextConfig{VocabSize: 23, HiddenSize: 12, IntermediateSize: 20, Layers: 3, Heads: 4, KVHeads: 2, HeadDim: 8, RMSNormEps: 1e-6,
			Rope: RopeConfig{Theta: 1e4, MRopeSection: []int{2, 1, 1}, Interleaved: true}, HiddenAct: "silu"},
		Vision: VisionConfig{Depth: 3, HiddenSize: 8, IntermediateSize: 16, Heads: 2, InChannels: 3, PatchSize: 2, TemporalPatchSize: 1, SpatialMergeSize: 2,
			OutHiddenSize: 12, PositionEmbeddings: 9, DeepstackIndexes: []int{0, 2}, HiddenAct: "gelu_pytorch_tanh"},
	}
}

// tinyConfig25 has every part of Qwen2.5-VL: windows of two by two tokens, a block that attends over the whole image.
func tinyConfig25() Config {
	c := tinyConfig()
	c.ModelType = Qwen25VL
	c.Text.Biased, c.Text.Rope.Interleaved, c.Text.HeadDim = true, false, 3*c.Text.HeadDim/4
	c.Text.Rope.MRopeSection = []int{1, 1, 1}
	v := &c.Vision
	v.Gated, v.HiddenAct, v.PositionEmbeddings, v.DeepstackIndexes = true, "silu", 0, nil
	v.WindowSize, v.FullAttention = 9, []int{1}
	return c
}

type fixture struct {
	c      Config
	w      *Weights
	images []Image
	vision *VisionNet
	text   *TextNet
	coef   []float32
}

func newFixture(c Config, seed uint64) *fixture {
	rng := rand.New(rand.NewPCG(seed, 1))
	f := &fixture{c: c, w: NewWeights(c, nil)}
	f.w.Initialise(c, rng)
	for i := range f.w.Flat { // no weight at a special value such as a zero bias
		f.w.Flat[i] += float32(rng.NormFloat64() * 0.05)
	}
	for _, g := range [][2]int{{6, 4}, {2, 6}} { // of Qwen2.5-VL's windows, two in each are cut off by the border
		im := Image{GridH: g[0], GridW: g[1], Patches: make([]float32, g[0]*g[1]*c.Vision.patchDim())}
		for i := range im.Patches {
			im.Patches[i] = rng.Float32()*2 - 1
		}
		f.images = append(f.images, im)
	}
	f.vision, f.text = NewVisionNet(&f.c.Vision), NewTextNet(&f.c)
	return f
}

// batch: two images each with continuations of different lengths that share its prefix, and a text-only sequence.
func (f *fixture) batch(features []Features) *Batch {
	b := &Batch{}
	for i, ft := range features {
		tokens := []int32{5}
		for range ft.GridH * ft.GridW {
			tokens = append(tokens, f.c.ImageTokenID)
		}
		pre, next := b.AddPrefix(&f.c, append(tokens, 6), []Features{ft})
		b.StartGroup(pre)
		b.AddContinuation(next, []int32{7, 8, 9, int32(10 + i)}, 2)
		b.AddContinuation(next, []int32{11, 12, 13, 14, 15, 16}, 4)
	}
	b.StartGroup(nn.Segment{})
	b.AddContinuation(0, []int32{1, 2, 17, 18}, 3)
	return b
}

func (f *fixture) loss() float64 {
	lp := f.text.Forward(f.w, f.batch(f.vision.Forward(f.w, f.images)))
	if f.coef == nil {
		for i := range lp {
			f.coef = append(f.coef, float32(1+i%3)*0.5)
		}
	}
	var s float64
	for i, v := range lp {
		s += float64(v * f.coef[i])
	}
	return s
}

func (f *fixture) backward(grad *Weights) {
	f.loss()
	b := f.batch(f.vision.Forward(f.w, f.images))
	f.text.Forward(f.w, b)
	f.vision.Backward(f.w, f.text.Backward(f.w, b, f.coef, grad, true), grad)
}

// requireSlope compares an analytic gradient with central differences along random directions of a tensor.
func requireSlope(t *testing.T, rng *rand.Rand, x, grad []float32, loss func() float64) {
	t.Helper()
	for range 3 {
		dir := make([]float32, len(x))
		var want float64
		for i := range dir {
			dir[i] = float32(rng.NormFloat64() / math.Sqrt(float64(len(x))))
			want += float64(dir[i] * grad[i])
		}
		const h = 1e-2
		move := func(step float32) float64 {
			saved := append([]float32(nil), x...)
			cpu.Axpy(step, dir, x)
			l := loss()
			copy(x, saved)
			return l
		}
		got := (8*(move(h/2)-move(-h/2)) - (move(h) - move(-h))) / (6 * h) // fourth order
		require.InDelta(t, want, got, 2e-3+0.01*math.Abs(want))
	}
}

func TestGradientsOfEveryTensorMatchFiniteDifferences(t *testing.T) {
	tied := tinyConfig()
	tied.TieWordEmbeddings = true
	for _, c := range []Config{tinyConfig(), tied, tinyConfig25()} {
		f := newFixture(c, 7)
		grad := NewWeights(c, nil)
		f.backward(grad)
		rng := rand.New(rand.NewPCG(3, 3))
		for i, w := range f.w.Tensors {
			t.Run(w.Name, func(t *testing.T) { requireSlope(t, rng, w.Data, grad.Tensors[i].Data, f.loss) })
		}
	}
}

func TestLoRAGradientsMatchFiniteDifferences(t *testing.T) {
	for _, c := range []Config{tinyConfig(), tinyConfig25()} {
		t.Run(c.Architecture(), func(t *testing.T) { testLoRAGradients(t, c) })
	}
}

func testLoRAGradients(t *testing.T, c Config) {
	f := newFixture(c, 11)
	rng := rand.New(rand.NewPCG(5, 5))
	grad := NewWeights(c, func(string) bool { return false })
	params, grads := AttachLoRA(c, f.w, f.w.Fork(c, IsAdapted), []*Weights{grad}, 3, 0.7, rng)
	for i := range params.Flat { // B starts at zero, where A has no gradient
		params.Flat[i] += float32(rng.NormFloat64() * 0.2)
	}
	var g cpu.Gemm
	merged := func() float64 { f.w.MergeLoRA(&g); return f.loss() }
	merged()
	f.backward(grad)
	require.Empty(t, grad.Flat, "frozen weights have no gradient")
	for i, p := range params.Tensors {
		t.Run(p.Name, func(t *testing.T) { requireSlope(t, rng, p.Data, grads[0].Tensors[i].Data, merged) })
	}
}

func TestSharedPrefixEqualsSeparateSequences(t *testing.T) {
	for _, c := range []Config{tinyConfig(), tinyConfig25()} {
		t.Run(c.Architecture(), func(t *testing.T) { testSharedPrefix(t, c) })
	}
}

func testSharedPrefix(t *testing.T, c Config) {
	f := newFixture(c, 13)
	features := f.vision.Forward(f.w, f.images)
	shared := append([]float32(nil), f.text.Forward(f.w, f.batch(features))...)
	var separate []float32
	for i, ft := range features {
		tokens := append(append([]int32{5}, make([]int32, 0)...), slicesRepeat(c.ImageTokenID, ft.GridH*ft.GridW)...)
		for _, cont := range []struct {
			tokens  []int32
			targets int
		}{{[]int32{7, 8, 9, int32(10 + i)}, 2}, {[]int32{11, 12, 13, 14, 15, 16}, 4}} {
			b := &Batch{}
			_, next := b.AddPrefix(&c, append(append(tokens, 6), cont.tokens...), []Features{ft})
			_ = next
			for k := len(b.Tokens) - cont.targets; k < len(b.Tokens); k++ {
				b.TargetRow, b.TargetToken = append(b.TargetRow, int32(k-1)), append(b.TargetToken, b.Tokens[k])
			}
			separate = append(separate, f.text.Forward(f.w, b)...)
		}
	}
	require.InDeltaSlice(t, separate, shared[:len(separate)], 1e-5)
}

func slicesRepeat(v int32, n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// Hidden(0) are the embeddings, and Logits are the head's view of the last one: their log-probs are Forward's.
func TestHiddenStatesLeadFromEmbeddingsToLogits(t *testing.T) {
	c := tinyConfig()
	f := newFixture(c, 17)
	features := f.vision.Forward(f.w, f.images)
	b := f.batch(features)
	lp := append([]float32(nil), f.text.Forward(f.w, b)...)
	d := c.Text.HiddenSize
	require.Equal(t, f.w.text.embed[int(b.Tokens[0])*d:int(b.Tokens[0]+1)*d], f.text.Hidden(0)[:d])
	require.Equal(t, features[0].Tokens, f.text.Hidden(0)[b.Images[0].Start*d:][:len(features[0].Tokens)])
	rows := make([]int, b.Rows())
	for i := range rows {
		rows[i] = i
	}
	for layer := range c.Text.Layers + 1 {
		require.Len(t, f.text.Hidden(layer), b.Rows()*d)
	}
	logits := f.text.Logits(f.w, rows)
	for i, r := range b.TargetRow {
		row := logits[int(r)*c.Text.VocabSize:][:c.Text.VocabSize]
		require.InDelta(t, row[b.TargetToken[i]]-cpu.LogSumExp(row), lp[i], 1e-6)
	}
}

// What checkpointing computes twice has the same bits both times, also where the head's targets are cut into strips.
func TestCheckpointingChangesNoBitOfAGradient(t *testing.T) {
	for _, tied := range []bool{false, true} {
		c := tinyConfig()
		c.TieWordEmbeddings = tied
		want, got := NewWeights(c, nil), NewWeights(c, nil)
		f := newFixture(c, 7)
		f.backward(want)
		logProbs := slices.Clone(f.text.logProbs)
		for _, strip := range []int{1, 3, f.text.headStrip} {
			f = newFixture(c, 7)
			f.text.Checkpointing, f.vision.Checkpointing, f.text.headStrip = true, true, strip
			clear(got.Flat)
			f.backward(got)
			require.Equal(t, logProbs, f.text.logProbs)
			require.Equal(t, want.Flat, got.Flat)
			require.Equal(t, logProbs, f.text.Score(f.w, f.batch(f.vision.Encode(f.w, f.images))))
			for _, a := range f.text.layers[1:] {
				require.Empty(t, a.mid, "one layer's activations are held")
			}
			for _, a := range f.vision.blocks[1:] {
				require.Empty(t, a.mid)
			}
		}
	}
}

// The worked example of the M-RoPE positions: 4 text tokens, an image of 4 by 6 patches (2 by 3 tokens), 2 text tokens.
func TestMultimodalPositions(t *testing.T) {
	c := tinyConfig()
	b := &Batch{}
	_, next := b.AddPrefix(&c, []int32{1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 1, 1}, []Features{{GridH: 2, GridW: 3}})
	require.Equal(t, [][3]int32{{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}, {4, 4, 5}, {4, 4, 6}, {4, 5, 4}, {4, 5, 5}, {4, 5, 6}, {7, 7, 7}, {8, 8, 8}}, b.Positions)
	require.EqualValues(t, 9, next, "positions lag the 12 rows by 3")
}
