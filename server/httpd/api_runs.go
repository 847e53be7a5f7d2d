package httpd

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// draft is the body of POST /api/v1/runs.
type draft struct {
	Preset string         `json:"preset"`
	Config *spec.Config   `json:"config"`
	Set    map[string]any `json:"set"`
	Name   string         `json:"name"`
	Tags   []string       `json:"tags"`
	Notes  string         `json:"notes"`
}

func readDraft(r *http.Request) (experiment.Draft, error) {
	var d draft
	if err := readJSON(r, &d); err != nil {
		return experiment.Draft{}, err
	}
	if len(d.Tags) > 50 {
		return experiment.Draft{}, experiment.Invalid("tags", "has more than 50 entries")
	}
	return experiment.Draft{Preset: d.Preset, Config: d.Config, Set: d.Set, Name: d.Name, Tags: d.Tags, Notes: d.Notes}, nil
}

func (a *api) listPresets(w http.ResponseWriter, _ *http.Request) error {
	presets, err := a.Service.Presets()
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"presets": presets})
	return nil
}

// validateRun answers with the configuration that a draft would run.
func (a *api) validateRun(w http.ResponseWriter, r *http.Request) error {
	d, err := readDraft(r)
	if err != nil {
		return err
	}
	c, err := a.Service.Resolve(d)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"config": c})
	return nil
}

func (a *api) createRun(w http.ResponseWriter, r *http.Request) error {
	d, err := readDraft(r)
	if err != nil {
		return err
	}
	run, err := a.Service.Create(r.Context(), d)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/runs/"+run.ID)
	writeJSON(w, http.StatusCreated, run)
	return nil
}

func (a *api) listRuns(w http.ResponseWriter, r *http.Request) error {
	q := query{r: r}
	rq := experiment.RunQuery{Status: experiment.Status(q.oneOf("status", names(experiment.Statuses[:])...)), Cursor: q.text("cursor"), Limit: q.limit(200)}
	if err := q.err(); err != nil {
		return err
	}
	page, err := a.Service.Runs(r.Context(), rq)
	if err != nil {
		return err
	}
	page.Runs = orEmpty(page.Runs)
	writeJSON(w, http.StatusOK, page)
	return nil
}

// answerRun answers with the run that do returns for the id in the path.
func answerRun(status int, do func(ctx context.Context, id string) (experiment.Run, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		run, err := do(r.Context(), chi.URLParam(r, "id"))
		if err != nil {
			return err
		}
		writeJSON(w, status, run)
		return nil
	}
}

// unsupported answers for actions that this version's trainer can't take.
func (a *api) unsupported(action string) func(http.ResponseWriter, *http.Request) error {
	return func(_ http.ResponseWriter, r *http.Request) error {
		if _, err := a.Service.Run(r.Context(), chi.URLParam(r, "id")); err != nil {
			return err
		}
		return fmt.Errorf("%s: use stop and resume: %w", action, experiment.ErrUnsupported)
	}
}

// getMetrics answers {"series":[{"name","points":[{"step","value"}],"total"}]}. names are separated by commas; one that
// ends in * matches by its beginning.
func (a *api) getMetrics(w http.ResponseWriter, r *http.Request) error {
	q := query{r: r}
	most, _ := q.number("max_points", 1, 1_000_000)
	mq := experiment.MetricQuery{MaxPoints: int(most)}
	for _, value := range r.URL.Query()["names"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				mq.Names = append(mq.Names, name)
			}
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	series, err := a.Service.Metrics(r.Context(), chi.URLParam(r, "id"), mq)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"run": chi.URLParam(r, "id"), "series": series})
	return nil
}

func (a *api) listAttempts(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "id")
	if _, err := a.Service.Run(r.Context(), id); err != nil {
		return err
	}
	attempts, err := a.Service.Attempts(r.Context(), id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"attempts": orEmpty(attempts)})
	return nil
}

// listEvents is the feed for programs that don't speak websocket: ask again with after set to the last seq.
func (a *api) listEvents(w http.ResponseWriter, r *http.Request) error {
	q := query{r: r}
	after, _ := q.number("after", 0, 1<<62)
	limit := q.limit(1000)
	if limit == 0 {
		limit = 500
	}
	if err := q.err(); err != nil {
		return err
	}
	id := chi.URLParam(r, "id")
	if _, err := a.Service.Run(r.Context(), id); err != nil {
		return err
	}
	events, err := a.Service.Events(r.Context(), id, after, limit)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"events": orEmpty(events)})
	return nil
}

// orEmpty makes a list that is encoded as [] rather than null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
