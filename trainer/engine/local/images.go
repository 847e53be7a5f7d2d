package local

import (
	"bytes"
	"context"
	"fmt"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/imageproc"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
)

// LoadImage implements engine.Engine.
func (e *Engine) LoadImage(ctx context.Context, key string, encoded []byte) error {
	if e.images[key] != nil {
		return ctx.Err()
	}
	img, err := imageproc.Decode(bytes.NewReader(encoded), imageproc.Limits{})
	if err != nil {
		return err
	}
	p, err := imageproc.Process(img, e.processor)
	if err != nil {
		return err
	}
	e.images[key] = &picture{input: qwenvl.Image{Patches: p.Data, GridH: p.GridH, GridW: p.GridW}, features: map[engine.Slot]qwenvl.Features{}}
	return ctx.Err()
}

// DropImages implements engine.Engine.
func (e *Engine) DropImages(keep ...string) {
	kept := map[string]*picture{}
	for _, k := range keep {
		if p := e.images[k]; p != nil {
			kept[k] = p
		}
	}
	e.images = kept
}

func (e *Engine) forgetFeatures(slot engine.Slot) {
	if e.frozenVision && e.opts.Verifier == "" {
		return
	}
	for _, p := range e.images {
		delete(p.features, slot)
	}
}

// featureSlot is where features are cached: slots share them while they share frozen vision weights.
func (e *Engine) featureSlot(slot engine.Slot) engine.Slot {
	if e.frozenVision && e.opts.Verifier == "" {
		return engine.Policy
	}
	return slot
}

// encode makes sure that the features of the named images are at hand, and returns them by key.
func (e *Engine) encode(ctx context.Context, slot engine.Slot, w *qwenvl.Weights, keys []string) (map[string]qwenvl.Features, error) {
	slot = e.featureSlot(slot)
	out := map[string]qwenvl.Features{}
	var missing []string
	for _, k := range keys {
		p := e.images[k]
		if p == nil {
			return nil, fmt.Errorf("image %q is not loaded; call LoadImage first", k)
		}
		f, ok := p.features[slot]
		if _, seen := out[k]; !ok && !seen {
			missing = append(missing, k)
		}
		out[k] = f
	}
	done := make([]qwenvl.Features, len(missing))
	err := e.parallel(len(missing), func(wk *worker, i int) error {
		done[i] = wk.vision.Encode(w, []qwenvl.Image{e.images[missing[i]].input})[0].Detach()
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	for i, k := range missing {
		e.images[k].features[slot] = done[i]
		out[k] = done[i]
	}
	return out, nil
}

// imageTokens is the number of tokens that an image takes in a prompt.
func (e *Engine) imageTokens(key string) (int, error) {
	if key == "" {
		return 0, nil
	}
	p := e.images[key]
	if p == nil {
		return 0, fmt.Errorf("image %q is not loaded; call LoadImage first", key)
	}
	m := e.config.Vision.SpatialMergeSize
	return p.input.GridH / m * (p.input.GridW / m), nil
}
