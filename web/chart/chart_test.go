package chart

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func points(from int, values ...float64) []Point {
	out := make([]Point, len(values))
	for i, v := range values {
		out[i] = Point{from + i, v}
	}
	return out
}

func TestMovingAverage(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		name   string
		in     []Point
		window int
		want   []Point
	}{
		{"empty", nil, 3, []Point{}},
		{"trailing", points(0, 1, 2, 3, 4), 3, points(0, 1, 1.5, 2, 3)},
		{"starts anew after a missing step", append(points(0, 1, 3), points(5, 10, 20)...), 3,
			[]Point{{0, 1}, {1, 2}, {2, nan}, {5, 10}, {6, 15}}},
		{"starts anew after NaN", points(0, 1, nan, 5, 7), 3, []Point{{0, 1}, {1, nan}, {2, 5}, {3, 6}}},
		{"infinity is a gap too", points(0, 2, math.Inf(1), 4), 15, []Point{{0, 2}, {1, nan}, {2, 4}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := MovingAverage(test.in, test.window)
			require.Len(t, got, len(test.want))
			for i := range got {
				require.Equal(t, test.want[i].Step, got[i].Step)
				require.InDelta(t, test.want[i].Value, got[i].Value, 1e-12) // InDelta takes NaN as equal to NaN
			}
		})
	}
}

func TestMovingAverageStaysWithinItsWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "values")
		window := rapid.IntRange(1, 20).Draw(t, "window")
		for i, p := range MovingAverage(points(0, values...), window) {
			low, high := math.Inf(1), math.Inf(-1)
			for _, v := range values[max(0, i-window+1) : i+1] {
				low, high = min(low, v), max(high, v)
			}
			if p.Value < low-1e-12 || p.Value > high+1e-12 {
				t.Fatalf("mean %v at %d leaves [%v, %v]", p.Value, i, low, high)
			}
		}
	})
}

func TestWindows(t *testing.T) {
	require.Equal(t, 0, Windows(points(0, 1)).Size)

	w := Windows(points(0, 1, 3, 5, 7, 9))
	require.Equal(t, WindowMeans{Size: 2, First: 2, Last: 8}, w)

	long := make([]float64, 120)
	for i := range long {
		long[i] = float64(i)
	}
	w = Windows(points(0, long...))
	require.Equal(t, WindowMeans{Size: 50, First: 24.5, Last: 94.5}, w)

	w = Windows(points(0, math.NaN(), 4, 6, math.Inf(1)))
	require.Equal(t, WindowMeans{Size: 2, First: 4, Last: 6, Skipped: 2}, w)
}

func TestAxisEndsAboveTheValues(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   any
	}{{nil, 1}, {[]float64{.05, .07}, .1}, {[]float64{.55, math.NaN()}, .6}, {[]float64{1}, 1.0}, {[]float64{7, math.Inf(1)}, nil}} {
		require.Equal(t, test.want, top([]Curve{{Raw: points(0, test.values...)}}))
	}
}

func TestDraw(t *testing.T) {
	raw := points(0, 0.5, math.NaN(), 0.7, math.Inf(1))
	f := Draw([]Panel{{ID: "r_fact", Curves: []Curve{
		{Metric: "reward/r_fact/mean", Label: "R_fact", Dash: "solid", Raw: raw, Mean: MovingAverage(raw, Window), Tail: raw},
		{Metric: "oracle/grounded", Label: "grounded", Dash: "dashed", Oracle: true},
	}}}, 150)
	text, err := json.Marshal(f)
	require.NoError(t, err, "values that are not finite must survive JSON")

	var got struct {
		Window int
		Panels []struct {
			Option struct {
				Tooltip struct{ Formatter any }
				XAxis   []struct{ Min, Max float64 }
				Series  []struct {
					ID, Type  string
					LineStyle struct{ Color, Type string }
					Data      [][2]any
					MarkLine  struct {
						Data []struct {
							Name  string
							XAxis int
						}
					}
				}
			}
			Curves []DrawnCurve
		}
	}
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, 15, got.Window)
	panel := got.Panels[0]
	require.Equal(t, 149.0, panel.Option.XAxis[0].Max)
	require.Len(t, panel.Option.Series, 4)

	points, mean := panel.Option.Series[0], panel.Option.Series[1]
	require.Equal(t, panel.Curves[0].Raw, points.ID)
	require.Equal(t, panel.Curves[0].Mean, mean.ID)
	require.Len(t, points.Data, 2, "only finite values have a height")
	require.Equal(t, "NaN", points.MarkLine.Data[0].Name)
	require.Equal(t, 1, points.MarkLine.Data[0].XAxis)
	require.Equal(t, "Infinity", points.MarkLine.Data[1].Name)
	require.Equal(t, [2]any{1.0, nil}, mean.Data[1], "the line breaks at NaN")
	require.Equal(t, [2]any{1.0, "NaN"}, panel.Curves[0].Tail[1])

	oracle := panel.Option.Series[3]
	require.NotEqual(t, mean.LineStyle.Type, oracle.LineStyle.Type, "curves must differ without colour")
	for _, s := range panel.Option.Series {
		require.True(t, s.LineStyle.Color == "" || strings.HasPrefix(s.LineStyle.Color, "--"), "colours come from the theme")
	}
	require.NotContains(t, string(text), "function", "no script inside options")
	require.NotContains(t, string(text), "__f__")
}
