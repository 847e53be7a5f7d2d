package experiment

import (
	"math"
	"slices"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// StepMetrics is a committed step.
type StepMetrics struct {
	Step    int                   `json:"step"`
	Metrics map[string]spec.Float `json:"metrics"`
	Tokens  map[string]int        `json:"tokens,omitempty"`
}

// Point is one value of a curve.
type Point struct {
	Step  int        `json:"step"`
	Value spec.Float `json:"value"`
}

// Series is one metric over the steps, ascending, without superseded steps.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
	Total  int     `json:"total"` // points before downsampling
}

// MetricQuery asks for curves. Names ending in "*" match by prefix; no names means all.
type MetricQuery struct {
	Names     []string
	MaxPoints int // a series; 0 means no downsampling
}

// MatchMetric reports whether name is asked for by names.
func MatchMetric(names []string, name string) bool {
	if len(names) == 0 {
		return true
	}
	return slices.ContainsFunc(names, func(want string) bool {
		if prefix, ok := cutStar(want); ok {
			return len(name) >= len(prefix) && name[:len(prefix)] == prefix
		}
		return want == name
	})
}

func cutStar(s string) (string, bool) {
	if n := len(s); n > 0 && s[n-1] == '*' {
		return s[:n-1], true
	}
	return "", false
}

// SeriesOf turns steps into one Series a metric, sorted by name and downsampled to at most maxPoints points each.
func SeriesOf(steps []StepMetrics, q MetricQuery) []Series {
	byName := map[string]*Series{}
	for _, s := range steps {
		for name, value := range s.Metrics {
			if !MatchMetric(q.Names, name) {
				continue
			}
			series := byName[name]
			if series == nil {
				series = &Series{Name: name}
				byName[name] = series
			}
			series.Points = append(series.Points, Point{s.Step, value})
		}
	}
	all := make([]Series, 0, len(byName))
	for _, s := range byName {
		slices.SortFunc(s.Points, func(a, b Point) int { return a.Step - b.Step })
		s.Total = len(s.Points)
		s.Points = Downsample(s.Points, q.MaxPoints)
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Series) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// Downsample keeps at most maxPoints of points: the first and the last, and of each of the equal buckets between them the
// smallest and the largest value, so that no spike is lost. A non-finite value outranks every number in its bucket.
// maxPoints under 4 counts as 4; 0 keeps all.
func Downsample(points []Point, maxPoints int) []Point {
	if maxPoints <= 0 || len(points) <= max(maxPoints, 4) {
		return points
	}
	maxPoints = max(maxPoints, 4)
	inner := points[1 : len(points)-1]
	buckets := (maxPoints - 2) / 2
	kept := make([]Point, 0, maxPoints)
	kept = append(kept, points[0])
	for b := range buckets {
		bucket := inner[b*len(inner)/buckets : (b+1)*len(inner)/buckets]
		if len(bucket) == 0 {
			continue
		}
		low, high := 0, 0
		for i, p := range bucket {
			if rank(p.Value, -1) < rank(bucket[low].Value, -1) {
				low = i
			}
			if rank(p.Value, 1) > rank(bucket[high].Value, 1) {
				high = i
			}
		}
		kept = append(kept, bucket[min(low, high)])
		if low != high {
			kept = append(kept, bucket[max(low, high)])
		}
	}
	return append(kept, points[len(points)-1])
}

// rank orders values for Downsample; NaN goes beyond the infinity of the given sign.
func rank(v spec.Float, sign int) float64 {
	if x := float64(v); !math.IsNaN(x) {
		return x
	}
	return math.Inf(sign)
}

// WindowSteps is the length of the first and the last window that the paper compares.
const WindowSteps = 50

// Window is a curve's mean over its first and its last steps.
type Window struct {
	Steps int        `json:"steps"` // in each window: 50, or half of a shorter curve
	First spec.Float `json:"first"`
	Last  spec.Float `json:"last"`
}

// WindowOf averages the finite values of a curve's first and last window. A window without any is NaN.
func WindowOf(points []Point) Window {
	size := max(min(WindowSteps, len(points)/2), min(1, len(points)))
	return Window{Steps: size, First: mean(points[:size]), Last: mean(points[len(points)-size:])}
}

func mean(points []Point) spec.Float {
	sum, n := 0.0, 0
	for _, p := range points {
		if x := float64(p.Value); !math.IsNaN(x) && !math.IsInf(x, 0) {
			sum += x
			n++
		}
	}
	return spec.Float(sum / float64(n)) // 0/0 is NaN
}
