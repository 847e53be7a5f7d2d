package local

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/nn"
	"github.com/trinity-lab/trinity/trainer/policy"
)

// chunkRows bounds the rows of one forward and backward pass, and with them the activations held at once.
const chunkRows = 1536

// chunk is a batch of whole prefix groups with, for each of its sequences in target order, the sample it belongs to.
type chunk struct {
	batch   *qwenvl.Batch
	samples []int    // index of each sequence
	lengths []int    // targets of each sequence
	images  []string // in batch order
}

// chunks lays sequences out group by group (those that share a prefix), cutting where a chunk is full. What lies in which
// chunk depends on the sequences alone.
func (e *Engine) chunks(sequences []engine.Sequence, limit int) ([]chunk, error) {
	groups := map[string][]int{}
	var order []string
	for i, s := range sequences {
		if len(s.Tokens) == 0 {
			return nil, fmt.Errorf("sequence %d has no tokens", i)
		}
		id := prefixID(s.Prompt, i)
		if groups[id] == nil {
			order = append(order, id)
		}
		groups[id] = append(groups[id], i)
	}
	var out []chunk
	for _, id := range order {
		members := groups[id]
		for len(members) > 0 {
			if len(out) == 0 || out[len(out)-1].batch.Rows() >= limit {
				out = append(out, chunk{batch: &qwenvl.Batch{}})
			}
			n, err := e.addGroup(&out[len(out)-1], sequences, members)
			if err != nil {
				return nil, err
			}
			members = members[n:]
		}
	}
	return out, nil
}

// addGroup appends a prefix and as many of its members as fit, at least one, and returns how many.
func (e *Engine) addGroup(c *chunk, sequences []engine.Sequence, members []int) (int, error) {
	first := sequences[members[0]].Prompt
	n, err := e.imageTokens(first.Image)
	if err != nil {
		return 0, err
	}
	prefix, _ := e.template.render(first, n)
	var rows nn.Segment
	var next int32
	if len(prefix) > 0 {
		p, m := e.images[first.Image].input, e.config.Vision.SpatialMergeSize
		c.images = append(c.images, first.Image)
		rows, next = c.batch.AddPrefix(&e.config, prefix, []qwenvl.Features{{GridH: p.GridH / m, GridW: p.GridW / m}})
	}
	c.batch.StartGroup(rows)
	for k, i := range members {
		if k > 0 && c.batch.Rows() >= 2*chunkRows {
			return k, nil
		}
		_, rest := e.template.render(sequences[i].Prompt, n)
		c.batch.AddContinuation(next, append(rest, sequences[i].Tokens...), len(sequences[i].Tokens))
		c.samples, c.lengths = append(c.samples, i), append(c.lengths, len(sequences[i].Tokens))
	}
	return len(members), nil
}

// setFeatures puts features, in batch order, at the batch's image rows.
func (c *chunk) setFeatures(features []qwenvl.Features) {
	for i, f := range features {
		c.batch.Images[i].Features = f
	}
}

// Score implements engine.Engine.
func (e *Engine) Score(ctx context.Context, slot engine.Slot, sequences []engine.Sequence) ([][]float32, error) {
	w, err := e.weights(slot)
	if err != nil {
		return nil, err
	}
	chunks, err := e.chunks(sequences, chunkRows)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(sequences))
	if err := e.cachedFeatures(ctx, slot, w, chunks); err != nil {
		return nil, err
	}
	err = e.parallel(len(chunks), func(wk *worker, i int) error {
		lp := wk.text.Score(w, chunks[i].batch)
		for k, s := range chunks[i].samples {
			out[s] = append([]float32(nil), lp[:chunks[i].lengths[k]]...)
			lp = lp[chunks[i].lengths[k]:]
		}
		return ctx.Err()
	})
	return out, err
}

func (e *Engine) cachedFeatures(ctx context.Context, slot engine.Slot, w *qwenvl.Weights, chunks []chunk) error {
	var keys []string
	for i := range chunks {
		keys = append(keys, chunks[i].images...)
	}
	features, err := e.encode(ctx, slot, w, keys)
	if err != nil {
		return err
	}
	for i := range chunks {
		var fs []qwenvl.Features
		for _, k := range chunks[i].images {
			fs = append(fs, features[k])
		}
		chunks[i].setFeatures(fs)
	}
	return nil
}

// Update implements engine.Engine.
func (e *Engine) Update(ctx context.Context, samples []engine.Sample, objective engine.Objective, learningRate float64) (engine.UpdateStats, error) {
	if e.base == nil {
		return engine.UpdateStats{}, errReadOnly
	}
	if len(samples) == 0 {
		return engine.UpdateStats{}, errors.New("update: no samples")
	}
	sequences := make([]engine.Sequence, len(samples))
	rows := 0
	for i, s := range samples {
		sequences[i] = s.Sequence
		rows += len(s.Tokens)
	}
	chunks, err := e.chunks(sequences, min(chunkRows, max(1, rows/lanes)))
	if err != nil {
		return engine.UpdateStats{}, err
	}
	if e.frozenVision {
		if err := e.cachedFeatures(ctx, engine.Policy, e.policy, chunks); err != nil {
			return engine.UpdateStats{}, err
		}
	}
	most := 0 // rows of a chunk
	for i := range chunks {
		most = max(most, chunks[i].batch.Rows())
	}
	e.work.TrainedRows = max(e.work.TrainedRows, most)
	for _, wk := range e.workers {
		wk.text.Reserve(most)
	}
	loss, err := newLoss(objective, samples)
	if err != nil {
		return engine.UpdateStats{}, err
	}
	stats := make([]engine.UpdateStats, lanes)
	queue := newLaneQueue(e.flatGradients())
	err = e.parallel(len(e.workers), func(wk *worker, _ int) error {
		for {
			lane, grad := queue.take()
			if lane == lanes {
				return ctx.Err()
			}
			for i := lane; i < len(chunks) && ctx.Err() == nil; i += lanes {
				e.backward(wk, &chunks[i], loss, e.grads[grad], &stats[lane])
			}
			queue.finish(lane, grad)
		}
	})
	if err != nil {
		e.clearGradients()
		return engine.UpdateStats{}, err
	}
	total := sum(stats)
	total.GradNorm = e.optimizer.Step(e.params, learningRate)
	if e.adapters != nil {
		e.policy.MergeLoRA(&e.workers[0].gemm)
	}
	e.forgetFeatures(engine.Policy)
	if math.IsNaN(total.Loss) || math.IsInf(total.GradNorm, 0) || math.IsNaN(total.GradNorm) {
		return total, fmt.Errorf("update: loss is %g and the gradient's norm %g; lower the learning rate", total.Loss, total.GradNorm)
	}
	return total, nil
}

// backward runs one chunk forward and back, adding to grad.
func (e *Engine) backward(wk *worker, c *chunk, loss *loss, grad *qwenvl.Weights, stats *engine.UpdateStats) {
	if !e.frozenVision && len(c.images) > 0 {
		inputs := make([]qwenvl.Image, len(c.images))
		for i, k := range c.images {
			inputs[i] = e.images[k].input
		}
		c.setFeatures(wk.vision.Forward(e.policy, inputs))
	}
	lp := wk.text.Forward(e.policy, c.batch)
	coef := make([]float32, len(lp))
	at := 0
	for k, s := range c.samples {
		n := c.lengths[k]
		loss.add(s, lp[at:at+n], coef[at:at+n], stats)
		at += n
	}
	d := wk.text.Backward(e.policy, c.batch, coef, grad, !e.frozenVision)
	if !e.frozenVision && len(c.images) > 0 {
		wk.vision.Backward(e.policy, d, grad)
	}
}

func (e *Engine) flatGradients() [][]float32 {
	var flats [][]float32
	for i := range e.grads {
		if e.adapters != nil {
			flats = append(flats, e.adapterGrads[i].Flat)
		} else {
			flats = append(flats, e.grads[i].Flat)
		}
	}
	return flats
}

func (e *Engine) clearGradients() {
	for _, f := range e.flatGradients() {
		clear(f)
	}
}

// loss turns log-probs into the objective's value and its gradient.
type loss struct {
	objective engine.Objective
	samples   []engine.Sample
	weight    float64 // of all target tokens, for the supervised mean
}

func newLoss(o engine.Objective, samples []engine.Sample) (*loss, error) {
	l := &loss{objective: o, samples: samples}
	for i, s := range samples {
		switch o.Kind {
		case engine.GSPO:
			if len(s.OldLogProbs) != len(s.Tokens) {
				return nil, fmt.Errorf("update: sample %d has %d tokens and %d old log-probs", i, len(s.Tokens), len(s.OldLogProbs))
			}
		case engine.Supervised:
			l.weight += weightOf(s) * float64(len(s.Tokens))
		default:
			return nil, fmt.Errorf("update: objective %q; the CPU engine has %q and %q", o.Kind, engine.GSPO, engine.Supervised)
		}
	}
	return l, nil
}

func weightOf(s engine.Sample) float64 {
	if s.Weight == 0 {
		return 1
	}
	return s.Weight
}

// add fills coef with the gradient of the loss with respect to the sample's log-probs, and adds to the stats, which hold
// this sample's share of each mean.
func (l *loss) add(i int, lp, coef []float32, st *engine.UpdateStats) {
	s := l.samples[i]
	if l.objective.Kind == engine.Supervised {
		w := weightOf(s) / l.weight
		for t, v := range lp {
			coef[t] = float32(-w)
			st.PolicyLoss -= w * float64(v)
		}
		st.Loss = st.PolicyLoss
		return
	}
	ratios := make([]float64, len(lp))
	for t, v := range lp {
		ratios[t] = float64(v) - float64(s.OldLogProbs[t])
	}
	grad := make([]float64, len(ratios))
	r := policy.GSPO(l.objective.GSPO).Rollout(ratios, s.Advantage, grad)
	share := 1 / float64(len(l.samples))
	for t, g := range grad {
		coef[t] = float32(g * share)
	}
	st.PolicyLoss += r.Policy * share
	st.Regulariser += r.Regulariser * share
	st.Loss += r.Total() * share
	st.RatioMean += r.Ratio * share
	st.KL += r.KL * share
	if r.Clipped {
		st.ClipFraction += share
	}
}

func sum(parts []engine.UpdateStats) engine.UpdateStats {
	var t engine.UpdateStats
	for _, p := range parts {
		t.Loss += p.Loss
		t.PolicyLoss += p.PolicyLoss
		t.Regulariser += p.Regulariser
		t.ClipFraction += p.ClipFraction
		t.RatioMean += p.RatioMean
		t.KL += p.KL
	}
	return t
}
