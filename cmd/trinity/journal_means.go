package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

type journalWindowsCmd struct {
	Dirs    []string `arg:"" name:"rundir" help:"Run directories; several are seeds of one experiment."`
	Window  int      `default:"15" help:"Steps in a window."`
	Count   int      `default:"4" help:"Windows, spaced evenly from the first steps to the last."`
	Metrics []string `placeholder:"NAME" help:"Metrics to show; default: the reward curves and the oracle's."`
}

// windowMetrics are shown by default: what the paper plots, then what is true.
var windowMetrics = []string{
	spec.MetricRFact, spec.MetricOracleGrounded, spec.MetricOracleReferenceRight, spec.MetricRDiff, spec.MetricRCorrect, spec.MetricOracleSolverAccuracy,
	spec.MetricRReason, spec.MetricRChal, spec.MetricRChalSelected, spec.MetricSelectRate, spec.MetricDisputeRate, spec.MetricDisputeOverturned,
	spec.MetricOracleCorrFPR, spec.MetricOracleCorrFNR, spec.MetricOracleFactFPR, spec.MetricOracleFactFNR,
	spec.MetricRQ, spec.MetricRS, spec.MetricClipFraction, spec.MetricKL,
}

// windowRow is one metric: its mean over each window, and over seeds the mean and sample standard deviation of those means.
type windowRow struct {
	Metric string       `json:"metric"`
	Mean   []spec.Float `json:"mean"`
	Std    []spec.Float `json:"std,omitempty"`
}

// Run prints means of a run's metrics over windows of steps.
func (cmd journalWindowsCmd) Run(c *Context) error {
	runs := make([][]spec.Step, len(cmd.Dirs))
	steps := math.MaxInt
	for i, dir := range cmd.Dirs {
		for r, err := range journal.ReadCommitted(dir) {
			if err != nil {
				return found(dir, err)
			}
			if s, ok := r.Data.(*spec.Step); ok {
				runs[i] = append(runs[i], *s)
			}
		}
		steps = min(steps, len(runs[i]))
	}
	if cmd.Window < 1 || cmd.Window > steps || cmd.Count < 2 {
		return usage(fmt.Errorf("journal windows: --window %d and --count %d; the shortest run has %d steps", cmd.Window, cmd.Count, steps))
	}
	starts := make([]int, cmd.Count)
	for k := range starts {
		starts[k] = k * (steps - cmd.Window) / (cmd.Count - 1)
	}
	names := cmd.Metrics
	if len(names) == 0 {
		names = windowMetrics
	}
	var rows []windowRow
	for _, name := range names {
		row := windowRow{Metric: name}
		for _, at := range starts {
			var means []float64
			for _, run := range runs {
				means = append(means, windowMean(run[at:at+cmd.Window], name))
			}
			mean, std := meanStd(means)
			row.Mean = append(row.Mean, spec.Float(mean))
			if len(runs) > 1 {
				row.Std = append(row.Std, spec.Float(std))
			}
		}
		rows = append(rows, row)
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(rows)
	}
	fmt.Fprint(c.Stdout, "| metric |")
	for _, at := range starts {
		fmt.Fprintf(c.Stdout, " %d–%d |", at+1, at+cmd.Window)
	}
	fmt.Fprintf(c.Stdout, "\n|---|%s\n", strings.Repeat("---|", len(starts)))
	for _, row := range rows {
		fmt.Fprintf(c.Stdout, "| `%s` |", row.Metric)
		for k, m := range row.Mean {
			fmt.Fprintf(c.Stdout, " %.3f", float64(m))
			if row.Std != nil {
				fmt.Fprintf(c.Stdout, " ± %.3f", float64(row.Std[k]))
			}
			fmt.Fprint(c.Stdout, " |")
		}
		fmt.Fprintln(c.Stdout)
	}
	return nil
}

// windowMean is the mean over the steps where the metric is a number.
func windowMean(steps []spec.Step, name string) float64 {
	sum, n := 0.0, 0
	for _, s := range steps {
		if v, ok := s.Metrics[name]; ok && !math.IsNaN(float64(v)) {
			sum += float64(v)
			n++
		}
	}
	return sum / float64(n)
}

// meanStd is the mean and the sample standard deviation.
func meanStd(x []float64) (mean, std float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		std += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(std / float64(len(x)-1))
}
