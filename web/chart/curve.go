// Package chart turns step metrics into the figures of a page: moving averages, first and last windows, and ECharts
// options built with go-echarts. Options carry no script and no colour: a colour is the name of a CSS variable, such as
// "--accent", which the page's script resolves for the theme in use.
package chart

import "math"

// Window is the moving average's length in steps (Trinity A.5).
const Window = 15

// Point is one value of a curve. Steps ascend within a curve.
type Point struct {
	Step  int
	Value float64 // may be NaN or infinite
}

// MovingAverage is the trailing mean over up to window steps ending at each point. It starts anew after a missing step and
// after a value that is not finite, so that nothing is smoothed across a gap; every gap and every non-finite value is a
// NaN point in the result, where a line breaks.
func MovingAverage(points []Point, window int) []Point {
	out := make([]Point, 0, len(points))
	start := 0 // first point that the mean may reach back to
	for i, p := range points {
		if i > 0 && p.Step != points[i-1].Step+1 {
			out = append(out, Point{points[i-1].Step + 1, math.NaN()})
			start = i
		}
		if !finite(p.Value) {
			out = append(out, Point{p.Step, math.NaN()})
			start = i + 1
			continue
		}
		start = max(start, i-window+1)
		sum := 0.0
		for _, q := range points[start : i+1] {
			sum += q.Value
		}
		out = append(out, Point{p.Step, sum / float64(i+1-start)})
	}
	return out
}

// WindowMeans are the means of a curve's first and last Size points (Trinity A.5).
type WindowMeans struct {
	Size        int // min(50, n/2); 0 where there are fewer than two points
	First, Last float64
	Skipped     int // values left out because they are not finite
}

// MaxWindow is the length of the paper's first and last windows, steps.
const MaxWindow = 50

// Windows averages the first and the last min(MaxWindow, n/2) points over their finite values. A window without any is NaN.
func Windows(points []Point) WindowMeans {
	w := WindowMeans{Size: min(MaxWindow, len(points)/2), First: math.NaN(), Last: math.NaN()}
	if w.Size == 0 {
		return w
	}
	var skippedFirst, skippedLast int
	w.First, skippedFirst = mean(points[:w.Size])
	w.Last, skippedLast = mean(points[len(points)-w.Size:])
	w.Skipped = skippedFirst + skippedLast
	return w
}

func mean(points []Point) (value float64, skipped int) {
	sum := 0.0
	for _, p := range points {
		if finite(p.Value) {
			sum += p.Value
		} else {
			skipped++
		}
	}
	return sum / float64(len(points)-skipped), skipped
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
