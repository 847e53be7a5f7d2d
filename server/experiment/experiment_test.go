package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/spec"
)

func TestDownsampleKeepsExtremesAndEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 9})), 1, 300).Draw(t, "values")
		most := rapid.IntRange(1, 100).Draw(t, "most")
		points := make([]Point, len(values))
		low, high := math.Inf(1), math.Inf(-1)
		nan := false
		for i, v := range values {
			points[i] = Point{i, spec.Float(v)}
			low, high, nan = min(low, v), max(high, v), nan || math.IsNaN(v)
		}
		got := Downsample(points, most)
		if len(got) > max(most, 4) && len(got) != len(points) {
			t.Fatalf("%d points for at most %d", len(got), most)
		}
		if got[0].Step != 0 || got[len(got)-1].Step != len(points)-1 {
			t.Fatal("an end is missing")
		}
		seen := map[float64]bool{}
		sawNaN := false
		for i, p := range got {
			if i > 0 && got[i-1].Step >= p.Step {
				t.Fatal("steps are out of order")
			}
			seen[float64(p.Value)] = true
			sawNaN = sawNaN || math.IsNaN(float64(p.Value))
		}
		if !nan && (!seen[low] || !seen[high]) || nan && !sawNaN && !seen[math.Inf(1)] && !seen[math.Inf(-1)] {
			t.Fatalf("an extreme is missing: %v", got)
		}
	})
}

func TestWindows(t *testing.T) {
	var points []Point
	for i := range 120 {
		points = append(points, Point{i, spec.Float(i)})
	}
	require.Equal(t, Window{50, 24.5, 94.5}, WindowOf(points))
	require.Equal(t, Window{2, 0.5, 3.5}, WindowOf(points[:5]))
	require.Equal(t, Window{1, 0, 0}, WindowOf(points[:1]))
	require.True(t, math.IsNaN(float64(WindowOf(nil).Last)))
	points[119].Value = spec.Float(math.NaN())
	require.Equal(t, spec.Float(94), WindowOf(points).Last, "what is no number doesn't count")
}

func TestSeriesOf(t *testing.T) {
	steps := []StepMetrics{{Step: 1, Metrics: map[string]spec.Float{"a/x": 1, "b": 2}}, {Step: 0, Metrics: map[string]spec.Float{"a/x": 0, "a/y": 5}}}
	all := SeriesOf(steps, MetricQuery{})
	require.Len(t, all, 3)
	require.Equal(t, Series{"a/x", []Point{{0, 0}, {1, 1}}, 2}, all[0])
	require.Len(t, SeriesOf(steps, MetricQuery{Names: []string{"a/*"}}), 2)
	require.Len(t, SeriesOf(steps, MetricQuery{Names: []string{"b", "none"}}), 1)
}

// shipped are the real presets.
type shipped struct{}

func (shipped) Names() []string { return config.Presets() }
func (shipped) Load(name string) (spec.Config, error) {
	c, _, err := config.Preset(name)
	return c, err
}
func (shipped) Set(c *spec.Config, key string, value any) error {
	return config.SetValue(c, key, value)
}

// memory is the part of a store that creating needs.
type memory struct {
	Store
	run Run
}

func (m *memory) CreateRun(_ context.Context, run Run) error {
	m.run = run
	return nil
}
func (m *memory) Run(context.Context, string) (Run, error) { return m.run, nil }

type bell struct{ rung int }

func (b *bell) Wake()       { b.rung++ }
func (b *bell) Stop(string) {}

func TestCreate(t *testing.T) {
	store, supervisor := &memory{}, &bell{}
	s := NewService(store, supervisor, shipped{}, "/runs", time.Now)
	run, err := s.Create(t.Context(), Draft{Preset: "windtunnel", Set: map[string]any{"steps": 7, "gspo.clip_low": 0.5}, Name: "mine"})
	require.NoError(t, err)
	require.Equal(t, 7, run.Steps)
	require.Equal(t, 0.5, run.Config.GSPO.ClipLow)
	require.Equal(t, "mine", run.Name)
	require.Equal(t, Queued, run.Status)
	require.Equal(t, "/runs/"+run.ID, run.Directory)
	require.Len(t, run.ConfigHash, 64)
	require.Equal(t, 1, supervisor.rung)

	for name, d := range map[string]Draft{
		"preset": {Preset: "../../etc/passwd"},
		"steps":  {Preset: "windtunnel", Set: map[string]any{"steps": 0}},
		"nosuch": {Preset: "windtunnel", Set: map[string]any{"nosuch": 1}},
		"loop":   {Config: &spec.Config{}},
	} {
		_, err := s.Create(t.Context(), d)
		require.ErrorIs(t, err, ErrInvalid, name)
		fields := FieldErrors(err)
		require.NotEmpty(t, fields, name)
		require.Equal(t, name, fields[0].Field)
	}
	_, err = s.Resolve(Draft{})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = s.Resolve(Draft{Preset: "windtunnel", Config: &spec.Config{}})
	require.ErrorIs(t, err, ErrInvalid)
}

func TestFieldErrorsAreFoundInJoinedAndWrappedErrors(t *testing.T) {
	a, b := spec.FieldError{Field: "a", Message: "x"}, spec.FieldError{Field: "b", Message: "y"}
	require.Equal(t, []spec.FieldError{a, b}, FieldErrors(fmt.Errorf("wrapped: %w", errors.Join(a, errors.New("other"), b))))
	require.Nil(t, FieldErrors(errors.New("other")))
}
