package httpd

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/web/page"
	"github.com/trinity-lab/trinity/web/view"
)

func (s *Site) episode(w http.ResponseWriter, r *http.Request) error {
	id, err := strconv.ParseInt(chi.URLParam(r, "id"), 10, 64)
	if err != nil {
		return experiment.ErrNotFound
	}
	e, err := s.service.Episode(r.Context(), id)
	if err != nil {
		return err
	}
	run, err := s.service.Run(r.Context(), e.Run)
	if err != nil {
		return err
	}
	m := episodeModel(e, run)
	m.Shell = s.shell(fmt.Sprintf("Step %d, image %d", e.Step, e.Slot+1), "runs")
	return render(w, r, http.StatusOK, page.Episode(m))
}

func episodeModel(e experiment.Episode, run experiment.Run) view.Episode {
	m := view.Episode{
		ID: e.ID, RunName: run.Name, RunURL: runURL(run.ID), ListURL: runURL(run.ID) + "/episodes", Step: e.Step, Slot: e.Slot,
		Image: imageURL(e.Image), ImageHash: e.Image, Outcome: outcomeOf(e.Outcome), Superseded: e.Superseded,
		Question: e.Question, Reference: e.Reference, Difficulty: view.Exact(e.Difficulty),
	}
	if e.Previous != 0 {
		m.Previous = episodeURL(e.Previous)
	}
	if e.Next != 0 {
		m.Next = episodeURL(e.Next)
	}
	if d := e.Dispute; d != nil {
		m.Dispute = &view.Dispute{
			Reference: d.Reference, Majority: d.Majority, Count: d.Count, Formatted: d.Formatted, Support: d.Support, Attempts: d.Attempts,
			Outcome: d.Outcome, Overturned: d.Overturned, Justification: d.Justification, Judgements: judgementModels(e.JudgementsOf(spec.JudgeDispute, d.Support)),
		}
		if d.Overturned {
			m.Final = d.Majority
		}
	}
	c := coefficients(run.Config.Reward)
	for _, candidate := range e.CandidateList {
		m.Candidates = append(m.Candidates, candidateModel(&e, candidate, c))
	}
	for _, rollout := range e.RolloutList {
		m.Rollouts = append(m.Rollouts, rolloutModel(&e, rollout, c))
	}
	return m
}

func coefficients(r spec.RewardConfig) view.Coefficients {
	return view.Coefficients{AlphaQ: r.AlphaQ, BetaQ: r.BetaQ, RhoF: r.RhoF, WC: r.WC, WR: r.WR, WF: r.WF}
}

func candidateModel(e *experiment.Episode, c spec.Candidate, k view.Coefficients) view.Candidate {
	screening := e.JudgementsOf(spec.JudgeScreening, c.G)
	m := view.Candidate{
		G: c.G, Question: c.Question, Answer: c.Answer, Selected: c.Selected, Utterance: utterance(c.Completion),
		Screened: c.Screened, Screening: judgementModels(screening), Final: c.Final, Oracle: oracleModel(c.Oracle, true),
	}
	signals := view.QuestionerSignals{
		FormatOK: c.FormatOK, Fact: c.FactQ, Corr: c.CorrA, Difficulty: c.Difficulty, Chal: c.RChal, Selected: c.Selected,
		Reward: c.Reward, Advantage: c.Advantage, Retained: c.Retained,
	}
	for _, r := range e.RolloutList {
		if r.Evaluable {
			signals.Evaluable++
			if r.Correct == 0 {
				signals.Incorrect++
			}
		}
	}
	m.Sum = view.QuestionerSum(k, signals)
	if m.Oracle != nil && c.Oracle.Parsed {
		m.Oracle.Conflict = screeningConflict(screening, *c.Oracle)
	}
	return m
}

// screeningConflict says how the last readable screening contradicts the truth. What is said of the answer to an
// ungrounded question does not count: it has none.
func screeningConflict(screening []experiment.Judgement, truth spec.OracleVerdict) string {
	for i := len(screening) - 1; i >= 0; i-- {
		j := screening[i]
		if !j.FormatOK {
			continue
		}
		grounded, right := j.Fields["fact_q"] == 1, j.Fields["corr_a"] == 1
		switch {
		case grounded && !truth.Grounded:
			return "the Verifier passed an ungrounded question"
		case !grounded && truth.Grounded:
			return "the Verifier refused a grounded question"
		case grounded && right && !truth.Right:
			return "the Verifier passed a wrong answer"
		case grounded && !right && truth.Right:
			return "the Verifier refused a right answer"
		}
		return ""
	}
	return ""
}

func rolloutModel(e *experiment.Episode, r spec.Rollout, k view.Coefficients) view.Rollout {
	m := view.Rollout{
		K: r.K, Think: r.Think, Answer: r.Answer, Correct: r.Correct == 1, Tier: r.Tier, Reason: view.Exact(r.Reason), Evaluable: r.Evaluable,
		Utterance: utterance(r.Completion), Final: r.Final, Oracle: oracleModel(r.Oracle, false),
		Equivalence: judgementModels(e.JudgementsOf(spec.JudgeEquivalence, r.K)),
		Reasoning:   judgementModels(e.JudgementsOf(spec.JudgeReasoning, r.K)),
		Sum: view.SolverSum(k, view.SolverSignals{
			FormatOK: r.FormatOK, Correct: r.Correct, Reason: r.Reason, Reward: r.Reward, Advantage: r.Advantage, Retained: r.Retained,
		}),
	}
	if o := r.Oracle; o != nil && o.Parsed && r.Final && r.FormatOK {
		switch {
		case r.Correct == 1 && !o.Right:
			m.Oracle.Conflict = "paid as correct, yet wrong"
		case r.Correct == 0 && o.Right:
			m.Oracle.Conflict = "right, yet not paid"
		}
	}
	return m
}

func utterance(c spec.Completion) view.Utterance {
	return view.Utterance{Text: c.Text, Tokens: c.Tokens, Truncated: c.Truncated, FormatOK: c.FormatOK, Fault: c.FormatError}
}

func oracleModel(o *spec.OracleVerdict, question bool) *view.Oracle {
	if o == nil {
		return nil
	}
	m := &view.Oracle{Parsed: o.Parsed, Right: yesNo(o.Right), Answer: o.Answer}
	if question {
		m.Grounded = yesNo(o.Grounded)
	}
	if o.Level > 0 {
		m.Level = strconv.Itoa(o.Level)
	}
	return m
}

func judgementModels(all []experiment.Judgement) []view.Judgement {
	var models []view.Judgement
	for _, j := range all {
		m := view.Judgement{
			Name: string(j.Judge), Attempt: j.Attempt, Parsed: j.FormatOK, Justification: j.Justification, Utterance: utterance(j.Completion),
			Prompt: j.PromptHash, Seconds: fmt.Sprintf("%.2f s", j.Latency), Verdict: verdictFacts(j.Judgement),
		}
		if j.Verifier.Update == "ema" {
			m.Version = fmt.Sprintf("after %d averages", j.Verifier.EMAStep)
		} else {
			m.Version = j.Verifier.Update
		}
		models = append(models, m)
	}
	return models
}

// verdictFacts names the parsed fields of a verdict.
func verdictFacts(j spec.Judgement) []view.Fact {
	var facts []view.Fact
	add := func(label, field string, word func(spec.Float) string) {
		if v, ok := j.Fields[field]; ok {
			facts = append(facts, view.Fact{Label: label, Value: word(v)})
		}
	}
	truth := func(v spec.Float) string { return yesNo(v == 1) }
	plain := func(v spec.Float) string { return view.Exact(float64(v)) }
	switch j.Judge {
	case spec.JudgeScreening:
		add("grounded", "fact_q", truth)
		add("answer right", "corr_a", truth)
		add("difficulty", "difficulty", plain)
	case spec.JudgeReasoning:
		add("reasoning", "reasoning_score", plain)
		if o := j.Oracle; o != nil && o.Parsed {
			facts = append(facts, view.Fact{Label: "truly", Value: view.Exact(o.Reason)})
		}
	case spec.JudgeEquivalence:
		add("same answer", "match", truth)
	case spec.JudgeDispute:
		add("sides with the Solvers", "majority", truth)
	}
	return facts
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
