package httpd

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/spec"
)

var judges = []spec.Judge{spec.JudgeScreening, spec.JudgeReasoning, spec.JudgeEquivalence, spec.JudgeDispute}

func (a *api) listEpisodes(w http.ResponseWriter, r *http.Request) error {
	q := query{r: r}
	eq := experiment.EpisodeQuery{
		Outcome: experiment.Outcome(q.oneOf("outcome", names(experiment.Outcomes[:])...)),
		Text:    q.text("q"), Step: q.step(), Cursor: q.text("cursor"), Limit: q.limit(200),
	}
	if len(eq.Text) > 1000 {
		q.fail("q", "is longer than 1000 bytes; shorten it")
	}
	if err := q.err(); err != nil {
		return err
	}
	page, err := a.Service.Episodes(r.Context(), chi.URLParam(r, "id"), eq)
	if err != nil {
		return err
	}
	page.Episodes = orEmpty(page.Episodes)
	writeJSON(w, http.StatusOK, page)
	return nil
}

func (a *api) getEpisode(w http.ResponseWriter, r *http.Request) error {
	text := chi.URLParam(r, "episode")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return fmt.Errorf("episode %q: %w", text, experiment.ErrNotFound)
	}
	e, err := a.Service.Episode(r.Context(), id)
	if err != nil {
		return err
	}
	e.CandidateList, e.RolloutList, e.Judgements = orEmpty(e.CandidateList), orEmpty(e.RolloutList), orEmpty(e.Judgements)
	writeJSON(w, http.StatusOK, e)
	return nil
}

func (a *api) listJudgements(w http.ResponseWriter, r *http.Request) error {
	q := query{r: r}
	episode, _ := q.number("episode", 1, 1<<62)
	jq := experiment.JudgementQuery{
		Judge: spec.Judge(q.oneOf("judge", names(judges)...)), Step: q.step(), Parsed: q.truth("parsed"),
		Episode: episode, Cursor: q.text("cursor"), Limit: q.limit(500),
	}
	if err := q.err(); err != nil {
		return err
	}
	page, err := a.Service.Judgements(r.Context(), chi.URLParam(r, "id"), jq)
	if err != nil {
		return err
	}
	page.Judgements = orEmpty(page.Judgements)
	writeJSON(w, http.StatusOK, page)
	return nil
}
