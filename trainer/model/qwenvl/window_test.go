package qwenvl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/nn"
)

// The worked example: windows of two by two tokens over three by five, after an image of one window.
func TestWindowsAreRowMajorAndClippedAtTheBorder(t *testing.T) {
	c := tinyConfig25()
	n := NewVisionNet(&c.Vision)
	dim := c.Vision.patchDim()
	var images []Image
	for _, g := range [][2]int{{4, 4}, {6, 10}} {
		im := Image{GridH: g[0], GridW: g[1], Patches: make([]float32, g[0]*g[1]*dim)}
		for i := range im.Patches {
			im.Patches[i] = float32(100*len(images) + i/dim/4) // the token's row-major index
		}
		images = append(images, im)
	}
	n.layout(images)
	order := []int{0, 1, 2, 3}
	second := []int{0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14}
	for _, k := range second {
		order = append(order, 4+k)
	}
	require.Equal(t, order, n.order)
	for i, k := range second {
		require.EqualValues(t, 100+k, n.patches[(16+4*i)*dim], "token %d", i)
	}
	require.Equal(t, []nn.Group{
		{Full: true, Segments: []nn.Segment{{Start: 0, Len: 16}}},
		{Full: true, Segments: []nn.Segment{{Start: 16, Len: 16}, {Start: 32, Len: 16}, {Start: 48, Len: 8}, {Start: 56, Len: 8}, {Start: 64, Len: 8}, {Start: 72, Len: 4}}},
	}, n.windows)
	require.Equal(t, n.windows, n.groups(0))
	require.Equal(t, []nn.Group{{Full: true, Segments: []nn.Segment{{Start: 0, Len: 16}}}, {Full: true, Segments: []nn.Segment{{Start: 16, Len: 60}}}}, n.groups(1))
}

// A change within one window reaches the tokens of other windows through the block that attends over the whole image alone.
func TestWindowsIsolateTheirTokens(t *testing.T) {
	c := tinyConfig25()
	for _, full := range [][]int{{}, {1}} {
		c.Vision.FullAttention = full
		f := newFixture(c, 23)
		im := f.images[0] // three by two tokens: two windows, one above the other
		before := f.vision.Forward(f.w, []Image{im})[0].Detach().Tokens
		for i := range im.Patches[:4*c.Vision.patchDim()] {
			im.Patches[i] += 0.5
		}
		after := f.vision.Forward(f.w, []Image{im})[0].Tokens
		d := c.Vision.OutHiddenSize
		require.NotEqual(t, before[:4*d], after[:4*d])
		require.Equal(t, len(full) == 0, equalBits(before[4*d:], after[4*d:]))
	}
}

func equalBits(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// Decoding token by token, over a prefix with images that two streams share, gives the logits of the forward pass.
func TestDecodingAgreesWithTheForwardPass(t *testing.T) {
	for _, c := range []Config{tinyConfig(), tinyConfig25()} {
		f := newFixture(c, 29)
		features := f.vision.Forward(f.w, f.images)
		prompt := []int32{5}
		for range features[0].GridH * features[0].GridW {
			prompt = append(prompt, c.ImageTokenID)
		}
		continuations := [][]int32{{7, 8, 9, 10}, {11, 12, 13, 14}}
		whole := make([][]float32, len(continuations))
		V := c.Text.VocabSize
		for i, tokens := range continuations {
			b := &Batch{}
			b.AddPrefix(&c, append(append([]int32{}, prompt...), tokens...), features[:1])
			f.text.Forward(f.w, b)
			rows := []int{}
			for k := range tokens {
				rows = append(rows, len(prompt)+k)
			}
			whole[i] = append(whole[i], f.text.Logits(f.w, rows)...)
		}
		b := &Batch{}
		rows, next := b.AddPrefix(&c, prompt, features[:1])
		kvs := f.text.Prefill(f.w, b, []nn.Segment{rows, {}})
		prefix, empty := kvs[0], kvs[1]
		streams := []*Stream{{Prefix: prefix, Own: empty.Fork(&c, 4), Next: next}, {Own: prefix.Fork(&c, 4), Next: next}} // shared, and copied
		decoder := NewDecoder(f.text)
		for k := range continuations[0] {
			logits := decoder.Step(f.w, streams, []int32{continuations[0][k], continuations[1][k]})
			for i := range streams {
				require.InDeltaSlice(t, whole[i][k*V:k*V+V], logits[i*V:i*V+V], 1e-5, "%s, token %d of stream %d", c.Architecture(), k, i)
			}
		}
	}
}
