package trinity

import (
	"fmt"

	"github.com/trinity-lab/trinity/trainer/parse"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// verdict is what a Verifier reply says, as written: a self-contradiction is not yet clamped.
type verdict struct {
	fields        map[string]spec.Float
	justification string
}

func (v *verdict) number(field string) float64 { return float64(v.fields[field]) }

// parseVerdict reads a judge's reply.
func parseVerdict(judge spec.Judge, text string) (*verdict, error) {
	switch judge {
	case spec.JudgeScreening:
		v, err := parse.Screening(text)
		return &verdict{map[string]spec.Float{"fact_q": spec.Float(v.FactQ), "corr_a": spec.Float(v.CorrA), "difficulty": spec.Float(v.Difficulty)}, v.Justification}, err
	case spec.JudgeReasoning:
		v, err := parse.Reasoning(text)
		return &verdict{map[string]spec.Float{"reasoning_score": spec.Float(v.Score)}, v.Justification}, err
	case spec.JudgeEquivalence:
		v, err := parse.Equivalence(text)
		return &verdict{map[string]spec.Float{"match": indicator(v.Match)}, v.Justification}, err
	case spec.JudgeDispute:
		v, err := parse.Dispute(text)
		return &verdict{map[string]spec.Float{"majority": indicator(v.Majority)}, v.Justification}, err
	}
	return nil, fmt.Errorf("judge %q is unknown", judge)
}

func indicator(b bool) spec.Float {
	if b {
		return 1
	}
	return 0
}
