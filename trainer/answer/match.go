// Package answer compares short answers by rule: the first two tiers of Trinity's correctness pipeline (section 2, A.3).
// What neither tier can decide is for the Verifier. The package is pure, and safe on hostile text.
package answer

import (
	"math"
	"math/big"
)

// Verdict is what the rules say of a pair of answers.
type Verdict string

// The verdicts. Undecided pairs go to the Verifier's equivalence check.
const (
	VerdictMatch     Verdict = "match"
	VerdictMismatch  Verdict = "mismatch"
	VerdictUndecided Verdict = "undecided"
)

// Tier is what decided.
type Tier string

// The tiers: rules match or say nothing; the guard rejects or says nothing.
const (
	TierRule  Tier = "rule"
	TierGuard Tier = "guard"
	TierNone  Tier = "none"
)

const (
	// GuardTolerance is the largest difference, relative to the reference, that the guard lets pass to the Verifier.
	GuardTolerance = 0.01
	// GuardFloor is the same in absolute terms, for references near 0.
	GuardFloor = 1e-6
	// equalWithin is the relative difference at which irrational numbers count as equal.
	equalWithin = 1e-9
)

// Result is the outcome of a comparison.
type Result struct {
	Verdict        Verdict
	Tier           Tier
	NormalizedRef  string
	NormalizedPred string
}

// Normalise writes an answer in plain, canonical form: LaTeX unwrapped, numbers as decimals or reduced fractions with
// their unit or % sign, other text in lower case without articles.
func Normalise(s string) string { return read(s).text }

// Key is Normalise without units and variables: answers with equal keys are one vote.
func Key(s string) string { return read(s).key }

// Match decides whether pred gives the same answer as ref. It matches equal normalised text and equal numbers; a unit
// missing on one side does not matter, and a % sign on one side makes 50% equal to 0.5 and to 50. Two clean numbers
// further apart than 1% of the reference are a mismatch. All else is undecided, also unequal numbers within 1%.
func Match(ref, pred string) Result {
	r, p := read(ref), read(pred)
	result := Result{Verdict: VerdictUndecided, Tier: TierNone, NormalizedRef: r.text, NormalizedPred: p.text}
	switch {
	case r.quantity != nil && p.quantity != nil:
		result.Verdict = compareQuantities(*r.quantity, *p.quantity)
	case r.text == p.text && r.text != "":
		result.Verdict = VerdictMatch
	}
	switch result.Verdict {
	case VerdictMatch:
		result.Tier = TierRule
	case VerdictMismatch:
		result.Tier = TierGuard
	}
	return result
}

func compareQuantities(r, p quantity) Verdict {
	if r.percent != p.percent && r.unit.symbol == "" && p.unit.symbol == "" {
		return comparePercent(r, p)
	}
	if r.percent != p.percent {
		return VerdictUndecided // 50% and 50 cm
	}
	if r.unit.symbol != "" && p.unit.symbol != "" && r.unit.symbol != p.unit.symbol {
		if r.unit.dim != p.unit.dim || r.unit.dim[money] != 0 {
			return VerdictUndecided // 6 cm and 6 s, or 6 dollars and 6 euros: not the rules' business
		}
		return compareReals(real{f: r.f}, real{f: p.f * p.unit.factor / r.unit.factor})
	}
	v := compareReals(r.real, p.real)
	switch {
	case v == VerdictMatch && r.variable != "" && p.variable != "" && r.variable != p.variable:
		return VerdictUndecided
	case v == VerdictMatch && r.clock && p.clock && r.written != p.written:
		return VerdictUndecided
	case v == VerdictMismatch && r.scaled != p.scaled && compareReals(r.mantissa, p.mantissa) != VerdictMismatch:
		return VerdictUndecided // 5.2 million and 5.2, perhaps read off an axis in millions
	case v == VerdictMismatch && (r.unit.dim[angle] != 0 && p.pi || p.unit.dim[angle] != 0 && r.pi):
		return VerdictUndecided // 180 degrees and pi
	}
	return v
}

// comparePercent compares a number with a % sign with one without: 50% is 0.5, or 50 with its sign left out. Such pairs
// are exempt from the guard as long as either reading is close.
func comparePercent(r, p quantity) Verdict {
	hundred := real{rat: big.NewRat(100, 1), f: 100}
	share := func(q quantity) real {
		if x, ok := q.combine('/', hundred); ok && q.percent {
			return x
		}
		return q.real
	}
	as, bare := compareReals(share(r), share(p)), compareReals(r.real, p.real)
	switch {
	case as == VerdictMatch || bare == VerdictMatch:
		return VerdictMatch
	case as == VerdictUndecided || bare == VerdictUndecided:
		return VerdictUndecided
	}
	return VerdictMismatch
}

// compareReals applies equality and then the guard, whose tolerance is relative to the reference.
func compareReals(r, p real) Verdict {
	if r.rat != nil && p.rat != nil {
		if r.rat.Cmp(p.rat) == 0 {
			return VerdictMatch
		}
		limit := new(big.Rat).Mul(new(big.Rat).Abs(r.rat), big.NewRat(1, 100))
		if floor := big.NewRat(1, 1e6); limit.Cmp(floor) < 0 {
			limit = floor
		}
		if gap := new(big.Rat).Sub(r.rat, p.rat); gap.Abs(gap).Cmp(limit) > 0 {
			return VerdictMismatch
		}
		return VerdictUndecided
	}
	gap := math.Abs(r.f - p.f)
	switch {
	case gap <= equalWithin*max(math.Abs(r.f), math.Abs(p.f)):
		return VerdictMatch
	case gap > max(GuardTolerance*math.Abs(r.f), GuardFloor):
		return VerdictMismatch
	}
	return VerdictUndecided
}
