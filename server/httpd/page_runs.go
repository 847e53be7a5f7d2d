package httpd

import (
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/web/page"
	"github.com/trinity-lab/trinity/web/view"
)

const (
	runsPerPage = 20
	sparkPoints = 40
)

// rewards are the five curves of Figure 2 as they are written and explained.
var rewards = [...]struct {
	metric string
	symbol view.Symbol
	title  string
}{
	{spec.MetricRFact, view.Symbol{Letter: "R", Sub: "fact"}, "question factuality"},
	{spec.MetricRDiff, view.Symbol{Letter: "R", Sub: "diff"}, "difficulty, as rated"},
	{spec.MetricRCorrect, view.Symbol{Letter: "R", Sub: "correct"}, "Solver correctness"},
	{spec.MetricRReason, view.Symbol{Letter: "R", Sub: "reason"}, "reasoning quality"},
	{spec.MetricRChal, view.Symbol{Letter: "R", Sub: "chal"}, "challenge, all candidates"},
}

func (s *Site) runs(w http.ResponseWriter, r *http.Request) error {
	status := experiment.Status(r.FormValue("status"))
	if !status.Valid() {
		status = ""
	}
	list, err := s.service.Runs(r.Context(), experiment.RunQuery{Status: status, Cursor: r.FormValue("cursor"), Limit: runsPerPage})
	if err != nil {
		return err
	}
	m := view.Runs{Shell: s.shell("Runs", "runs"), Filter: string(status), Rows: make([]view.RunRow, len(list.Runs))}
	for _, state := range []experiment.Status{experiment.Queued, experiment.Running, experiment.Completed, experiment.Stopped, experiment.Failed} {
		m.States = append(m.States, string(state))
	}
	if status != "" && !slices.Contains(m.States, string(status)) { // the passing ones are shown while they are asked for
		m.States = append(m.States, string(status))
	}
	if list.Next != "" {
		m.Next = "/?" + url.Values{"status": {string(status)}, "cursor": {list.Next}}.Encode()
	}
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(4)
	for i, run := range list.Runs {
		group.Go(func() error {
			series, err := s.service.Metrics(ctx, run.ID, experiment.MetricQuery{Names: spec.Figure2[:], MaxPoints: sparkPoints})
			m.Rows[i] = s.runRow(run, series)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return render(w, r, http.StatusOK, page.Runs(m))
}

func (s *Site) runRow(run experiment.Run, series []experiment.Series) view.RunRow {
	row := view.RunRow{
		ID: run.ID, Name: run.Name, URL: runURL(run.ID), Status: view.Status{Name: string(run.Status), Note: run.Error},
		Done: run.Done, Steps: run.Steps, Created: view.TimeOf(run.Created, s.now()), Model: run.Model,
	}
	for _, reward := range rewards {
		cell := view.Reward{Symbol: reward.symbol, Value: "–"}
		if v, ok := run.Latest[reward.metric]; ok {
			cell.Value = view.Mean(float64(v))
		}
		for _, one := range series {
			if one.Name == reward.metric {
				cell.Spark = spark(one.Points)
			}
		}
		row.Rewards = append(row.Rewards, cell)
	}
	return row
}

// spark scales a curve to its own range, but not to less than a tenth, so that noise does not look like a trend.
func spark(points []experiment.Point) view.Spark {
	values := make([]float64, len(points))
	low, high := 0.0, 0.0
	seen := false
	for i, p := range points {
		values[i] = float64(p.Value)
		if !finite(values[i]) {
			continue
		}
		if !seen {
			low, high, seen = values[i], values[i], true
		}
		low, high = min(low, values[i]), max(high, values[i])
	}
	if short := 0.1 - (high - low); short > 0 {
		low, high = low-short/2, high+short/2
	}
	return view.SparkOf(values, low, high)
}

func runURL(id string) string { return "/runs/" + url.PathEscape(id) }
