package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-lab/trinity/trainer/policy"
	"github.com/trinity-lab/trinity/trainer/reward"
	"github.com/trinity-lab/trinity/trainer/spec"
)

type scoreCmd struct{}

func (scoreCmd) Help() string {
	return `Reads episodes from standard input, one JSON object a line, and writes their rewards (Eq. 1 and 2) and advantages (A.3):
{"candidates":[{"format_ok":true,"fact_q":1,"corr_a":1,"difficulty":0.7,"selected":true}],
 "rollouts":[{"format_ok":true,"correct":1,"reason":0.5,"evaluable":true}],"coefficients":{"alpha_q":0.3}}`
}

// Run scores every episode on standard input.
func (scoreCmd) Run(c *Context) error {
	return mapLines(c, func(line []byte) (any, error) {
		var e scoreEpisode
		if err := unmarshalObject(line, &e); err != nil {
			return nil, err
		}
		return e.score()
	})
}

// scoreEpisode is a line of input. Signals that the rewards do not depend on may be left out.
type scoreEpisode struct {
	Candidates []struct {
		FormatOK   *bool    `json:"format_ok"`
		FactQ      *float64 `json:"fact_q"`
		CorrA      *float64 `json:"corr_a"`
		Difficulty *float64 `json:"difficulty"`
		Selected   bool     `json:"selected"`
	} `json:"candidates"`
	Rollouts []struct {
		FormatOK  *bool    `json:"format_ok"`
		Correct   *float64 `json:"correct"`
		Reason    *float64 `json:"reason"`
		Evaluable *bool    `json:"evaluable"` // default: format_ok
	} `json:"rollouts"`
	Coefficients json.RawMessage `json:"coefficients"`
}

type scoredCandidate struct {
	RFact      spec.Float `json:"r_fact"`
	RDiffTilde spec.Float `json:"r_diff_tilde"`
	Reward     spec.Float `json:"reward"`
	Advantage  spec.Float `json:"advantage"`
	Retained   bool       `json:"retained"`
}

type scoredRollout struct {
	Reward    spec.Float `json:"reward"`
	Advantage spec.Float `json:"advantage"`
	Retained  bool       `json:"retained"`
}

type scoredEpisode struct {
	RChal      spec.Float        `json:"r_chal"`
	Candidates []scoredCandidate `json:"candidates"`
	Rollouts   []scoredRollout   `json:"rollouts"`
}

func (e scoreEpisode) score() (scoredEpisode, error) {
	var out scoredEpisode
	if e.Candidates == nil && e.Rollouts == nil {
		return out, errors.New(`"candidates" is missing; give the episode's candidates and rollouts`)
	}
	coefficients, err := readCoefficients(e.Coefficients)
	if err != nil {
		return out, err
	}
	candidates, err := e.candidates()
	if err != nil {
		return out, err
	}
	rollouts, err := e.rollouts()
	if err != nil {
		return out, err
	}

	scored := coefficients.Score(candidates, rollouts)
	out.RChal = spec.Float(scored.RChal)
	out.Candidates = make([]scoredCandidate, len(candidates))
	rewards := make([]float64, len(candidates))
	for g, c := range scored.Candidates {
		rewards[g] = c.Reward
	}
	for g, a := range policy.Advantages(rewards) {
		c := scored.Candidates[g]
		out.Candidates[g] = scoredCandidate{spec.Float(c.RFact), spec.Float(c.RDiffTilde), spec.Float(c.Reward), spec.Float(a), policy.Retained(a)}
	}
	out.Rollouts = make([]scoredRollout, len(rollouts))
	for k, a := range policy.Advantages(scored.Rollouts) {
		out.Rollouts[k] = scoredRollout{spec.Float(scored.Rollouts[k]), spec.Float(a), policy.Retained(a)}
	}
	return out, nil
}

func (e scoreEpisode) candidates() ([]reward.Candidate, error) {
	out := make([]reward.Candidate, len(e.Candidates))
	selected := 0
	for g, c := range e.Candidates {
		at := fmt.Sprintf("candidates[%d].", g)
		if c.FormatOK == nil {
			return nil, fmt.Errorf("%sformat_ok is missing; give true or false", at)
		}
		factQ, err := bit(at+"fact_q", c.FactQ, *c.FormatOK)
		if err != nil {
			return nil, err
		}
		corrA, err := bit(at+"corr_a", c.CorrA, factQ == 1)
		if err != nil {
			return nil, err
		}
		difficulty, err := unitInterval(at+"difficulty", c.Difficulty, factQ == 1)
		if err != nil {
			return nil, err
		}
		if c.Selected {
			selected++
		}
		out[g] = reward.Candidate{FormatOK: *c.FormatOK, FactQ: factQ, CorrA: corrA, Difficulty: difficulty, Selected: c.Selected}
	}
	if selected > 1 {
		return nil, fmt.Errorf("%d candidates are selected; an episode has one selected candidate at most", selected)
	}
	return out, nil
}

func (e scoreEpisode) rollouts() ([]reward.Rollout, error) {
	out := make([]reward.Rollout, len(e.Rollouts))
	for k, r := range e.Rollouts {
		at := fmt.Sprintf("rollouts[%d].", k)
		if r.FormatOK == nil {
			return nil, fmt.Errorf("%sformat_ok is missing; give true or false", at)
		}
		evaluable := *r.FormatOK
		if r.Evaluable != nil {
			evaluable = *r.Evaluable
		}
		correct, err := bit(at+"correct", r.Correct, *r.FormatOK || evaluable)
		if err != nil {
			return nil, err
		}
		reason, err := unitInterval(at+"reason", r.Reason, false)
		if err != nil {
			return nil, err
		}
		out[k] = reward.Rollout{FormatOK: *r.FormatOK, Correct: correct, Reason: reason, Evaluable: evaluable}
	}
	return out, nil
}

// bit reads a signal that is 0 or 1; unless needed it may be missing, and is then 0.
func bit(field string, x *float64, needed bool) (float64, error) {
	v, err := unitInterval(field, x, needed)
	if err == nil && v != 0 && v != 1 {
		return 0, fmt.Errorf("%s is %g; give 0 or 1", field, v)
	}
	return v, err
}

// unitInterval reads a signal from 0 to 1; unless needed it may be missing, and is then 0.
func unitInterval(field string, x *float64, needed bool) (float64, error) {
	switch {
	case x == nil && needed:
		return 0, fmt.Errorf("%s is missing; give a number from 0 to 1", field)
	case x == nil:
		return 0, nil
	case *x < 0 || *x > 1:
		return 0, fmt.Errorf("%s is %g; give a number from 0 to 1", field, *x)
	}
	return *x, nil
}

// readCoefficients reads those of Eq. 1 and 2; any left out have the paper's value.
func readCoefficients(raw json.RawMessage) (reward.Coefficients, error) {
	k := reward.Default()
	if raw == nil {
		return k, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&k); err != nil {
		return k, fmt.Errorf("coefficients: %w; the names are alpha_q, beta_q, rho_f, w_c, w_r, w_f", err)
	}
	for _, c := range []struct {
		name  string
		value float64
	}{{"alpha_q", k.AlphaQ}, {"beta_q", k.BetaQ}, {"rho_f", k.RhoF}, {"w_c", k.WC}, {"w_r", k.WR}, {"w_f", k.WF}} {
		if c.value < 0 || c.value > 10 {
			return k, fmt.Errorf("coefficients.%s is %g; give a number from 0 to 10", c.name, c.value)
		}
	}
	return k, nil
}
