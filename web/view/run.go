package view

import "github.com/trinity-lab/trinity/web/chart"

// Run is the page of one run.
type Run struct {
	Shell
	ID        string
	Name      string
	Status    Status
	Done      int
	Steps     int
	Phase     Phase
	CanStop   bool
	CanResume bool
	Facts     []Fact
	Panels    []Panel
	Windows   []WindowRow
	Window    int // steps in the first and the last window
	YAML      string
	Log       []LogLine
	Live      Live
	Figure    chart.Figure
}

// Phase is the progress within a step.
type Phase struct {
	Name        string
	Step        int
	Done, Total int
}

// Fact is a labelled value. Time is set where the value is a moment.
type Fact struct {
	Label, Value string
	URL          string
}

// Panel is one small chart of Figure 2.
type Panel struct {
	ID     string
	Symbol Symbol
	Title  string
	Note   string
	Latest string // newest value of the first curve
	Keys   []Key
}

// Key explains a line of a panel.
type Key struct {
	Label  string
	Dash   string // "solid", "dashed" or "dotted"
	Oracle bool
}

// WindowRow is a metric's first-window and last-window mean.
type WindowRow struct {
	Metric  string
	Symbol  Symbol
	Title   string
	Oracle  bool
	First   string
	Last    string
	Change  string
	Skipped int
}

// LogLine is a line of the run's log.
type LogLine struct {
	Level string
	Text  string
	Time  string // HH:MM:SS, UTC
}

// Live is what the page's script starts from: the feed's position, the newest records and the metrics of the window table.
type Live struct {
	Run     string         `json:"run"`
	After   int64          `json:"after"` // sequence number up to which the page is current
	Done    int            `json:"done"`
	Steps   int            `json:"steps"`
	Events  []any          `json:"events"`
	Windows []WindowSeries `json:"windows"`
}

// WindowSeries are a metric's first 50 and last 60 points, or all of them where there are no more: the windows of the table
// and a few that the feed may repeat.
type WindowSeries struct {
	Metric string   `json:"metric"`
	Count  int      `json:"count"`
	Points [][2]any `json:"points"` // [step, value]
}
