package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/trinity-lab/trinity/configs"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/trainer/windtunnel"
)

// benchModelCmd compares whole workloads with PyTorch and transformers on the same checkpoint.
type benchModelCmd struct {
	Python  string `default:"python3" env:"TRINITY_PYTHON" help:"Interpreter that has torch, transformers and peft."`
	Rounds  int    `default:"3" help:"Times each workload is measured on either side, in turns; the best counts."`
	Threads int    `default:"2" help:"CPU threads on either side."`
	Quick   bool   `help:"Only the tiny model, with short workloads."`
}

// speedRow is one workload; the reference's figures are 0 where it is absent.
type speedRow struct {
	Model      string  `json:"model"`
	Parameters int     `json:"parameters"`
	Work       string  `json:"work"`
	Tokens     int     `json:"tokens"` // generated, or trained on: those of prompts and completions
	Ours       float64 `json:"tokens_per_second"`
	Torch      float64 `json:"torch_tokens_per_second,omitzero"`
	Attention  string  `json:"torch_attention,omitzero"` // that was faster: eager or sdpa
	Ratio      float64 `json:"ratio,omitzero"`
	Loss       float64 `json:"loss,omitzero"` // of the first step, on either side
	TorchLoss  float64 `json:"torch_loss,omitzero"`
}

type speedReport struct {
	Reference string     `json:"reference,omitempty"` // its versions
	Note      string     `json:"note,omitempty"`      // why there is no reference
	Threads   int        `json:"threads"`
	Rows      []speedRow `json:"rows"`
}

// Run measures and prints. A missing reference is a note.
func (b *benchModelCmd) Run(c *Context) error {
	collectOften()
	report, err := b.measure(c)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(report)
	}
	return report.print(c.Stdout)
}

func (b *benchModelCmd) measure(c *Context) (speedReport, error) {
	if b.Rounds < 1 || b.Threads < 1 {
		return speedReport{}, usage(fmt.Errorf("bench model: --rounds is %d and --threads %d; both must be positive", b.Rounds, b.Threads))
	}
	report := speedReport{Threads: b.Threads, Rows: []speedRow{}}
	reference, err := startTorch(c.Ctx, b.Python)
	switch {
	case errors.Is(err, errNoTorch):
		report.Note = err.Error()
	case err != nil:
		return report, err
	default:
		defer reference.Close()
		report.Reference = reference.versions
	}
	temp, err := os.MkdirTemp("", "trinity-bench-*")
	if err != nil {
		return report, fmt.Errorf("bench model: %w", err)
	}
	defer os.RemoveAll(temp)
	models, err := benchModels(temp, b.Quick)
	if err != nil {
		return report, err
	}
	for _, m := range models {
		w, err := newWorkloads(m, b.Quick)
		if err != nil {
			return report, err
		}
		rows, err := b.compare(c.Ctx, m, w, reference)
		if err != nil {
			return report, err
		}
		report.Rows = append(report.Rows, rows...)
	}
	return report, nil
}

// benchModel is a checkpoint folder.
type benchModel struct{ name, dir string }

// tinyShape is what the tiny model changes of the wind tunnel's config.json.
const tinyShape = `{"text_config":{"hidden_size":64,"intermediate_size":192,"num_hidden_layers":2,"head_dim":16,"rope_scaling":{"mrope_section":[4,2,2],"mrope_interleaved":true,"rope_type":"default"}},
"vision_config":{"hidden_size":32,"intermediate_size":64,"depth":2,"out_hidden_size":64}}`

func benchModels(dir string, quick bool) ([]benchModel, error) {
	tiny, err := createModel(dir, "tiny", tinyShape)
	if err != nil || quick {
		return []benchModel{tiny}, err
	}
	shipped := benchModel{"windtunnel", filepath.Join(dir, "windtunnel")}
	files, err := fs.Sub(configs.Models, "model/windtunnel")
	if err == nil {
		err = os.CopyFS(shipped.dir, files)
	}
	if err != nil {
		return nil, fmt.Errorf("write model: %w", err)
	}
	return []benchModel{tiny, shipped}, nil
}

// createModel writes a random checkpoint: the wind tunnel's with some fields of config.json replaced.
func createModel(dir, name, shape string) (benchModel, error) {
	m := benchModel{name, filepath.Join(dir, name)}
	read := func(file string) ([]byte, error) { return configs.Models.ReadFile("model/windtunnel/" + file) }
	base, err := read("config.json")
	if err != nil {
		return m, err
	}
	var rest, changes map[string]any
	if err := errors.Join(json.Unmarshal(base, &rest), json.Unmarshal([]byte(shape), &changes)); err != nil {
		return m, fmt.Errorf("create model %q: %w", name, err)
	}
	for part, fields := range changes {
		for k, v := range fields.(map[string]any) {
			rest[part].(map[string]any)[k] = v
		}
	}
	var files local.Files
	if files.Config, err = json.Marshal(rest); err != nil {
		return m, err
	}
	if files.Tokenizer, err = read("tokenizer.json"); err != nil {
		return m, err
	}
	if files.Preprocessor, err = read("preprocessor_config.json"); err != nil {
		return m, err
	}
	return m, local.Create(m.dir, files, 1)
}

// workloads are the same for every model of the wind tunnel's tokenizer and image size.
type workloads struct {
	figures map[string][]byte // PNG by key
	prompt  engine.Prompt     // to complete
	n, new  int               // how often, and by how many tokens
	image   []turn            // sequences about figures, several about each
	text    []turn            // sequences of mixed lengths without an image, that have nothing in common
}

type turn struct {
	prompt     engine.Prompt
	completion string
}

func newWorkloads(m benchModel, quick bool) (*workloads, error) {
	figures, n, new := 8, 64, 96
	if quick {
		figures, n, new = 2, 4, 8
	}
	corpus, err := windtunnel.NewHeldOutCorpus(1, figures)
	if err != nil {
		return nil, err
	}
	w := &workloads{figures: map[string][]byte{}, n: n, new: new}
	for i := range figures {
		im, err := corpus.At(i)
		if err != nil {
			return nil, err
		}
		w.figures[im.SHA256] = im.Bytes
		scene, rng := corpus.SceneAt(i)
		for _, t := range scene.Turns(rng, windtunnel.Mix{Questioner: 1, Solver: 1, Screening: 1, Reasoning: 1}) {
			w.image = append(w.image, turn{engine.Prompt{Image: im.SHA256, User: t.Prompt}, t.Completion})
		}
		w.prompt = engine.Prompt{Image: im.SHA256, User: windtunnel.PromptQuestioner}
		w.text = append(w.text, textTurns(rng, scene)...)
	}
	return w, nil
}

// textTurns are four sequences of about 50, 100, 200 and 400 tokens.
func textTurns(rng *rand.Rand, scene windtunnel.Scene) []turn {
	var out []turn
	for _, times := range []int{1, 2, 4, 8} {
		var t turn
		for range times {
			solved := scene.SolverTurn(scene.DrawQuestion(rng, windtunnel.DefaultWeights(), true))
			t.prompt.User += solved.Prompt + " "
			t.completion += solved.Completion + " "
		}
		out = append(out, t)
	}
	return out
}

func (w *workloads) load(ctx context.Context, e engine.Engine) error {
	for key, png := range w.figures {
		if err := e.LoadImage(ctx, key, png); err != nil {
			return err
		}
	}
	return nil
}

// compare measures generation and training steps of one model.
func (b *benchModelCmd) compare(ctx context.Context, m benchModel, w *workloads, reference *torch) ([]speedRow, error) {
	generation, err := b.generation(ctx, m, w, reference)
	if err != nil {
		return nil, err
	}
	rows := []speedRow{generation}
	for _, train := range []string{"full", "lora"} {
		for _, work := range []struct {
			name  string
			turns []turn
		}{{"text, mixed lengths", w.text}, {"images, four sequences each", w.image}} {
			row, err := b.step(ctx, m, w, train, work.turns, reference)
			if err != nil {
				return nil, err
			}
			row.Work = fmt.Sprintf("train %s: %s", train, work.name)
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// attentions are the implementations that the reference has; its faster one counts.
var attentions = []string{"sdpa", "eager"}

const benchRank = 8

func benchOptions(threads int, train string) local.Options {
	return local.Options{Threads: threads, IgnoreStop: true,
		Model:     spec.ModelConfig{Train: train, FreezeVision: train == "lora", LoRA: spec.LoRAConfig{Rank: benchRank, Alpha: 2 * benchRank}},
		Optimizer: spec.OptimizerConfig{LearningRate: 1e-5, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, GradientClip: 1}}
}

func (b *benchModelCmd) generation(ctx context.Context, m benchModel, w *workloads, reference *torch) (speedRow, error) {
	e, err := local.Open(m.dir, benchOptions(b.Threads, "lora"))
	if err != nil {
		return speedRow{}, err
	}
	defer e.Close()
	if err := w.load(ctx, e); err != nil {
		return speedRow{}, err
	}
	request := engine.Request{Prompt: w.prompt, N: w.n, Sampling: spec.SamplingConfig{Temperature: 1, TopP: 1, MaxTokens: w.new}}
	ids, image, err := e.Inputs(w.prompt)
	if err != nil {
		return speedRow{}, err
	}
	row := speedRow{Model: m.name, Parameters: e.Info().Parameters, Tokens: w.n * w.new,
		Work: fmt.Sprintf("generate %d completions of %d tokens after a prompt of %d", w.n, w.new, len(ids))}
	ours := func() (float64, error) {
		start := time.Now()
		tokens := 0
		err := e.Generate(ctx, engine.Policy, []engine.Request{request}, func(c engine.Completion) { tokens += len(c.Tokens) })
		if err == nil && tokens != row.Tokens {
			err = fmt.Errorf("bench model: generated %d tokens, not %d", tokens, row.Tokens)
		}
		return time.Since(start).Seconds(), err
	}
	ask := torchGenerate{"generate", ids, newTorchPicture(image), w.n, w.new}
	return row, b.race(&row, ours, reference, torchOpen{Dir: m.dir, Threads: b.Threads}, ask)
}

func (b *benchModelCmd) step(ctx context.Context, m benchModel, w *workloads, train string, turns []turn, reference *torch) (speedRow, error) {
	opts := benchOptions(b.Threads, train)
	e, err := local.Open(m.dir, opts)
	if err != nil {
		return speedRow{}, err
	}
	defer e.Close()
	if err := w.load(ctx, e); err != nil {
		return speedRow{}, err
	}
	row := speedRow{Model: m.name, Parameters: e.Info().Parameters}
	ask := torchStep{Op: "step"}
	var samples []engine.Sample
	for _, t := range turns {
		ids, image, err := e.Inputs(t.prompt)
		if err != nil {
			return row, err
		}
		tokens := e.Encode(t.completion)
		ask.Sequences = append(ask.Sequences, torchSequence{append(ids, tokens...), len(ids), newTorchPicture(image)})
		samples = append(samples, engine.Sample{Sequence: engine.Sequence{Prompt: t.prompt, Tokens: tokens}})
		row.Tokens += len(ids) + len(tokens)
	}
	ours := func() (float64, error) {
		start := time.Now()
		stats, err := e.Update(ctx, samples, engine.Objective{Kind: engine.Supervised}, opts.Optimizer.LearningRate)
		if row.Loss == 0 {
			row.Loss = stats.Loss
		}
		return time.Since(start).Seconds(), err
	}
	open := torchOpen{Dir: m.dir, Threads: b.Threads, Train: train, Rank: benchRank, Rate: opts.Optimizer.LearningRate}
	return row, b.race(&row, ours, reference, open, ask)
}

// race measures both sides in turns, so that a busy spell of the machine meets both, after one untimed round of each.
func (b *benchModelCmd) race(row *speedRow, ours func() (float64, error), reference *torch, open torchOpen, ask any) error {
	if _, err := ours(); err != nil {
		return err
	}
	best := math.Inf(1)
	sides := attentions
	if reference == nil {
		sides = []string{""}
	}
	for _, attention := range sides {
		theirs := math.Inf(1)
		if reference != nil {
			open.Op, open.Attention = "open", attention
			if _, err := reference.ask(open); err != nil {
				return err
			}
			first, err := reference.ask(ask)
			if err != nil {
				return err
			}
			row.TorchLoss = first.Loss
		}
		for range b.Rounds {
			seconds, err := ours()
			if err != nil {
				return err
			}
			best = min(best, seconds)
			if reference != nil {
				answer, err := reference.ask(ask)
				if err != nil {
					return err
				}
				theirs = min(theirs, answer.Seconds)
			}
		}
		if rate := float64(row.Tokens) / theirs; rate > row.Torch {
			row.Torch, row.Attention = rate, attention
		}
	}
	row.Ours = float64(row.Tokens) / best
	if reference != nil {
		row.Ratio = row.Ours / row.Torch
	}
	return nil
}

func newTorchPicture(im *qwenvl.Image) *torchPicture {
	if im == nil {
		return nil
	}
	pixels := make([]byte, 0, 4*len(im.Patches))
	for _, v := range im.Patches {
		pixels = binary.LittleEndian.AppendUint32(pixels, math.Float32bits(v))
	}
	return &torchPicture{pixels, [3]int{1, im.GridH, im.GridW}}
}

func (r speedReport) print(w io.Writer) error {
	if r.Reference != "" {
		fmt.Fprintf(w, "Reference: %s, float32, the faster of its attention implementations. %d threads on either side.\n\n", r.Reference, r.Threads)
	} else {
		fmt.Fprintf(w, "Note: %s. %d threads.\n\n", r.Note, r.Threads)
	}
	t := markdown{header: []string{"model", "parameters", "work", "tokens", "trinity, tokens/s", "PyTorch, tokens/s", "ratio"}}
	for _, row := range r.Rows {
		theirs, ratio := "-", "-"
		if row.Ratio > 0 {
			theirs, ratio = fmt.Sprintf("%.0f (%s)", row.Torch, row.Attention), fmt.Sprintf("%.2f", row.Ratio)
		}
		t.add(row.Model, millions(row.Parameters), row.Work, fmt.Sprint(row.Tokens), fmt.Sprintf("%.0f", row.Ours), theirs, ratio)
	}
	return t.print(w)
}

func millions(n int) string { return fmt.Sprintf("%.1f M", float64(n)/1e6) }
