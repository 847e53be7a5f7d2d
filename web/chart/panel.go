package chart

import (
	"fmt"
	"math"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// Curve is one metric of a panel: its points and their moving average, both possibly thinned out.
type Curve struct {
	Metric string
	Label  string
	Oracle bool   // measured against known truth: drawn in ink, dashed, beside the rewards
	Dash   string // "solid", "dashed" or "dotted"; curves of a panel differ in it, so that it reads in grey
	Raw    []Point
	Mean   []Point // of MovingAverage: NaN breaks the line
	Tail   []Point // the newest 2*Window points of the unthinned curve, from which a page goes on
}

// Panel is one small chart of a figure.
type Panel struct {
	ID     string
	Title  string
	Note   string
	Curves []Curve
}

// Figure is what the page's script draws.
type Figure struct {
	Window int       `json:"window"`
	Tops   []float64 `json:"tops"` // ends that a vertical axis may have, ascending, to grow by
	Panels []Drawn   `json:"panels"`
}

// tops are the ends of vertical axes: a panel takes the first that its values fit under. All metrics drawn are shares or
// rewards between 0 and 1; what is larger is drawn with a free axis.
func tops() []float64 { return []float64{0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1} }

// top is the end of a panel's vertical axis, nil for a free one.
func top(curves []Curve) any {
	largest, seen := 0.0, false
	for _, c := range curves {
		for _, p := range c.Raw {
			if finite(p.Value) {
				largest, seen = max(largest, p.Value), true
			}
		}
	}
	if !seen {
		return 1
	}
	for _, t := range tops() {
		if largest <= t {
			return t
		}
	}
	return nil
}

// Drawn is a panel's ECharts option and which of its series follow which metric.
type Drawn struct {
	ID     string         `json:"id"`
	Option map[string]any `json:"option"`
	Curves []DrawnCurve   `json:"curves"`
}

// DrawnCurve names the series of a metric by their ids. Tail has [step, value] pairs; a value that is not finite is a string.
type DrawnCurve struct {
	Metric string   `json:"metric"`
	Label  string   `json:"label"`
	Raw    string   `json:"raw"`
	Mean   string   `json:"mean"`
	Marks  bool     `json:"marks"` // values that are not finite are marked
	Tail   [][2]any `json:"tail"`
}

// Draw builds the options of all panels. The horizontal axis reaches at least from 0 to steps-1.
func Draw(panels []Panel, steps int) Figure {
	f := Figure{Window: Window, Tops: tops(), Panels: make([]Drawn, 0, len(panels))}
	for _, p := range panels {
		f.Panels = append(f.Panels, draw(p, steps))
	}
	return f
}

func draw(p Panel, steps int) Drawn {
	line := charts.NewLine()
	line.SetGlobalOptions(
		charts.WithAnimation(false), // redrawn at every step; movement would hide which point is new
		charts.WithLegendOpts(opts.Legend{Show: opts.Bool(false)}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "axis", BackgroundColor: "--paper", BorderColor: "--rule"}),
		charts.WithGridOpts(opts.Grid{Left: "40", Right: "12", Top: "12", Bottom: "24"}),
		charts.WithDataZoomOpts(opts.DataZoom{Type: "inside", FilterMode: "none"}),
		charts.WithXAxisOpts(opts.XAxis{
			Type: "value", Min: 0, Max: max(steps-1, 1), MinInterval: 1,
			AxisLine:  &opts.AxisLine{LineStyle: &opts.LineStyle{Color: "--rule"}},
			AxisTick:  &opts.AxisTick{Show: opts.Bool(false)},
			AxisLabel: &opts.AxisLabel{Color: "--faint", FontSize: 11, HideOverlap: opts.Bool(true)},
			SplitLine: &opts.SplitLine{Show: opts.Bool(false)},
		}),
		charts.WithYAxisOpts(opts.YAxis{
			Type: "value", Min: 0, Max: top(p.Curves), SplitNumber: 5,
			AxisLabel: &opts.AxisLabel{Color: "--faint", FontSize: 11},
			SplitLine: &opts.SplitLine{LineStyle: &opts.LineStyle{Color: "--rule-faint"}},
		}),
	)
	drawn := Drawn{ID: p.ID}
	for _, c := range p.Curves {
		raw, mean := c.Metric+" raw", c.Metric+" mean"
		line.MultiSeries = append(line.MultiSeries, rawSeries(c, raw), meanSeries(c, mean))
		drawn.Curves = append(drawn.Curves, DrawnCurve{Metric: c.Metric, Label: c.Label, Raw: raw, Mean: mean, Marks: !c.Oracle, Tail: pairs(c.Tail)})
	}
	line.Validate()
	drawn.Option = line.JSON()
	return drawn
}

// rawSeries draws every step's own value as a point, and a reward that is not finite as a labelled line, since it has no
// height. The oracle's rates are often means over nothing, so they only leave a gap.
func rawSeries(c Curve, id string) charts.SingleSeries {
	data := make([][2]any, 0, len(c.Raw))
	var broken []opts.MarkLineNameXAxisItem
	for _, p := range c.Raw {
		if finite(p.Value) {
			data = append(data, [2]any{p.Step, round(p.Value)})
		} else if !c.Oracle {
			broken = append(broken, opts.MarkLineNameXAxisItem{Name: Text(p.Value), XAxis: p.Step})
		}
	}
	s := charts.SingleSeries{Name: c.Label, Id: id, Type: "scatter", Data: data, Symbol: "circle", SymbolSize: 5}
	color, opacity := "--accent", float32(0.4)
	if c.Oracle {
		color, s.Symbol = "--ink", "triangle"
		opacity = 0.2
	}
	s.ConfigureSeriesOpts(charts.WithItemStyleOpts(opts.ItemStyle{Color: color, Opacity: opts.Float(opacity)}))
	if len(broken) > 0 {
		s.ConfigureSeriesOpts(charts.WithMarkLineNameXAxisItemOpts(broken...), charts.WithMarkLineStyleOpts(opts.MarkLineStyle{
			Symbol:    []string{"none", "none"},
			Label:     &opts.Label{Show: opts.Bool(true), Formatter: "{b}", Color: "--warn", Position: "insideEndTop", FontSize: 10},
			LineStyle: &opts.LineStyle{Color: "--warn", Type: "dotted", Width: 1, Opacity: opts.Float(0.6)},
		}))
	}
	return s
}

func meanSeries(c Curve, id string) charts.SingleSeries {
	data := make([][2]any, 0, len(c.Mean))
	for _, p := range c.Mean {
		var value any // null breaks the line
		if finite(p.Value) {
			value = round(p.Value)
		}
		data = append(data, [2]any{p.Step, value})
	}
	color := "--accent"
	if c.Oracle {
		color = "--ink"
	}
	s := charts.SingleSeries{Name: c.Label + fmt.Sprintf(", %d-step mean", Window), Id: id, Type: "line", Data: data}
	s.ConfigureSeriesOpts(
		charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(false), ConnectNulls: opts.Bool(false)}),
		charts.WithLineStyleOpts(opts.LineStyle{Color: color, Width: 2, Type: c.Dash}),
		charts.WithItemStyleOpts(opts.ItemStyle{Color: color}),
	)
	return s
}

// round keeps six decimals: more than a chart shows, and a third of the page's weight.
func round(x float64) float64 { return math.Round(x*1e6) / 1e6 }

func pairs(points []Point) [][2]any {
	out := make([][2]any, len(points))
	for i, p := range points {
		out[i] = [2]any{p.Step, Number(p.Value)}
	}
	return out
}

// Number is x for JSON: itself, or "NaN", "Infinity" or "-Infinity".
func Number(x float64) any {
	if finite(x) {
		return x
	}
	return Text(x)
}

// Text names a value that is not finite.
func Text(x float64) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case x > 0:
		return "Infinity"
	default:
		return "-Infinity"
	}
}
