package main

import (
	"encoding/json"
	"errors"

	"github.com/trinity-lab/trinity/trainer/answer"
)

type matchCmd struct {
	Ref  *string `help:"Reference answer." placeholder:"A"`
	Pred *string `help:"Predicted answer." placeholder:"B"`
}

func (matchCmd) Help() string {
	return `Compares answers by rule and numeric guard, as the first two tiers of the correctness pipeline do. Without --ref and
--pred, pairs are read from standard input, one JSON object {"ref":"..","pred":".."} a line.`
}

// Run compares the pair given by flags, or every pair on standard input.
func (m matchCmd) Run(c *Context) error {
	if (m.Ref == nil) != (m.Pred == nil) {
		return usage(errors.New("match: give both --ref and --pred, or neither and JSON lines on standard input"))
	}
	if m.Ref != nil {
		encoder := json.NewEncoder(c.Stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(matchResult(answer.Match(*m.Ref, *m.Pred)))
	}
	return mapLines(c, func(line []byte) (any, error) {
		var pair struct{ Ref, Pred *string }
		if err := unmarshalObject(line, &pair); err != nil {
			return nil, err
		}
		if pair.Ref == nil || pair.Pred == nil {
			return nil, errors.New(`"ref" and "pred" are both needed, as strings`)
		}
		return matchResult(answer.Match(*pair.Ref, *pair.Pred)), nil
	})
}

// matchResult is answer.Result as JSON.
type matchResult struct {
	Verdict        answer.Verdict `json:"verdict"`
	Tier           answer.Tier    `json:"tier"`
	NormalizedRef  string         `json:"normalized_ref"`
	NormalizedPred string         `json:"normalized_pred"`
}
