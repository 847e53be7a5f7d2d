package parse

import (
	"math"
	"strconv"
	"strings"
)

// The four judges share one rule: the verdict is the JSON object that has every key of the judge, justification aside.
// Prose, fences and a thinking block around it are skipped, never read. Several such objects must agree.

// ScreeningVerdict is the Verifier's judgement of a proposal (F.3), as written: a self-contradiction is not clamped here.
type ScreeningVerdict struct {
	Justification string
	FactQ         float64 // 0 or 1
	CorrA         float64 // 0 or 1
	Difficulty    float64 // 0.1, 0.4, 0.7 or 1
}

// Screening reads {justification, fact_q, corr_a, difficulty}. A value off the rubric's levels is an error.
func Screening(text string) (ScreeningVerdict, error) {
	o, err := verdict(text, "fact_q", "corr_a", "difficulty")
	if err != nil {
		return ScreeningVerdict{}, err
	}
	v := ScreeningVerdict{Justification: o["justification"].text}
	if v.FactQ, err = o.level("fact_q", 0, 1); err != nil {
		return ScreeningVerdict{}, err
	}
	if v.CorrA, err = o.level("corr_a", 0, 1); err != nil {
		return ScreeningVerdict{}, err
	}
	if v.Difficulty, err = o.level("difficulty", .1, .4, .7, 1); err != nil {
		return ScreeningVerdict{}, err
	}
	return v, nil
}

// ReasoningVerdict is the Verifier's judgement of a Solver's reasoning (F.4).
type ReasoningVerdict struct {
	Justification string
	Score         float64 // 0, 0.25, 0.5 or 1
}

// Reasoning reads {justification, reasoning_score}.
func Reasoning(text string) (ReasoningVerdict, error) {
	o, err := verdict(text, "reasoning_score")
	if err != nil {
		return ReasoningVerdict{}, err
	}
	score, err := o.level("reasoning_score", 0, .25, .5, 1)
	if err != nil {
		return ReasoningVerdict{}, err
	}
	return ReasoningVerdict{Justification: o["justification"].text, Score: score}, nil
}

// EquivalenceVerdict says whether two answers mean the same (F.5).
type EquivalenceVerdict struct {
	Match         bool
	Justification string // not asked for, kept where given
}

// Equivalence reads {match}.
func Equivalence(text string) (EquivalenceVerdict, error) {
	o, err := verdict(text, "match")
	if err != nil {
		return EquivalenceVerdict{}, err
	}
	match, err := o.level("match", 0, 1)
	if err != nil {
		return EquivalenceVerdict{}, err
	}
	return EquivalenceVerdict{Match: match == 1, Justification: o["justification"].text}, nil
}

// DisputeVerdict says which side of a dispute the Verifier took (F.6).
type DisputeVerdict struct {
	Majority      bool // the Solvers' answer, not the reference
	Justification string
}

// Dispute reads {correct_answer: "ref" or "majority", justification}.
func Dispute(text string) (DisputeVerdict, error) {
	o, err := verdict(text, "correct_answer")
	if err != nil {
		return DisputeVerdict{}, err
	}
	v := DisputeVerdict{Justification: o["justification"].text}
	switch side := o["correct_answer"]; strings.ToLower(strings.TrimSpace(side.text)) {
	case "ref":
		return v, nil
	case "majority":
		v.Majority = true
		return v, nil
	default:
		return DisputeVerdict{}, malformed(`correct_answer is %.40q, neither "ref" nor "majority"`, side.text)
	}
}

// maxBraces bounds the places at which an object is looked for, so that hostile text costs linear time.
const maxBraces = 256

// verdict finds the object that has all keys.
func verdict(text string, keys ...string) (object, error) {
	if i := strings.LastIndex(text, thinkClose); i >= 0 {
		text = text[i+len(thinkClose):]
	} else if strings.Contains(text, thinkOpen) {
		return nil, malformed("%s is never closed", thinkOpen)
	}
	var found object
	for range maxBraces {
		start := strings.IndexByte(text, '{')
		if start < 0 {
			break
		}
		o, end, err := readObject(text[start:])
		if err != nil && len(o) > 0 {
			// Looking on inside a broken object would read a verdict out of its strings.
			return nil, err
		}
		if err != nil {
			text = text[start+1:]
			continue
		}
		text = text[start+end:]
		if !o.complete(keys) {
			continue
		}
		if found != nil && !found.agrees(o, keys) {
			return nil, malformed("two verdicts contradict each other")
		}
		found = o
	}
	if found == nil {
		return nil, malformed("no JSON object with %s", strings.Join(keys, ", "))
	}
	return found, nil
}

// extends reports whether a cut-off number may have been the start of another level: 0 of 0.25.
func extends(text string, levels []float64) bool {
	for _, l := range levels {
		full := strconv.FormatFloat(l, 'f', -1, 64)
		if len(full) > len(text) && strings.HasPrefix(full, text) {
			return true
		}
	}
	return false
}

// level returns the value of key if it is one of levels, written as a number, a quoted number, or (for 0 and 1) a boolean.
func (o object) level(key string, levels ...float64) (float64, error) {
	v := o[key]
	text := strings.TrimSpace(v.text)
	if v.kind == kindWord && len(levels) == 2 {
		switch strings.ToLower(text) {
		case "true":
			return 1, nil
		case "false":
			return 0, nil
		}
	}
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && (v.kind == kindNumber || v.kind == kindString) {
		for _, l := range levels {
			if math.Abs(x-l) < 1e-9 && !(v.cut && extends(text, levels)) {
				return l, nil
			}
		}
	}
	return 0, malformed("%s is %.40q, not one of %v", key, text, levels)
}
