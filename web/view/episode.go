package view

// Episodes is the list of a run's episodes.
type Episodes struct {
	Shell
	RunID, RunName string
	RunURL         string
	Filter         EpisodeFilter
	Outcomes       []Outcome // to filter by
	Rows           []EpisodeRow
	Next           string // URL of older episodes, empty at the end
	First          string // URL of the newest, empty on the first page
}

// EpisodeFilter is what the list is narrowed to, as typed.
type EpisodeFilter struct {
	Outcome string
	Step    string
	Text    string
	Fault   string // why Step is not understood
}

// Active reports whether anything is filtered.
func (f EpisodeFilter) Active() bool { return f.Outcome != "" || f.Step != "" || f.Text != "" }

// Outcome is how an episode ended.
type Outcome struct{ Name, Meaning string }

// EpisodeRow is an episode in the list.
type EpisodeRow struct {
	URL        string
	Image      string // URL
	Step, Slot int
	Outcome    Outcome
	Question   string
	Reference  string
	Difficulty string
	Correct    int
	Rollouts   int
	Candidates int
}

// Episode is the case study of one image in one step.
type Episode struct {
	Shell
	ID             int64
	RunName        string
	RunURL         string
	ListURL        string
	Step, Slot     int
	Image          string // URL
	ImageHash      string
	Outcome        Outcome
	Superseded     bool
	Question       string
	Reference      string
	Final          string // the reference after a dispute, where it differs
	Difficulty     string
	Candidates     []Candidate
	Rollouts       []Rollout
	Dispute        *Dispute
	Previous, Next string // URLs
}

// Utterance is what a model wrote, and how its form was read.
type Utterance struct {
	Text      string
	Tokens    int
	Truncated bool
	FormatOK  bool
	Fault     string
}

// Candidate is a Questioner's proposal.
type Candidate struct {
	G         int
	Question  string
	Answer    string
	Selected  bool
	Screened  bool
	Fact      string // "yes" or "no", empty where not screened
	Right     string
	Level     string
	Utterance Utterance
	Screening []Judgement
	Final     bool
	Sum       Sum
	Oracle    *Oracle
}

// Rollout is a Solver's completion.
type Rollout struct {
	K           int
	Think       string
	Answer      string
	Correct     bool
	Tier        string // what decided
	Reason      string
	Evaluable   bool
	Utterance   Utterance
	Equivalence []Judgement
	Reasoning   []Judgement
	Final       bool
	Sum         Sum
	Oracle      *Oracle
}

// Judgement is a Verifier call.
type Judgement struct {
	Name          string
	Attempt       int
	Verdict       []Fact
	Parsed        bool
	Justification string
	Utterance     Utterance
	Version       string
	Prompt        string // hash
	Seconds       string
	Oracle        *Oracle
}

// Dispute is a consensus against the reference, and how it ended.
type Dispute struct {
	Reference, Majority string
	Count, Formatted    int
	Support             int
	Attempts            int
	Outcome             string
	Overturned          bool
	Justification       string
	Judgements          []Judgement
}

// Sum is a reward worked out line by line.
type Sum struct {
	Equation  string // "Eq. 1" or "Eq. 2"
	Lines     []SumLine
	Reward    string
	Advantage string
	Retained  bool
	Mismatch  string // the worked value where it is not the stored one
}

// SumLine is one line of a Sum: a name, the formula with the numbers in, and the value.
type SumLine struct {
	Symbol Symbol
	Text   string
	Value  string
}

// Oracle is the wind tunnel's truth beside a judgement.
type Oracle struct {
	Parsed   bool
	Grounded string
	Right    string
	Answer   string
	Level    string
	Conflict string // how what was judged contradicts the truth, empty where it does not
}
