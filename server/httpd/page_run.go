package httpd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/web/page"
	"github.com/trinity-lab/trinity/web/view"
)

const (
	logLines   = 200
	talkEvents = 600 // a step's records for the newest episode
)

func (s *Site) run(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	// The run comes first: what is read after it may already hold later events, and the page takes repeated ones well.
	run, err := s.service.Run(ctx, chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	steps, err := s.service.Steps(ctx, run.ID)
	if err != nil {
		return err
	}
	logs, err := s.service.LastEvents(ctx, run.ID, logLines, experiment.EventLog)
	if err != nil {
		return err
	}
	talk, err := s.service.LastEvents(ctx, run.ID, talkEvents,
		experiment.EventCandidate, experiment.EventJudgement, experiment.EventRollout, experiment.EventDispute)
	if err != nil {
		return err
	}
	m, err := s.runModel(run, steps)
	if err != nil {
		return err
	}
	m.Log = logLinesOf(logs)
	for _, e := range newestStep(talk) {
		m.Live.Events = append(m.Live.Events, e)
	}
	return render(w, r, http.StatusOK, page.Run(m))
}

func (s *Site) runModel(run experiment.Run, steps []experiment.StepMetrics) (view.Run, error) {
	text, err := config.Marshal(run.Config)
	if err != nil {
		return view.Run{}, err
	}
	c := curvesOf(steps)
	oracle := strings.HasPrefix(run.Config.Corpus.Path, spec.Builtin)
	for _, p := range figurePanels(true) {
		for _, l := range p.lines {
			oracle = oracle || l.oracle && len(c[l.metric]) > 0
		}
	}
	m := view.Run{
		Shell: s.shell(run.Name, "runs"), ID: run.ID, Name: run.Name,
		Status: view.Status{Name: string(run.Status), Note: run.Error},
		Done:   run.Done, Steps: run.Steps, YAML: string(text), Facts: s.runFacts(run),
		CanStop:   !run.Status.Terminal() && !(run.Imported && run.Status != experiment.Queued),
		CanResume: (run.Status == experiment.Stopped || run.Status == experiment.Failed) && !run.Imported,
		Live:      view.Live{Run: run.ID, After: run.LastEvent, Done: run.Done, Steps: run.Steps},
	}
	m.Charts = true
	if run.Phase != nil {
		m.Phase = view.Phase{Name: run.Phase.Name, Step: run.Phase.Step, Done: run.Phase.Done, Total: run.Phase.Total}
	}
	m.Figure, m.Panels = c.figure(figurePanels(oracle), run.Steps)
	m.Window, m.Windows, m.Live.Windows = c.windows()
	return m, nil
}

func (s *Site) runFacts(run experiment.Run) []view.Fact {
	var facts []view.Fact
	add := func(label, value string) {
		if value != "" {
			facts = append(facts, view.Fact{Label: label, Value: value})
		}
	}
	c := run.Config
	add("run", run.ID)
	add("model", cmp.Or(run.Model, "not loaded yet"))
	add("images", cmp.Or(run.Corpus, "not read yet"))
	if run.Skipped > 0 {
		add("skipped", fmt.Sprintf("%d files that could not be read", run.Skipped))
	}
	add("a step", fmt.Sprintf("%d images, G = %d, K = %d", c.Corpus.ImagesPerStep, c.Questioner.Samples, c.Solver.Samples))
	switch {
	case !c.Verifier.Gate:
		add("Verifier", "gate off: every well-formed candidate passes")
	case c.Verifier.Update == "endpoint":
		add("Verifier", fmt.Sprintf("%s at %s", c.Verifier.Endpoint.Model, c.Verifier.Endpoint.URL))
	case c.Verifier.Update == "fixed":
		add("Verifier", strings.TrimSpace("fixed "+c.Verifier.Path))
	default:
		add("Verifier", fmt.Sprintf("%s, decay %s", c.Verifier.Update, view.Exact(c.Verifier.EMADecay)))
	}
	add("seed", fmt.Sprint(c.Seed))
	add("created", run.Created.UTC().Format("2 Jan 2006, 15:04:05 UTC"))
	if run.Started != nil {
		end := s.now()
		if run.Ended != nil {
			end = *run.Ended
		}
		add("at work", view.Duration(max(end.Sub(*run.Started), 0)))
	}
	add("folder", run.Directory)
	add("version", run.Version)
	if run.Parent != "" {
		facts = append(facts, view.Fact{Label: "parent", Value: run.Parent, URL: runURL(run.Parent)})
	}
	add("config", view.Short(run.ConfigHash, 16))
	return facts
}

func logLinesOf(events []experiment.Event) []view.LogLine {
	lines := make([]view.LogLine, 0, len(events))
	for _, e := range events {
		var l spec.Log
		if json.Unmarshal(e.Data, &l) != nil {
			continue // not a log line: nothing to show
		}
		lines = append(lines, view.LogLine{Level: l.Level, Text: l.Message, Time: e.Time.UTC().Format(time.TimeOnly)})
	}
	return lines
}

// newestStep keeps the events of the newest step among them.
func newestStep(events []experiment.Event) []experiment.Event {
	if len(events) == 0 {
		return nil
	}
	newest := events[len(events)-1].Step
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Step != newest {
			return events[i+1:]
		}
	}
	return events
}

func (s *Site) stop(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "id")
	if _, err := s.service.Stop(r.Context(), id); err != nil && !errors.Is(err, experiment.ErrConflict) {
		return err // a conflict means that it has ended already, which the page shows
	}
	http.Redirect(w, r, runURL(id), http.StatusSeeOther)
	return nil
}

func (s *Site) resume(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "id")
	if _, err := s.service.Resume(r.Context(), id); err != nil {
		return err
	}
	http.Redirect(w, r, runURL(id), http.StatusSeeOther)
	return nil
}
