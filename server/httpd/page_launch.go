package httpd

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/web/page"
	"github.com/trinity-lab/trinity/web/view"
)

// mainSettings are shown first, in this order, under these names; all others are folded away.
var mainSettings = [...]struct{ key, label string }{
	{"name", "Name"},
	{"steps", "Steps"},
	{"seed", "Seed"},
	{"corpus.images_per_step", "Images a step"},
	{"questioner.samples", "Candidates an image, G"},
	{"solver.samples", "Rollouts a question, K"},
	{"optimizer.learning_rate", "Learning rate"},
	{"verifier.ema_decay", "EMA decay"},
	{"gspo.clip_low", "Clip below 1"},
	{"gspo.clip_high", "Clip above 1"},
	{"verifier.gate", "Verifier gate"},
	{"corpus.path", "Images"},
	{"model.path", "Model"},
}

// groupNames are the folded parts of the configuration, in order.
var groupNames = [...]struct{ key, name string }{
	{"", "General"}, {"model", "Model"}, {"corpus", "Images"}, {"questioner", "Questioner"}, {"solver", "Solver"}, {"verifier", "Verifier"},
	{"dispute", "Disputes"}, {"reward", "Rewards, Eq. 1 and Eq. 2"}, {"optimizer", "Optimiser"}, {"gspo", "GSPO, Eq. 3"}, {"checkpoint", "Checkpoints"},
}

const defaultPreset = "windtunnel"

func (s *Site) launchForm(w http.ResponseWriter, r *http.Request) error {
	m, _, err := s.launchModel(r)
	if err != nil {
		return err
	}
	return render(w, r, http.StatusOK, page.Launch(m))
}

func (s *Site) launch(w http.ResponseWriter, r *http.Request) error {
	m, draft, err := s.launchModel(r)
	if err != nil {
		return err
	}
	switch {
	case m.Invalid > 0:
		return render(w, r, http.StatusUnprocessableEntity, page.Launch(m))
	case r.PostFormValue("action") == "check":
		return render(w, r, http.StatusOK, page.Launch(m))
	}
	run, err := s.service.Create(r.Context(), draft)
	if err != nil {
		return err
	}
	http.Redirect(w, r, runURL(run.ID), http.StatusSeeOther)
	return nil
}

// launchCheck tells a form that is being filled in what its configuration would be.
func (s *Site) launchCheck(w http.ResponseWriter, r *http.Request) error {
	type fault struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	}
	type cost struct {
		Count string `json:"count"`
		Text  string `json:"text"`
	}
	m, draft, err := s.launchModel(r)
	if err != nil {
		return err
	}
	_, err = s.service.Resolve(draft)
	answer := struct {
		YAML   string  `json:"yaml"`
		Faults []fault `json:"faults"`
		Cost   []cost  `json:"cost,omitempty"`
	}{YAML: m.YAML, Faults: []fault{}}
	for _, f := range experiment.FieldErrors(err) {
		answer.Faults = append(answer.Faults, fault(f))
	}
	for _, c := range m.Cost {
		answer.Cost = append(answer.Cost, cost(c))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(answer)
}

// launchModel reads the preset and, from a posted form, the settings that differ from it.
func (s *Site) launchModel(r *http.Request) (view.Launch, experiment.Draft, error) {
	if err := r.ParseForm(); err != nil {
		return view.Launch{}, experiment.Draft{}, err
	}
	presets, err := s.service.Presets()
	if err != nil {
		return view.Launch{}, experiment.Draft{}, err
	}
	m := view.Launch{Shell: s.shell("Launch a run", "launch")}
	for _, p := range presets {
		m.Presets = append(m.Presets, p.Name)
	}
	name := r.FormValue("preset")
	if name == "" {
		name = defaultPreset
	}
	i := slices.IndexFunc(presets, func(p experiment.Preset) bool { return p.Name == name })
	if i < 0 {
		return m, experiment.Draft{}, experiment.Invalid("preset", "%q is unknown; choose one of %s", view.Short(name, 60), strings.Join(m.Presets, ", "))
	}
	m.Preset = name
	draft := experiment.Draft{Preset: name, Set: map[string]any{}}
	settings := settingsOf(presets[i].Config, r.PostForm, draft.Set)
	resolved, err := s.service.Resolve(draft)
	if err == nil {
		text, err := config.Marshal(resolved)
		if err != nil {
			return m, draft, err
		}
		m.YAML, m.Cost = string(text), costOf(resolved)
	}
	for _, f := range experiment.FieldErrors(err) {
		m.Invalid++
		if i := slices.IndexFunc(settings, func(v view.Setting) bool { return v.Key == f.Field }); i >= 0 {
			settings[i].Fault = f.Message
		} else {
			m.Faults = append(m.Faults, view.Fault(f))
		}
	}
	m.Main, m.Groups = arrange(settings)
	return m, draft, nil
}

// settingsOf lists all settings of a preset with the posted values in, and puts those that differ in changed.
func settingsOf(preset spec.Config, posted map[string][]string, changed map[string]any) []view.Setting {
	var settings []view.Setting
	for _, f := range config.Fields(preset) {
		v := view.Setting{Key: f.Key, Label: labelOf(f.Key, f.Group), Type: f.Type, Value: f.Value, Preset: f.Value, Choices: f.Choices, Help: f.Help}
		if given := posted[f.Key]; len(given) > 0 {
			v.Value = strings.TrimSpace(given[len(given)-1]) // a checked box comes after its hidden "false"
		}
		if v.Changed() {
			changed[f.Key] = v.Value
		}
		settings = append(settings, v)
	}
	return settings
}

func labelOf(key, group string) string {
	for _, s := range mainSettings {
		if s.key == key {
			return s.label
		}
	}
	words := strings.NewReplacer("_", " ", ".", ", ").Replace(strings.TrimPrefix(key, group+"."))
	return strings.ToUpper(words[:1]) + words[1:]
}

func arrange(settings []view.Setting) (shown []view.Setting, groups []view.Group) {
	isMain := map[string]bool{}
	for _, s := range mainSettings {
		isMain[s.key] = true
		if i := slices.IndexFunc(settings, func(v view.Setting) bool { return v.Key == s.key }); i >= 0 {
			shown = append(shown, settings[i])
		}
	}
	for _, g := range groupNames {
		group := view.Group{Name: g.name}
		for _, v := range settings {
			part, _, nested := strings.Cut(v.Key, ".")
			if !nested {
				part = ""
			}
			if part == g.key && !isMain[v.Key] {
				group.Settings = append(group.Settings, v)
				group.Open = group.Open || v.Changed() || v.Fault != ""
			}
		}
		if len(group.Settings) > 0 {
			groups = append(groups, group)
		}
	}
	return shown, groups
}
