package fidelity

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Prompts become the same tokens, images the same patches.
func TestProcessor(t *testing.T) {
	forEachFamily(t, func(t *testing.T, g *golden) {
		e := g.open(t, local.Options{})
		for i, p := range g.Prompts {
			ids, image, err := e.Inputs(p.prompt())
			require.NoError(t, err)
			require.Equal(t, p.IDs, ids, "tokens of prompt %d", i)
			if p.Image == "" {
				require.Nil(t, image)
				continue
			}
			require.Equal(t, g.Images[p.Image].Grid, [3]int{1, image.GridH, image.GridW})
			g.compare(t, pixels, p.Image, g.tensor(t, "pixels."+p.Image), image.Patches)
		}
		for _, s := range g.Sequences {
			require.Equal(t, s.Tokens, e.Encode(s.Text), "tokens of %q", s.Text)
		}
	})
}

// Both nets, layer by layer, on the sequences one after the other.
func TestLayers(t *testing.T) {
	forEachFamily(t, func(t *testing.T, g *golden) {
		e := g.open(t, local.Options{})
		c, w := exported(t, e)
		f := g.visionFeatures(t, e, &c, w)
		for name := range g.Images {
			g.compare(t, features, name, g.tensor(t, "features."+name), f[name].Tokens)
			for i, d := range f[name].Deep {
				g.compare(t, deepstack, fmt.Sprintf("%s, level %d", name, i), g.tensor(t, fmt.Sprintf("deep.%s.%d", name, i)), d)
			}
		}
		b := g.batch(&c, f)
		var positions [][3]int32
		for _, s := range g.Sequences {
			positions = append(positions, s.Positions...)
		}
		require.Equal(t, positions, b.Positions)
		net := qwenvl.NewTextNet(&c)
		net.Forward(w, b)
		for layer := range c.Text.Layers + 1 {
			g.compare(t, hidden, fmt.Sprintf("layer %d", layer), g.tensor(t, fmt.Sprintf("hidden.%d", layer)), net.Hidden(layer))
		}
		g.compare(t, logits, "the batch", g.tensor(t, "logits"), net.Logits(w, allRows(b)))
	})
}

// Scoring shares prefixes between sequences, which must not show.
func TestLogProbs(t *testing.T) {
	forEachFamily(t, func(t *testing.T, g *golden) {
		lp, err := g.open(t, local.Options{}).Score(context.Background(), engine.Policy, g.sequences())
		require.NoError(t, err)
		g.compare(t, logProbs, "the batch", g.tensor(t, "log_probs"), slices.Concat(lp...))
	})
}

func TestGreedy(t *testing.T) {
	forEachFamily(t, func(t *testing.T, g *golden) {
		e := g.open(t, local.Options{IgnoreStop: true})
		var requests []engine.Request
		for i, p := range g.Prompts {
			requests = append(requests, engine.Request{Prompt: p.prompt(), N: 1, Sampling: spec.SamplingConfig{TopP: 1, MaxTokens: len(g.Greedy[i])}})
		}
		got := make([][]int32, len(requests))
		require.NoError(t, e.Generate(context.Background(), engine.Policy, requests, func(c engine.Completion) { got[c.Request] = c.Tokens }))
		require.Equal(t, g.Greedy, got)
	})
}

// visionFeatures encodes all images together.
func (g *golden) visionFeatures(t *testing.T, e *local.Engine, c *qwenvl.Config, w *qwenvl.Weights) map[string]qwenvl.Features {
	t.Helper()
	var names []string
	var images []qwenvl.Image
	for _, p := range g.Prompts {
		if p.Image == "" {
			continue
		}
		_, image, err := e.Inputs(p.prompt())
		require.NoError(t, err)
		names, images = append(names, p.Image), append(images, *image)
	}
	out := map[string]qwenvl.Features{}
	for i, f := range qwenvl.NewVisionNet(&c.Vision).Forward(w, images) {
		out[names[i]] = f
	}
	return out
}

// batch lays the sequences out one after the other, as the goldens are.
func (g *golden) batch(c *qwenvl.Config, f map[string]qwenvl.Features) *qwenvl.Batch {
	b := &qwenvl.Batch{}
	for _, s := range g.Sequences {
		p := g.Prompts[s.Prompt]
		var images []qwenvl.Features
		if p.Image != "" {
			images = append(images, f[p.Image])
		}
		b.AddPrefix(c, slices.Concat(p.IDs, s.Tokens), images)
	}
	return b
}

func allRows(b *qwenvl.Batch) []int {
	rows := make([]int, b.Rows())
	for i := range rows {
		rows[i] = i
	}
	return rows
}
