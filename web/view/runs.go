package view

import (
	"math"
	"strconv"
	"strings"
)

// Runs is the list of runs.
type Runs struct {
	Shell
	Rows   []RunRow
	Filter string   // status shown, empty for all
	States []string // statuses to filter by
	Next   string   // URL of older runs, empty at the end
}

// RunRow is a run in the list.
type RunRow struct {
	ID      string
	Name    string
	URL     string
	Status  Status
	Done    int
	Steps   int
	Rewards []Reward
	Created Time
	Model   string
}

// Reward is a reward's newest value and its course.
type Reward struct {
	Symbol Symbol
	Value  string
	Spark  Spark
}

// Status is a run's state: its name is the domain's, the note says why it ended.
type Status struct {
	Name string
	Note string
}

// Symbol is a quantity's mathematical name, such as R with the subscript "fact".
type Symbol struct{ Letter, Sub string }

// String is the symbol in plain text.
func (s Symbol) String() string {
	if s.Sub == "" {
		return s.Letter
	}
	return s.Letter + "_" + s.Sub
}

// Spark is a tiny curve: polylines, one for each stretch without a gap, in a box of SparkWidth x SparkHeight.
type Spark struct{ Lines []string }

// The box of a Spark, user units.
const (
	SparkWidth  = 72
	SparkHeight = 18
)

// SparkOf fits values in the box. The scale reaches from low to high; values that are not finite leave a gap.
func SparkOf(values []float64, low, high float64) Spark {
	if len(values) < 2 || high <= low {
		return Spark{}
	}
	var s Spark
	var line []string
	flush := func() {
		if len(line) > 1 {
			s.Lines = append(s.Lines, strings.Join(line, " "))
		}
		line = nil
	}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			flush()
			continue
		}
		x := 1 + float64(i)/float64(len(values)-1)*(SparkWidth-2)
		y := SparkHeight - 1 - (min(max(v, low), high)-low)/(high-low)*(SparkHeight-2)
		line = append(line, strconv.FormatFloat(x, 'f', 1, 64)+","+strconv.FormatFloat(y, 'f', 1, 64))
	}
	flush()
	return s
}
