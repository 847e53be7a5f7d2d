package reward

import "math"

// MinimumDisputeRetries is the least number of further Verifier calls before a dispute falls back to the majority (A.3).
const MinimumDisputeRetries = 2

// DisputeRule says when a consensus of Solvers is put to the Verifier (section 2 and A.3).
type DisputeRule struct {
	Threshold float64 // share of the formatted answers that must agree, rounded up: 0.75
	MinimumN  int     // formatted answers needed: 2
}

// DefaultDispute returns the paper's rule.
func DefaultDispute() DisputeRule { return DisputeRule{Threshold: 0.75, MinimumN: 2} }

// Vote is one Solver completion as a dispute sees it.
type Vote struct {
	Formatted bool
	Key       string  // normalised answer: equal keys are one answer
	Correct   float64 // R_correct against the present reference
}

// Consensus is the answer most Solvers gave.
type Consensus struct {
	Key       string
	Members   []int // indices into the votes, ascending
	Formatted int   // formatted answers
	Required  int   // members that a dispute needs
}

// Required is ceil(Threshold * formatted).
func (r DisputeRule) Required(formatted int) int {
	// The slack keeps a product such as 0.7 * 30 from being rounded up past its exact value.
	return int(math.Ceil(r.Threshold*float64(formatted) - 1e-9))
}

// Trigger reports whether the votes dispute the reference, whose normalised form is referenceKey: enough formatted
// answers, one of them held by enough Solvers, unlike the reference, and every one of its holders scored incorrect. A
// minority may well have matched the reference. Without a dispute the consensus found so far is returned for the record.
func (r DisputeRule) Trigger(votes []Vote, referenceKey string) (Consensus, bool) {
	members := map[string][]int{}
	var c Consensus
	var tied bool
	for i, v := range votes {
		if !v.Formatted {
			continue
		}
		c.Formatted++
		members[v.Key] = append(members[v.Key], i)
	}
	for i, v := range votes {
		holders := members[v.Key]
		if !v.Formatted || holders[0] != i {
			continue
		}
		switch {
		case len(holders) > len(c.Members):
			c.Key, c.Members, tied = v.Key, holders, false
		case len(holders) == len(c.Members):
			tied = true
		}
	}
	c.Required = r.Required(c.Formatted)
	if c.Formatted < max(r.MinimumN, 2) || tied || len(c.Members) < c.Required || c.Key == referenceKey {
		return c, false
	}
	for _, i := range c.Members {
		if votes[i].Correct != 0 {
			return c, false
		}
	}
	return c, true
}

// Verdict is what the Verifier said of a dispute.
type Verdict int

// The verdicts. Unparsed is the zero value: no attempt gave a verdict that could be read.
const (
	Unparsed Verdict = iota
	SidesWithReference
	SidesWithMajority
)

// Outcomes of a dispute, as recorded.
const (
	OutcomeReference = "reference"
	OutcomeMajority  = "majority"
	OutcomeFallback  = "fallback"
)

// Resolution is how a dispute ended.
type Resolution struct {
	Outcome    string // OutcomeReference, OutcomeMajority or OutcomeFallback
	Overturned bool   // the reference was replaced by the majority's answer
	Reference  string // the reference from now on
}

// Settle ends a dispute. An Unparsed verdict, to be given only once 1 + MinimumDisputeRetries calls or more have failed,
// adopts the majority (A.3).
func Settle(verdict Verdict, reference, majority string) Resolution {
	switch verdict {
	case SidesWithReference:
		return Resolution{Outcome: OutcomeReference, Reference: reference}
	case SidesWithMajority:
		return Resolution{Outcome: OutcomeMajority, Overturned: true, Reference: majority}
	}
	return Resolution{Outcome: OutcomeFallback, Overturned: true, Reference: majority}
}

// Candidate returns the disputed candidate with the resolution's consequence: an override revokes corr_a, so that R_fact
// is halved, not lost. The caller then reruns the whole correctness pipeline of every rollout against r.Reference, and
// scores the episode again; R_chal and R_Q follow from that.
func (r Resolution) Candidate(c Candidate) Candidate {
	if r.Overturned {
		c.CorrA = 0
	}
	return c
}

// DisputeAttempts is how many Verifier calls a dispute may make, given the configured retries.
func DisputeAttempts(retries int) int { return 1 + max(retries, MinimumDisputeRetries) }
