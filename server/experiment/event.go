package experiment

import (
	"encoding/json"
	"time"
)

// EventKind names an entry of a run's feed.
type EventKind string

// The kinds of events. Candidate, judgement, rollout, dispute, step, checkpoint and rewind carry the journal record's data.
const (
	EventStep       EventKind = "step"
	EventCandidate  EventKind = "candidate"
	EventJudgement  EventKind = "judgement"
	EventRollout    EventKind = "rollout"
	EventDispute    EventKind = "dispute"
	EventPhase      EventKind = "phase"
	EventStatus     EventKind = "status"
	EventLog        EventKind = "log"
	EventCheckpoint EventKind = "checkpoint"
	EventRewind     EventKind = "rewind"
)

// Event is one entry of a run's feed. Seq counts from 1 without gaps within a run.
type Event struct {
	Seq  int64           `json:"seq"`
	Run  string          `json:"run"`
	Kind EventKind       `json:"kind"`
	Step int             `json:"step"`
	Time time.Time       `json:"time"`
	Data json.RawMessage `json:"data"`
}

// StatusData is the data of a status event.
type StatusData struct {
	Status  Status     `json:"status"`
	Error   string     `json:"error,omitempty"`
	Done    int        `json:"done"`
	Steps   int        `json:"steps"`
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
}

// LogLine is the data of a log event.
type LogLine struct {
	Level   string `json:"level"` // debug, info, warn or error
	Message string `json:"message"`
	Source  string `json:"source,omitempty"` // "stderr" for what the process printed, empty for the journal's log records
}
