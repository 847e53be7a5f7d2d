package experiment

import (
	"time"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Outcome says how an episode ended, for lists and filters.
type Outcome string

// The outcomes, most telling first: a dispute's outcome hides how the rollouts did.
const (
	OutcomeOpen       Outcome = "open"       // its step is not committed yet
	OutcomeRejected   Outcome = "rejected"   // no candidate was selected
	OutcomeOverturned Outcome = "overturned" // a dispute replaced the reference
	OutcomeFallback   Outcome = "fallback"   // a dispute had no parsable verdict and adopted the majority
	OutcomeUpheld     Outcome = "upheld"     // a dispute kept the reference
	OutcomeSolved     Outcome = "solved"     // every evaluable rollout was correct
	OutcomeMixed      Outcome = "mixed"      // some were
	OutcomeUnsolved   Outcome = "unsolved"   // none was
)

// Outcomes lists all outcomes.
var Outcomes = [...]Outcome{OutcomeOpen, OutcomeRejected, OutcomeOverturned, OutcomeFallback, OutcomeUpheld, OutcomeSolved, OutcomeMixed, OutcomeUnsolved}

// EpisodeSummary is what a list shows of an episode: one image in one step.
type EpisodeSummary struct {
	ID         int64     `json:"id"`
	Run        string    `json:"run"`
	Step       int       `json:"step"`
	Slot       int       `json:"slot"`
	Image      string    `json:"image"` // SHA-256, see GET /api/v1/images/{sha256}
	Outcome    Outcome   `json:"outcome"`
	Question   string    `json:"question"`  // of the selected candidate, empty where none was
	Reference  string    `json:"reference"` // its answer as proposed
	Difficulty float64   `json:"difficulty"`
	Candidates int       `json:"candidates"`
	Rollouts   int       `json:"rollouts"`
	Correct    int       `json:"correct"` // rollouts judged correct
	Superseded bool      `json:"superseded,omitempty"`
	Time       time.Time `json:"time"` // of its first record
}

// Episode is everything said and judged about one image in one step. Candidates are ordered by g, rollouts by k,
// judgements as they were made.
type Episode struct {
	EpisodeSummary
	CandidateList []spec.Candidate `json:"candidate_list"`
	RolloutList   []spec.Rollout   `json:"rollout_list"`
	Judgements    []Judgement      `json:"judgements"`
	Dispute       *spec.Dispute    `json:"dispute,omitempty"`
	Previous      int64            `json:"previous,omitempty"` // id of the episode before in the run, 0 at the first
	Next          int64            `json:"next,omitempty"`
}

// Judgement is one stored Verifier call.
type Judgement struct {
	ID      int64     `json:"id"`
	Run     string    `json:"run"`
	Episode int64     `json:"episode"`
	Step    int       `json:"step"`
	Time    time.Time `json:"time"`
	spec.Judgement
}

// JudgementsOf returns the judgements of one judge about one target, in the order made.
func (e *Episode) JudgementsOf(judge spec.Judge, target int) []Judgement {
	var found []Judgement
	for _, j := range e.Judgements {
		if j.Judge == judge && j.Target == target {
			found = append(found, j)
		}
	}
	return found
}

// Selected returns the selected candidate, or nil.
func (e *Episode) Selected() *spec.Candidate {
	for i := range e.CandidateList {
		if e.CandidateList[i].Selected {
			return &e.CandidateList[i]
		}
	}
	return nil
}

// EpisodeQuery filters and pages a run's episodes, newest first. Superseded episodes are left out.
type EpisodeQuery struct {
	Outcome Outcome // empty means all
	Text    string  // words that the question or any transcript contains
	Step    *int    // one step only
	Cursor  string
	Limit   int // 1..200; 0 means 50
}

// EpisodePage is a page of episodes.
type EpisodePage struct {
	Episodes []EpisodeSummary `json:"episodes"`
	Next     string           `json:"next,omitempty"`
}

// JudgementQuery filters and pages a run's judgements, newest first.
type JudgementQuery struct {
	Judge   spec.Judge // empty means all
	Step    *int
	Parsed  *bool // a verdict could be parsed
	Episode int64 // 0 means all
	Cursor  string
	Limit   int // 1..500; 0 means 100
}

// JudgementPage is a page of judgements.
type JudgementPage struct {
	Judgements []Judgement `json:"judgements"`
	Next       string      `json:"next,omitempty"`
}

// Image describes a kept image file.
type Image struct {
	SHA256    string `json:"sha256"`
	MediaType string `json:"media_type"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Bytes     int64  `json:"bytes"`
}
