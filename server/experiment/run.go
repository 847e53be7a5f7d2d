package experiment

import (
	"time"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Status is where a run stands.
type Status string

// The statuses. Stopped, completed and failed are terminal; a stopped or failed run may be resumed, which queues it again.
const (
	Queued    Status = "queued"
	Starting  Status = "starting"
	Running   Status = "running"
	Paused    Status = "paused"
	Stopping  Status = "stopping"
	Stopped   Status = "stopped"
	Completed Status = "completed"
	Failed    Status = "failed"
)

// Statuses lists all statuses in the order of a run's life.
var Statuses = [...]Status{Queued, Starting, Running, Paused, Stopping, Stopped, Completed, Failed}

// Valid reports whether s is one of Statuses.
func (s Status) Valid() bool {
	for _, known := range Statuses {
		if s == known {
			return true
		}
	}
	return false
}

// Terminal reports whether the run has ended.
func (s Status) Terminal() bool { return s == Stopped || s == Completed || s == Failed }

// Active reports whether a process may be at work for the run.
func (s Status) Active() bool {
	return s == Starting || s == Running || s == Paused || s == Stopping
}

// Run is one training run.
type Run struct {
	ID         string      `json:"id"` // 16 hexadecimal digits, the journal's run id once it has started
	Name       string      `json:"name"`
	Status     Status      `json:"status"`
	Error      string      `json:"error,omitempty"` // why it failed, or was stopped
	Config     spec.Config `json:"config"`
	ConfigHash string      `json:"config_hash"` // SHA-256 of the canonical JSON of Config
	Steps      int         `json:"steps"`       // planned
	Done       int         `json:"done"`        // committed
	Phase      *Phase      `json:"phase,omitempty"`

	Created time.Time  `json:"created"`
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`

	Directory string   `json:"directory"`
	Imported  bool     `json:"imported"` // its process was not started by a server
	Model     string   `json:"model,omitempty"`
	Corpus    string   `json:"corpus,omitempty"`
	Skipped   int      `json:"skipped"` // corpus files that could not be read
	Version   string   `json:"version,omitempty"`
	Parent    string   `json:"parent,omitempty"`
	Tags      []string `json:"tags"`
	Notes     string   `json:"notes,omitempty"`

	Latest    map[string]spec.Float `json:"latest,omitempty"` // metrics of the newest committed step
	LastEvent int64                 `json:"last_event"`       // newest sequence number of the feed
	Position  uint64                `json:"position"`         // journal records ingested
	Launched  bool                  `json:"-"`                // a process was started for it once, so that a new start is a resume
}

// Phase is the newest progress report within a step.
type Phase struct {
	Step int `json:"step"`
	spec.Phase
}

// Attempt is one process started for a run.
type Attempt struct {
	Number  int        `json:"number"` // from 1
	PID     int        `json:"pid"`
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
	Exit    string     `json:"exit,omitempty"` // how the process ended, in words
}

// RunQuery filters and pages the list of runs, newest first.
type RunQuery struct {
	Status Status // empty means all
	Cursor string // Next of the page before
	Limit  int    // 1..200; 0 means 50
}

// RunPage is a page of runs.
type RunPage struct {
	Runs []Run  `json:"runs"`
	Next string `json:"next,omitempty"` // cursor of the next page, empty at the end
}

// Draft asks for a run: a preset with settings changed, or a whole configuration.
type Draft struct {
	Preset string
	Config *spec.Config
	Set    map[string]any // dotted key to value, applied last
	Name   string         // empty keeps the configuration's
	Tags   []string
	Notes  string
}

// Preset is a configuration shipped with trinity.
type Preset struct {
	Name   string      `json:"name"`
	Config spec.Config `json:"config"`
}
