// Package eval measures a checkpoint in every role of the loop on wind-tunnel figures that no training saw, against the
// exact truth.
package eval

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/parse"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/trainer/windtunnel"
)

// Options of a measurement.
type Options struct {
	Figures     int // held-out figures
	Seed        uint64
	Temperature float64 // of Questioner and Solver: 1 is what the loop samples at, 0 is greedy
	Verifier    float64 // temperature of the Verifier's four prompts
	MaxTokens   int
	Progress    func(done, total int)
}

// Share is a count of successes among trials.
type Share struct {
	Hits   int `json:"hits"`
	Trials int `json:"trials"`
}

func (s *Share) add(hit bool) {
	s.Trials++
	if hit {
		s.Hits++
	}
}

// Rate is Hits/Trials, NaN without trials.
func (s Share) Rate() float64 { return float64(s.Hits) / float64(s.Trials) }

// Confusion counts a binary judgement against the truth. What could not be parsed counts as a negative judgement, as in the loop.
type Confusion struct {
	TP int `json:"tp"`
	FP int `json:"fp"`
	TN int `json:"tn"`
	FN int `json:"fn"`
}

func (c *Confusion) add(truth, said bool) {
	switch {
	case truth && said:
		c.TP++
	case truth:
		c.FN++
	case said:
		c.FP++
	default:
		c.TN++
	}
}

// Accuracy is the share judged right.
func (c Confusion) Accuracy() float64 {
	return float64(c.TP+c.TN) / float64(c.TP+c.TN+c.FP+c.FN)
}

// TPR is the share of positives judged positive, FPR that of negatives judged positive.
func (c Confusion) TPR() float64 { return float64(c.TP) / float64(c.TP+c.FN) }

// FPR is the share of negatives judged positive.
func (c Confusion) FPR() float64 { return float64(c.FP) / float64(c.FP+c.TN) }

// YoudenJ is TPR - FPR.
func (c Confusion) YoudenJ() float64 { return c.TPR() - c.FPR() }

// Report is what a checkpoint can do.
type Report struct {
	Figures     int              `json:"figures"`
	Temperature float64          `json:"temperature"`
	Verifier    float64          `json:"verifier_temperature"`
	Format      map[string]Share `json:"format"` // output parses, by role
	Solver      [4]Share         `json:"solver"` // right answers by level 1..4, each level drawn equally often
	Grounded    Share            `json:"questioner_grounded"`
	Right       Share            `json:"questioner_answer_right"`
	Level       [4]int           `json:"questioner_levels"` // questions asked, by level
	FactQ       Confusion        `json:"screening_fact_q"`  // on drawn questions, three in ten ungrounded
	Difficulty  Share            `json:"screening_difficulty"`
	CorrA       Confusion        `json:"screening_corr_a"` // on questions and answers sampled from the Questioner itself
	CorrADrawn  Confusion        `json:"screening_corr_a_drawn"`
	Reasoning   Share            `json:"reasoning_score"`     // on drawn reasoning, the four scores balanced
	OwnReason   Share            `json:"reasoning_score_own"` // on what the Solver itself wrote
	Equivalence Share            `json:"equivalence"`
	Dispute     Share            `json:"dispute"`
	Forms       []FormReport     `json:"forms"` // by form of question, over the questions that the Solver was given
}

// FormReport is how the Solver and the Verifier do on one form of question. Answers screened are right or wrong equally often.
type FormReport struct {
	Form   string    `json:"form"`
	Level  int       `json:"level"`
	Solver Share     `json:"solver"`
	CorrA  Confusion `json:"screening_corr_a"`
}

// Measure runs all roles of the policy on held-out figures.
func Measure(ctx context.Context, e engine.Engine, o Options) (Report, error) {
	corpus, err := windtunnel.NewHeldOutCorpus(o.Seed, o.Figures)
	if err != nil {
		return Report{}, err
	}
	m := &measurement{Options: o, engine: e, report: Report{Figures: o.Figures, Temperature: o.Temperature, Verifier: o.Verifier, Format: map[string]Share{}}}
	for f := range len(windtunnel.Weights{}) {
		q := windtunnel.Question{Form: windtunnel.Form(f)}
		m.report.Forms = append(m.report.Forms, FormReport{Form: q.Form.String(), Level: q.Level()})
	}
	const together = 50
	for at := 0; at < o.Figures; at += together {
		if err := m.batch(ctx, corpus, at, min(at+together, o.Figures)); err != nil {
			return Report{}, err
		}
		if o.Progress != nil {
			o.Progress(min(at+together, o.Figures), o.Figures)
		}
	}
	return m.report, nil
}

// measurement is a Measure call in progress.
type measurement struct {
	Options
	engine   engine.Engine
	report   Report
	requests []engine.Request
	judges   []func(text string, truncated bool)
}

func (m *measurement) batch(ctx context.Context, corpus *windtunnel.Corpus, from, to int) error {
	defer m.engine.DropImages()
	for i := from; i < to; i++ {
		image, err := corpus.At(i)
		if err != nil {
			return err
		}
		scene, ok := corpus.Scene(image.SHA256)
		if !ok {
			return fmt.Errorf("figure %d has no scene", i)
		}
		if err := m.engine.LoadImage(ctx, image.SHA256, image.Bytes); err != nil {
			return err
		}
		m.ask(i, image.SHA256, scene)
	}
	if err := m.run(ctx, 0); err != nil { // Questioner, Solver and judges of drawn text
		return err
	}
	return m.run(ctx, 1) // judges of what was said
}

// run samples everything queued; what the answers queue in turn waits for the next run.
func (m *measurement) run(ctx context.Context, round int) error {
	requests, judges := m.requests, m.judges
	m.requests, m.judges = nil, nil
	type said struct {
		text      string
		truncated bool
	}
	out := make([]said, len(requests))
	for i := range requests {
		requests[i].Key.Attempt = round
	}
	err := m.engine.Generate(ctx, engine.Policy, requests, func(c engine.Completion) { out[c.Request] = said{c.Text, c.Truncated} })
	if err != nil {
		return err
	}
	for i, j := range judges { // in order, so that a report does not depend on which completion ended first
		j(out[i].text, out[i].truncated)
	}
	return nil
}

func (m *measurement) queue(figure int, image, role, user string, judge func(text string, truncated bool)) {
	temperature := m.Verifier
	if role == windtunnel.RoleQuestioner || role == windtunnel.RoleSolver {
		temperature = m.Temperature
	}
	key := engine.Key{Seed: m.Seed, Step: figure, Role: role, Index: len(m.requests) & 0xffff}
	m.requests = append(m.requests, engine.Request{Prompt: engine.Prompt{Image: image, User: user}, N: 1, Key: key,
		Sampling: spec.SamplingConfig{Temperature: temperature, TopP: 1, MaxTokens: m.MaxTokens}})
	m.judges = append(m.judges, judge)
}

func (m *measurement) format(role string, ok bool) {
	s := m.report.Format[role]
	s.add(ok)
	m.report.Format[role] = s
}

func (m *measurement) ask(i int, image string, s windtunnel.Scene) {
	rng := rand.New(rand.NewPCG(m.Seed, uint64(i)))
	for range 2 {
		m.queue(i, image, windtunnel.RoleQuestioner, windtunnel.PromptQuestioner, func(text string, truncated bool) { m.questioner(i, image, s, text, truncated) })
	}
	for level := range 4 {
		q := s.DrawQuestion(rng, levelWeights(level+1), true)
		m.solver(i, image, s, q)
		m.screen(i, image, s, q, rng)
	}
	for _, t := range s.Turns(rng, windtunnel.Mix{Screening: 2, Reasoning: 2, Equivalence: 1, Dispute: 1}) {
		m.turn(i, image, s, t)
	}
}

// levelWeights draws questions of one level, its forms equally often.
func levelWeights(level int) windtunnel.Weights {
	var w windtunnel.Weights
	for f := range w {
		if (windtunnel.Question{Form: windtunnel.Form(f)}).Level() == level {
			w[f] = 1
		}
	}
	return w
}

func (m *measurement) questioner(i int, image string, s windtunnel.Scene, text string, truncated bool) {
	qa, err := parse.Questioner(text, parse.Options{Truncated: truncated})
	m.format(windtunnel.RoleQuestioner, err == nil)
	if err != nil {
		return
	}
	v := s.Judge(qa.Question, qa.Answer)
	m.report.Grounded.add(v.Grounded)
	m.report.Right.add(v.AnswerRight)
	if v.Parsed {
		m.report.Level[v.Level-1]++
	}
	m.queue(i, image, windtunnel.RoleScreening, s.ScreenTurn(qa.Question, qa.Answer).Prompt, func(text string, _ bool) {
		got, err := parse.Screening(text)
		m.format(windtunnel.RoleScreening, err == nil)
		m.report.CorrA.add(v.AnswerRight, got.FactQ == 1 && got.CorrA == 1)
	})
}

func (m *measurement) solver(i int, image string, s windtunnel.Scene, q windtunnel.Question) {
	m.queue(i, image, windtunnel.RoleSolver, s.SolverTurn(q).Prompt, func(text string, truncated bool) {
		sol, err := parse.Solver(text, parse.Options{RequireThink: true, Truncated: truncated})
		m.format(windtunnel.RoleSolver, err == nil)
		right := err == nil && s.Judge(q.Text(), sol.Answer).AnswerRight
		m.report.Solver[q.Level()-1].add(right)
		m.report.Forms[q.Form].Solver.add(right)
		if err != nil {
			return
		}
		if t, ok := s.ReasoningTurn(q.Text(), sol.Think); ok {
			want, _ := parse.Reasoning(t.Completion)
			m.queue(i, image, windtunnel.RoleReasoning, t.Prompt, func(text string, _ bool) {
				got, err := parse.Reasoning(text)
				m.format(windtunnel.RoleReasoning, err == nil)
				m.report.OwnReason.add(err == nil && got.Score == want.Score)
			})
		}
	})
}

// screen has a right or a wrong answer to a grounded question judged.
func (m *measurement) screen(i int, image string, s windtunnel.Scene, q windtunnel.Question, rng *rand.Rand) {
	given := s.Solve(q).Answer
	if rng.IntN(2) == 0 {
		given = s.WrongAnswer(rng, q, given)
	}
	right := s.Judge(q.Text(), given).AnswerRight
	m.queue(i, image, windtunnel.RoleScreening, s.ScreenTurn(q.Text(), given).Prompt, func(text string, _ bool) {
		got, err := parse.Screening(text)
		m.format(windtunnel.RoleScreening, err == nil)
		m.report.Forms[q.Form].CorrA.add(right, got.FactQ == 1 && got.CorrA == 1)
	})
}

// turn asks what the turn's completion answers, and compares.
func (m *measurement) turn(i int, image string, _ windtunnel.Scene, t windtunnel.Turn) {
	if t.Role == windtunnel.RoleEquivalence {
		image = ""
	}
	r := &m.report
	m.queue(i, image, t.Role, t.Prompt, func(text string, _ bool) {
		var err error
		switch t.Role {
		case windtunnel.RoleScreening:
			want, _ := parse.Screening(t.Completion)
			var got parse.ScreeningVerdict
			got, err = parse.Screening(text)
			r.FactQ.add(want.FactQ == 1, got.FactQ == 1)
			r.Difficulty.add(got.Difficulty == want.Difficulty)
			if want.FactQ == 1 {
				r.CorrADrawn.add(want.CorrA == 1, got.FactQ == 1 && got.CorrA == 1)
			}
		case windtunnel.RoleReasoning:
			want, _ := parse.Reasoning(t.Completion)
			var got parse.ReasoningVerdict
			got, err = parse.Reasoning(text)
			r.Reasoning.add(err == nil && got.Score == want.Score)
		case windtunnel.RoleEquivalence:
			want, _ := parse.Equivalence(t.Completion)
			var got parse.EquivalenceVerdict
			got, err = parse.Equivalence(text)
			r.Equivalence.add(err == nil && got.Match == want.Match)
		case windtunnel.RoleDispute:
			want, _ := parse.Dispute(t.Completion)
			var got parse.DisputeVerdict
			got, err = parse.Dispute(text)
			r.Dispute.add(err == nil && got.Majority == want.Majority)
		}
		m.format(t.Role, err == nil)
	})
}

// Markdown is the report as a table, each share with its 95% Wilson interval.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d held-out figures; temperature %g, Verifier %g | value | 95%% interval | trials |\n|---|---|---|---|\n", r.Figures, r.Temperature, r.Verifier)
	row := func(name string, s Share) {
		lo, hi := wilson(s)
		fmt.Fprintf(&b, "| %s | %.1f%% | %.1f–%.1f | %d |\n", name, 100*s.Rate(), 100*lo, 100*hi, s.Trials)
	}
	for _, role := range []string{windtunnel.RoleQuestioner, windtunnel.RoleSolver, windtunnel.RoleScreening, windtunnel.RoleReasoning, windtunnel.RoleEquivalence, windtunnel.RoleDispute} {
		row("format valid: "+role, r.Format[role])
	}
	for i, s := range r.Solver {
		row(fmt.Sprintf("Solver, level %d", i+1), s)
	}
	row("Questioner: grounded", r.Grounded)
	row("Questioner: grounded and its answer right", r.Right)
	row("screening: fact_q right (drawn questions)", Share{r.FactQ.TP + r.FactQ.TN, r.FactQ.TP + r.FactQ.TN + r.FactQ.FP + r.FactQ.FN})
	row("screening: difficulty right", r.Difficulty)
	confusion := func(name string, c Confusion) {
		row(name+": TPR", Share{c.TP, c.TP + c.FN})
		row(name+": FPR", Share{c.FP, c.FP + c.TN})
		fmt.Fprintf(&b, "| %s: Youden's J | %.2f | | %d |\n", name, c.YoudenJ(), c.TP+c.FN+c.FP+c.TN)
	}
	confusion("corr_a on the Questioner's own answers", r.CorrA)
	confusion("corr_a on drawn answers", r.CorrADrawn)
	row("reasoning score right (drawn, balanced)", r.Reasoning)
	row("reasoning score right (the Solver's own)", r.OwnReason)
	row("equivalence right", r.Equivalence)
	row("dispute right", r.Dispute)
	b.WriteString("\n| form of question | level | Solver right | wrong answers passed | right answers refused | trials |\n|---|---|---|---|---|---|\n")
	for _, f := range r.Forms {
		fmt.Fprintf(&b, "| %s | %d | %.0f%% | %.0f%% | %.0f%% | %d |\n", f.Form, f.Level, 100*f.Solver.Rate(), 100*f.CorrA.FPR(), 100*(1-f.CorrA.TPR()), f.Solver.Trials)
	}
	return b.String()
}

// wilson is the 95% Wilson score interval.
func wilson(s Share) (lo, hi float64) {
	if s.Trials == 0 {
		return math.NaN(), math.NaN()
	}
	const z = 1.959964
	n, p := float64(s.Trials), s.Rate()
	centre, spread := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, (centre-spread)/(1+z*z/n)), min(1, (centre+spread)/(1+z*z/n))
}
