package httpd

import (
	"math"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/web/chart"
	"github.com/trinity-lab/trinity/web/view"
)

// maxPoints is how many points of a curve a page carries, about two for each pixel of a panel; longer curves keep their
// minima and maxima.
const maxPoints = 600

// line is a curve of a panel.
type line struct {
	metric, label, dash string
	oracle              bool
}

// figurePanel is a panel of the Run page's figure.
type figurePanel struct {
	id     string
	symbol view.Symbol
	title  string
	lines  []line
}

// figurePanels are the paper's five curves, beside each the oracle's where the run can have one.
func figurePanels(oracle bool) []figurePanel {
	truths := map[string][]line{
		spec.MetricRFact:    {{spec.MetricOracleGrounded, "truly grounded", "dashed", true}, {spec.MetricOracleReferenceRight, "answer truly right", "dotted", true}},
		spec.MetricRCorrect: {{spec.MetricOracleSolverAccuracy, "true accuracy", "dashed", true}},
	}
	var panels []figurePanel
	for _, reward := range rewards {
		p := figurePanel{id: reward.symbol.Sub, symbol: reward.symbol, title: reward.title, lines: []line{{reward.metric, reward.symbol.String(), "solid", false}}}
		if oracle {
			p.lines = append(p.lines, truths[reward.metric]...)
		}
		panels = append(panels, p)
	}
	if oracle {
		return append(panels, figurePanel{id: "verifier", symbol: view.Symbol{Letter: "V"}, title: "errors of the Verifier", lines: []line{
			{spec.MetricOracleCorrFPR, "wrong passed", "solid", true},
			{spec.MetricOracleCorrFNR, "right refused", "dashed", true},
			{spec.MetricOracleFactFPR, "ungrounded passed", "dotted", true},
		}})
	}
	return append(panels, figurePanel{id: "selection", symbol: view.Symbol{Letter: "p", Sub: "sel"}, title: "selection", lines: []line{
		{spec.MetricSelectRate, "share selected", "solid", false},
		{spec.MetricRChalSelected, "challenge of the selected", "dashed", false},
	}})
}

// windowRows are the metrics of the first-and-last table.
func windowRows() []view.WindowRow {
	var rows []view.WindowRow
	for _, reward := range rewards {
		rows = append(rows, view.WindowRow{Metric: reward.metric, Symbol: reward.symbol, Title: reward.title})
	}
	return append(rows,
		view.WindowRow{Metric: spec.MetricRChalSelected, Symbol: view.Symbol{Letter: "R", Sub: "chal"}, Title: "of the selected"},
		view.WindowRow{Metric: spec.MetricSelectRate, Symbol: view.Symbol{Letter: "p", Sub: "sel"}, Title: "share selected"},
		view.WindowRow{Metric: spec.MetricOracleGrounded, Title: "truly grounded", Oracle: true},
		view.WindowRow{Metric: spec.MetricOracleReferenceRight, Title: "reference truly right", Oracle: true},
		view.WindowRow{Metric: spec.MetricOracleSolverAccuracy, Title: "Solver's true accuracy", Oracle: true},
		view.WindowRow{Metric: spec.MetricOracleFactFPR, Title: "ungrounded questions passed", Oracle: true},
		view.WindowRow{Metric: spec.MetricOracleFactFNR, Title: "grounded questions refused", Oracle: true},
		view.WindowRow{Metric: spec.MetricOracleCorrFPR, Title: "wrong answers passed", Oracle: true},
		view.WindowRow{Metric: spec.MetricOracleCorrFNR, Title: "right answers refused", Oracle: true},
	)
}

// curves are a run's points by metric, ascending, not thinned out.
type curves map[string][]chart.Point

func curvesOf(steps []experiment.StepMetrics) curves {
	c := curves{}
	for _, series := range experiment.SeriesOf(steps, experiment.MetricQuery{}) {
		points := make([]chart.Point, len(series.Points))
		for i, p := range series.Points {
			points[i] = chart.Point{Step: p.Step, Value: float64(p.Value)}
		}
		c[series.Name] = points
	}
	return c
}

// figure draws the panels and describes them.
func (c curves) figure(panels []figurePanel, steps int) (chart.Figure, []view.Panel) {
	var drawn []chart.Panel
	var described []view.Panel
	for _, p := range panels {
		d := view.Panel{ID: p.id, Symbol: p.symbol, Title: p.title}
		one := chart.Panel{ID: p.id, Title: p.title}
		for i, l := range p.lines {
			points := c[l.metric]
			one.Curves = append(one.Curves, chart.Curve{
				Metric: l.metric, Label: l.label, Dash: l.dash, Oracle: l.oracle,
				Raw: thin(points), Mean: thin(chart.MovingAverage(points, chart.Window)), Tail: points[max(0, len(points)-2*chart.Window):],
			})
			if i == 0 && len(points) > 0 {
				d.Latest = view.Mean(points[len(points)-1].Value)
			}
			if len(p.lines) > 1 {
				d.Keys = append(d.Keys, view.Key{Label: l.label, Dash: l.dash, Oracle: l.oracle})
			}
		}
		drawn, described = append(drawn, one), append(described, d)
	}
	return chart.Draw(drawn, steps), described
}

// windows fills the table and gives the points from which a page keeps it up to date.
func (c curves) windows() (size int, rows []view.WindowRow, series []view.WindowSeries) {
	const edge, newest = chart.MaxWindow, chart.MaxWindow + 10
	rows = windowRows()
	for i := range rows {
		points := c[rows[i].Metric]
		live := view.WindowSeries{Metric: rows[i].Metric, Count: len(points), Points: [][2]any{}}
		for n, p := range points {
			if n < edge || n >= len(points)-newest {
				live.Points = append(live.Points, [2]any{p.Step, chart.Number(p.Value)})
			}
		}
		series = append(series, live)
		w := chart.Windows(points)
		if w.Size == 0 {
			continue
		}
		size = max(size, w.Size)
		rows[i].First, rows[i].Last, rows[i].Change, rows[i].Skipped = view.Mean(w.First), view.Mean(w.Last), view.Change(w.Last-w.First), w.Skipped
	}
	return size, rows, series
}

func thin(points []chart.Point) []chart.Point {
	if len(points) <= maxPoints {
		return points
	}
	all := make([]experiment.Point, len(points))
	for i, p := range points {
		all[i] = experiment.Point{Step: p.Step, Value: spec.Float(p.Value)}
	}
	all = experiment.Downsample(all, maxPoints)
	kept := make([]chart.Point, len(all))
	for i, p := range all {
		kept[i] = chart.Point{Step: p.Step, Value: float64(p.Value)}
	}
	return kept
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
