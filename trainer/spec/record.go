package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Kind names a journal record.
type Kind string

// The kinds of journal records. A candidate or rollout is written twice: when the role has spoken, and again with
// Final set once its rewards are known; the later record replaces the earlier one.
const (
	KindRun        Kind = "run"
	KindPhase      Kind = "phase"
	KindCandidate  Kind = "candidate"
	KindJudgement  Kind = "judgement"
	KindRollout    Kind = "rollout"
	KindDispute    Kind = "dispute"
	KindStep       Kind = "step"
	KindCheckpoint Kind = "checkpoint"
	KindRewind     Kind = "rewind"
	KindEnd        Kind = "end"
	KindLog        Kind = "log"
)

// Record is one journal entry. Seq counts from 1 without gaps. Steps count from 0. Data is a pointer to the kind's struct.
// Records of a step are committed by its KindStep record; what follows the last one is provisional.
type Record struct {
	Seq  uint64    `json:"seq"`
	Kind Kind      `json:"kind"`
	Step int       `json:"step"`
	Time time.Time `json:"time"` // wall clock; not part of the digest
	Data any       `json:"data"`
}

// Sink receives records in order. An error means that the record may not be durable and the run must stop.
type Sink interface {
	Append(kind Kind, step int, data any) error
}

// NewData returns a pointer to an empty struct for kind, or an error for an unknown kind.
func NewData(kind Kind) (any, error) {
	switch kind {
	case KindRun:
		return new(Run), nil
	case KindPhase:
		return new(Phase), nil
	case KindCandidate:
		return new(Candidate), nil
	case KindJudgement:
		return new(Judgement), nil
	case KindRollout:
		return new(Rollout), nil
	case KindDispute:
		return new(Dispute), nil
	case KindStep:
		return new(Step), nil
	case KindCheckpoint:
		return new(Checkpoint), nil
	case KindRewind:
		return new(Rewind), nil
	case KindEnd:
		return new(End), nil
	case KindLog:
		return new(Log), nil
	}
	return nil, fmt.Errorf("journal record kind %q is unknown; a newer trinity may have written it", kind)
}

// UnmarshalJSON decodes Data into the struct of the record's kind.
func (r *Record) UnmarshalJSON(b []byte) error {
	type plain Record
	var raw struct {
		*plain
		Data json.RawMessage `json:"data"`
	}
	raw.plain = (*plain)(r)
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	data, err := NewData(r.Kind)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw.Data, data); err != nil {
		return fmt.Errorf("record %d (%s): %w", r.Seq, r.Kind, err)
	}
	r.Data = data
	return nil
}

// Run opens a journal.
type Run struct {
	ID      string `json:"id"` // random, 16 hexadecimal digits; names the run everywhere. Not part of the digest
	Config  Config `json:"config"`
	Model   string `json:"model"`   // architecture and size, such as "Qwen3-VL 1.2M"
	Corpus  string `json:"corpus"`  // what was found, such as "400 wind-tunnel figures"
	Skipped int    `json:"skipped"` // corpus files that could not be read
	Version string `json:"version"` // of trinity
}

// Phase reports progress inside a step; not part of the digest.
type Phase struct {
	Name  string `json:"name"` // questioner, screening, solver, equivalence, dispute, reasoning, update, ema, checkpoint
	Done  int    `json:"done"`
	Total int    `json:"total"`
}

// EpisodeKey places a record: the image's slot within the step, and its content hash.
type EpisodeKey struct {
	Slot  int    `json:"slot"`  // 0..images_per_step-1
	Image string `json:"image"` // SHA-256, hexadecimal
}

// Completion is what a role said, kept whole, also when truncated or malformed.
type Completion struct {
	Text        string `json:"text"`
	Tokens      int    `json:"tokens"`
	Truncated   bool   `json:"truncated"` // stopped by max_tokens
	FormatOK    bool   `json:"format_ok"`
	FormatError string `json:"format_error,omitempty"` // why it is not FormatOK
}

// Candidate is one Questioner proposal with the Verifier's signals and its reward (Eq. 1).
type Candidate struct {
	EpisodeKey
	G int `json:"g"`
	Completion
	Question string `json:"question"`
	Answer   string `json:"answer"` // as proposed; a dispute never rewrites it here

	Screened   bool    `json:"screened"`   // a parsable screening verdict was obtained
	FactQ      float64 `json:"fact_q"`     // 0 or 1
	CorrA      float64 `json:"corr_a"`     // 0 or 1, after clamping and after an override
	Difficulty float64 `json:"difficulty"` // raw R_diff: 0.1, 0.4, 0.7 or 1.0
	Selected   bool    `json:"selected"`

	Final      bool    `json:"final"`
	RFact      float64 `json:"r_fact"`       // 0, 0.5 or 1
	RDiffTilde float64 `json:"r_diff_tilde"` // difficulty discounted by challenge
	RChal      float64 `json:"r_chal"`       // 0 where not selected
	Reward     float64 `json:"reward"`
	Advantage  float64 `json:"advantage"`
	Retained   bool    `json:"retained"` // the step's update learns from it

	Oracle *OracleVerdict `json:"oracle,omitempty"`
}

// Rollout is one Solver completion with its evaluation and reward (Eq. 2).
type Rollout struct {
	EpisodeKey
	K int `json:"k"`
	Completion
	Think  string `json:"think"`
	Answer string `json:"answer"`

	Correct   float64 `json:"correct"`   // 0 or 1, against the reference after any dispute
	Tier      string  `json:"tier"`      // what decided: rule, guard, verifier, or none
	Reason    float64 `json:"reason"`    // 0, 0.25, 0.5 or 1
	Evaluable bool    `json:"evaluable"` // counts in R_chal's denominator (A.3)

	Final     bool    `json:"final"`
	Reward    float64 `json:"reward"`
	Advantage float64 `json:"advantage"`
	Retained  bool    `json:"retained"` // the step's update learns from it

	Oracle *OracleVerdict `json:"oracle,omitempty"`
}

// Judge names a Verifier prompt.
type Judge string

// The Verifier's four prompts (Appendix F.3 to F.6).
const (
	JudgeScreening   Judge = "screening"
	JudgeReasoning   Judge = "reasoning"
	JudgeEquivalence Judge = "equivalence"
	JudgeDispute     Judge = "dispute"
)

// Judgement is one Verifier call, kept whole.
type Judgement struct {
	EpisodeKey
	Judge      Judge           `json:"judge"`
	Target     int             `json:"target"`  // g for screening, k for reasoning and equivalence, the supporting k for dispute
	Attempt    int             `json:"attempt"` // 0 is the first try
	PromptHash string          `json:"prompt_hash"`
	Verifier   VerifierVersion `json:"verifier"`
	Completion
	Fields        map[string]Float `json:"fields,omitempty"` // parsed: fact_q, corr_a, difficulty; reasoning_score; match; majority (1 sides with the Solvers)
	Justification string           `json:"justification"`
	Latency       float64          `json:"latency_seconds"` // wall clock; not part of the digest
	Oracle        *OracleVerdict   `json:"oracle,omitempty"`
}

// VerifierVersion says which weights judged.
type VerifierVersion struct {
	Update  string  `json:"update"`          // ema, fixed or endpoint
	Model   string  `json:"model,omitempty"` // of an endpoint
	EMAStep int     `json:"ema_step"`        // averages taken so far
	Decay   float64 `json:"decay"`
}

// Dispute is a strong consensus against the reference, and how it ended.
type Dispute struct {
	EpisodeKey
	Reference     string `json:"reference"`
	Majority      string `json:"majority"`
	Count         int    `json:"count"`     // members of the majority
	Formatted     int    `json:"formatted"` // formatted answers
	Support       int    `json:"support"`   // k of the rollout whose reasoning was shown
	Attempts      int    `json:"attempts"`  // Verifier calls made
	Outcome       string `json:"outcome"`   // reference, majority, or fallback (no parsable verdict: majority adopted)
	Overturned    bool   `json:"overturned"`
	Justification string `json:"justification"`
}

// OracleVerdict is the wind tunnel's exact truth. It measures; it never rewards.
type OracleVerdict struct {
	Parsed   bool    `json:"parsed"`           // the question is in the grammar
	Grounded bool    `json:"grounded"`         // its premises hold in the figure
	Right    bool    `json:"right"`            // the answer given equals the truth
	Level    int     `json:"level"`            // 1..4, 0 where not parsed
	Answer   string  `json:"answer,omitempty"` // the true answer
	Reason   float64 `json:"reason,omitempty"` // the true reasoning score, for reasoning judgements
}

// Step commits a step.
type Step struct {
	Metrics map[string]Float `json:"metrics"` // by the names of this package
	Tokens  map[string]int   `json:"tokens"`  // generated, by phase
}

// Checkpoint says that weights up to and including Step are saved.
type Checkpoint struct {
	Path string `json:"path"` // relative to the run directory
	Next int    `json:"next"` // first step to run after restoring
}

// Rewind supersedes every record of steps >= ToStep written before it.
type Rewind struct {
	ToStep int `json:"to_step"`
}

// End closes a journal.
type End struct {
	Status string `json:"status"` // completed, stopped or failed
	Reason string `json:"reason"`
}

// Log is a line for people; not part of the digest.
type Log struct {
	Level   string `json:"level"` // debug, info, warn or error
	Message string `json:"message"`
}

// Float is a float64 whose JSON keeps NaN and the infinities as strings.
type Float float64

// MarshalJSON writes finite numbers as numbers, others as "NaN", "Infinity" or "-Infinity".
func (f Float) MarshalJSON() ([]byte, error) {
	switch x := float64(f); {
	case math.IsNaN(x):
		return []byte(`"NaN"`), nil
	case math.IsInf(x, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(x, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(x)
	}
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Float) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"NaN"`:
		*f = Float(math.NaN())
	case `"Infinity"`:
		*f = Float(math.Inf(1))
	case `"-Infinity"`:
		*f = Float(math.Inf(-1))
	default:
		var x float64
		if err := json.Unmarshal(b, &x); err != nil {
			return fmt.Errorf("number %s: use a number, \"NaN\", \"Infinity\" or \"-Infinity\"", b)
		}
		*f = Float(x)
	}
	return nil
}
