package httpd

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/web/page"
	"github.com/trinity-lab/trinity/web/view"
)

const episodesPerPage = 36

// outcomeMeaning says what an outcome means, in words.
func outcomeMeaning(o experiment.Outcome) string {
	switch o {
	case experiment.OutcomeOpen:
		return "its step is not committed yet"
	case experiment.OutcomeRejected:
		return "no candidate passed the format and the Verifier's screening"
	case experiment.OutcomeOverturned:
		return "a dispute replaced the reference by the Solvers' answer"
	case experiment.OutcomeFallback:
		return "a dispute had no readable verdict and adopted the Solvers' answer"
	case experiment.OutcomeUpheld:
		return "a dispute kept the reference"
	case experiment.OutcomeSolved:
		return "every evaluable rollout was correct"
	case experiment.OutcomeMixed:
		return "some rollouts were correct"
	case experiment.OutcomeUnsolved:
		return "no rollout was correct"
	}
	return ""
}

func outcomeOf(o experiment.Outcome) view.Outcome {
	return view.Outcome{Name: string(o), Meaning: outcomeMeaning(o)}
}

func (s *Site) episodes(w http.ResponseWriter, r *http.Request) error {
	run, err := s.service.Run(r.Context(), chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	query := r.URL.Query()
	m := view.Episodes{
		Shell: s.shell("Episodes of "+run.Name, "runs"), RunID: run.ID, RunName: run.Name, RunURL: runURL(run.ID),
		Filter: view.EpisodeFilter{Outcome: query.Get("outcome"), Step: query.Get("step"), Text: query.Get("q")},
	}
	for _, o := range experiment.Outcomes {
		m.Outcomes = append(m.Outcomes, outcomeOf(o))
	}
	q := experiment.EpisodeQuery{Text: m.Filter.Text, Cursor: query.Get("cursor"), Limit: episodesPerPage}
	if o := experiment.Outcome(m.Filter.Outcome); slices.Contains(experiment.Outcomes[:], o) {
		q.Outcome = o
	} else {
		m.Filter.Outcome = ""
	}
	if m.Filter.Step != "" {
		step, err := strconv.Atoi(m.Filter.Step)
		if err != nil || step < 0 {
			m.Filter.Fault = "A step is a whole number from 0 on; this one was left out of the search."
		} else {
			q.Step = &step
		}
	}
	found, err := s.service.Episodes(r.Context(), run.ID, q)
	if err != nil {
		return err
	}
	for _, e := range found.Episodes {
		m.Rows = append(m.Rows, episodeRow(e))
	}
	m.Next = pageURL(r.URL, found.Next)
	if q.Cursor != "" {
		m.First = pageURL(r.URL, "first")
	}
	return render(w, r, http.StatusOK, page.Episodes(m))
}

// pageURL is the same list from another cursor on: "first" is its beginning, and an empty cursor has no page.
func pageURL(u *url.URL, cursor string) string {
	if cursor == "" {
		return ""
	}
	query := u.Query()
	query.Set("cursor", cursor)
	if cursor == "first" {
		query.Del("cursor")
	}
	return (&url.URL{Path: u.Path, RawQuery: query.Encode()}).String()
}

func episodeRow(e experiment.EpisodeSummary) view.EpisodeRow {
	return view.EpisodeRow{
		URL: episodeURL(e.ID), Image: imageURL(e.Image), Step: e.Step, Slot: e.Slot, Outcome: outcomeOf(e.Outcome),
		Question: e.Question, Reference: e.Reference, Difficulty: view.Exact(e.Difficulty),
		Correct: e.Correct, Rollouts: e.Rollouts, Candidates: e.Candidates,
	}
}

func episodeURL(id int64) string { return "/episodes/" + strconv.FormatInt(id, 10) }

func imageURL(sha256 string) string { return "/api/v1/images/" + url.PathEscape(sha256) }
