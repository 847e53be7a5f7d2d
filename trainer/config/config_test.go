package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// options are not the paper's: they are off, or at their default, where a preset or a run of an earlier version does not
// name them.
var options = []string{"model.decode_batch", "model.gradient_checkpointing", "optimizer.alternate", "verifier.ema_bf16",
	"verifier.endpoint.url", "verifier.endpoint.model", "verifier.endpoint.key_env", "verifier.endpoint.concurrency", "verifier.endpoint.timeout",
	"verifier.endpoint.connect_timeout", "verifier.endpoint.attempts"}

func TestPresetsAreValidAndComplete(t *testing.T) {
	require.Equal(t, []string{"trinity-qwen2.5-vl-7b", "trinity-qwen3-vl-8b", "windtunnel"}, Presets())
	for _, name := range Presets() {
		cfg, text, err := Preset(name)
		require.NoError(t, err)
		require.NoError(t, cfg.Validate())
		require.Equal(t, name, cfg.Name)
		for _, key := range keys() { // a forgotten key would silently be zero, which suits the options alone
			if slices.Contains(options, key) {
				continue
			}
			require.Regexp(t, `[ {\n]`+key[strings.LastIndexByte(key, '.')+1:]+`: `, "\n"+string(text), name)
		}
	}
}

// The paper's values (A.2), by key.
func TestPresetsCarryThePapersValues(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"trinity-qwen3-vl-8b": {"steps": "300", "corpus.images_per_step": "16", "questioner.samples": "4", "solver.samples": "4", "model.lora.rank": "32", "model.lora.alpha": "32",
			"solver.sampling.max_tokens": "12288", "questioner.sampling.max_tokens": "12288", "verifier.thinking.max_tokens": "8192", "model.min_pixels": "262144", "model.max_pixels": "1048576"},
		"trinity-qwen2.5-vl-7b": {"steps": "500", "corpus.images_per_step": "32", "questioner.samples": "4", "solver.samples": "6", "model.lora.rank": "32", "model.lora.alpha": "64",
			"solver.sampling.max_tokens": "16384", "questioner.sampling.max_tokens": "16384", "verifier.judging.max_tokens": "8192", "model.min_pixels": "200704", "model.max_pixels": "802816"},
	} {
		for key, value := range map[string]string{"optimizer.learning_rate": "1e-05", "optimizer.weight_decay": "0.1", "optimizer.warmup_steps": "5", "optimizer.epochs": "1",
			"verifier.ema_decay": "0.999", "gspo.clip_low": "0.0003", "gspo.clip_high": "0.0004", "gspo.regulariser": "0.1", "dispute.threshold": "0.75", "dispute.retries": "2",
			"verifier.retries": "0", "reward.alpha_q": "0.3", "reward.beta_q": "0.7", "reward.rho_f": "0.5", "reward.w_c": "0.5", "reward.w_r": "0.3", "reward.w_f": "0.2",
			"verifier.judging.temperature": "0.7", "verifier.judging.top_p": "0.8", "verifier.judging.top_k": "20", "solver.sampling.top_p": "0.95", "model.freeze_vision": "true"} {
			want[key] = value
		}
		cfg, err := Load(name)
		require.NoError(t, err)
		for _, f := range Fields(cfg) {
			if w, ok := want[f.Key]; ok {
				require.Equal(t, w, f.Value, "%s %s", name, f.Key)
			}
		}
	}
}

func TestFaultsNameFileLineAndField(t *testing.T) {
	for _, test := range []struct{ yaml, want string }{
		{"extends: windtunnel\nsteps: many", `f.yaml:2: steps: is the text "many"; give a whole number`},
		{"extends: windtunnel\nsteps: 1.5", `f.yaml:2: steps: is "1.5"; give a whole number`},
		{"extends: windtunnel\nseed: -1", `f.yaml:2: seed: is "-1"; give a whole number, 0 or more`},
		{"extends: windtunnel\ngspo:\n  clip_lo: 1", `f.yaml:3: gspo.clip_lo: is not a setting; did you mean "clip_low"?`},
		{"extends: windtunnel\nsolverr: 3", `f.yaml:2: solverr: is not a setting; did you mean "solver"?`},
		{"extends: windtunnel\nzzzzzz: 3", `f.yaml:2: zzzzzz: is not a setting`},
		{"extends: windtunnel\nsteps: 1\nsteps: 2", `steps: is given twice`},
		{"extends: windtunnel\nsolver: 3", `f.yaml:2: solver: is not a mapping`},
		{"extends: windtunnel\nname: 3", `f.yaml:2: name: is 3; put it in quotes`},
		{"extends: windtunnel\nname: [a]", `f.yaml:2: name: has no single value; give a text`},
		{"extends: windtunnel\nsteps:", `f.yaml:2: steps: has no single value`},
		{"extends: windtunnel\nmodel: {freeze_vision: 1}", ``},
		{"extends: windtunnel\nmodel: {freeze_vision: maybe}", `model.freeze_vision: is the text "maybe"; give true or false`},
		{"extends: windtunnel\noptimizer: {learning_rate: .nan}", `learning_rate: is ".nan"; give a finite number`},
		{"a: &x 1\nb: *x", `a: is not a setting`},
		{"extends: windtunel", `preset "windtunel" is unknown; did you mean "windtunnel"?`},
		{"- 1", `f.yaml:1: configuration: is not a mapping`},
		{"", `is empty`},
		{"# only a comment", `is empty`},
		{"steps: 1\n---\nsteps: 2", `more than one document`},
		{"steps: [", `f.yaml`},
		{strings.Repeat("#", maxSize+1), `larger than`},
	} {
		_, err := Parse("f.yaml", []byte(test.yaml))
		if test.want == "" {
			require.NoError(t, err, test.yaml)
			continue
		}
		require.ErrorContains(t, err, test.want, test.yaml)
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	_, err := Parse("f.yaml", []byte("extends: windtunnel\nstep: 1\ngspo: {clip_low: x}\n"))
	faults := Faults(err)
	require.Len(t, faults, 2)
	require.Equal(t, "step", faults[0].Field)
	require.Equal(t, "gspo.clip_low", faults[1].Field)
}

func TestExtendsKeepsWhatIsNotGiven(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("extends: windtunnel\nname: mine\nsolver:\n  samples: 7\n"), 0o644))
	cfg, err := Load(file)
	require.NoError(t, err)
	want, _, err := Preset("windtunnel")
	require.NoError(t, err)
	want.Name, want.Solver.Samples = "mine", 7
	require.Equal(t, want, cfg)
}

func TestLoadOfNothing(t *testing.T) {
	_, err := Load("windtunel")
	require.ErrorContains(t, err, `did you mean "windtunnel"?`)
	_, err = Load(t.TempDir())
	require.Error(t, err)
}

func TestMarshalRoundTrip(t *testing.T) {
	for _, name := range Presets() {
		cfg, _, err := Preset(name)
		require.NoError(t, err)
		cfg.Seed = 1<<64 - 1
		cfg.Name = "true: # \n 3"
		text, err := Marshal(cfg)
		require.NoError(t, err)
		back, err := Parse("x", text)
		require.NoError(t, err, string(text))
		require.Equal(t, cfg, back)
	}
}

func TestSet(t *testing.T) {
	cfg, err := Load("windtunnel")
	require.NoError(t, err)
	require.NoError(t, Apply(&cfg, "steps=20", "gspo.clip_low = 3e-4", "verifier.gate=false", "model.path=a=b", "solver.sampling.top_k=5", "seed=18446744073709551615"))
	require.Equal(t, 20, cfg.Steps)
	require.Equal(t, 3e-4, cfg.GSPO.ClipLow)
	require.False(t, cfg.Verifier.Gate)
	require.Equal(t, "a=b", cfg.Model.Path)
	require.Equal(t, 5, cfg.Solver.Sampling.TopK)
	require.Equal(t, uint64(1<<64-1), cfg.Seed)
	for assignment, want := range map[string]string{
		"steps":                  `has no value`,
		"stepz=1":                `did you mean "steps"?`,
		"clip_low=1":             `did you mean "gspo.clip_low"?`,
		"gspo=1":                 `is a group of settings; set one of gspo.clip_low`,
		"steps.x=1":              `is not a setting`,
		"steps=1.5":              `give a whole number`,
		"steps=0":                `use 1 or more`,
		"verifier.ema_decay=2":   `use 0 to 1`,
		"verifier.gate=perhaps":  `give true or false`,
		"gspo.clip_low=Infinity": `give a finite number`,
		"=1":                     `is not a setting`,
	} {
		c := cfg
		err := Apply(&c, assignment)
		require.ErrorContains(t, err, want, assignment)
		require.NotEmpty(t, Faults(err)[0].Field+want)
	}
}

func TestSetValuesFromJSON(t *testing.T) {
	cfg, err := Load("windtunnel")
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"steps":20,"verifier.gate":false,"gspo.clip_high":1e-3,"name":"x","corpus.size":"300"}`), &values))
	require.NoError(t, ApplyValues(&cfg, values))
	require.Equal(t, 20, cfg.Steps)
	require.Equal(t, 300, cfg.Corpus.Size)
	require.Equal(t, 1e-3, cfg.GSPO.ClipHigh)
	faults := Faults(ApplyValues(&cfg, map[string]any{"steps": 1.5, "name": nil, "solver": map[string]any{}}))
	require.Equal(t, []string{"name", "solver", "steps"}, []string{faults[0].Field, faults[1].Field, faults[2].Field})
}

func TestEverySettingHasHelpAndSetsBack(t *testing.T) {
	cfg, err := Load("windtunnel")
	require.NoError(t, err)
	fields := Fields(cfg)
	require.Equal(t, len(keys()), len(fields))
	known := map[string]bool{}
	var blank spec.Config
	for _, f := range fields {
		require.NotEmpty(t, f.Help, f.Key)
		known[f.Key] = true
		require.NoError(t, Set(&blank, f.Key+"="+f.Value))
		if f.Choices != nil {
			require.Contains(t, f.Choices, f.Value)
			c := cfg
			require.NoError(t, Set(&c, f.Key+"=no such choice"))
			require.Error(t, c.Validate(), f.Key)
		}
	}
	require.Equal(t, cfg, blank)
	for key := range settingHelp {
		require.True(t, known[key], key)
	}
}

func FuzzParse(f *testing.F) {
	_, text, err := Preset("windtunnel")
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte("extends: windtunnel\na: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := Parse("f", text)
		if err == nil {
			_ = cfg.Validate()
		}
	})
}

func TestEndpointSettings(t *testing.T) {
	good := []string{"verifier.update=endpoint", "verifier.endpoint.url=https://judge.example/v1", "verifier.endpoint.model=m"}
	apply := func(set ...string) error {
		cfg, err := Load("windtunnel")
		require.NoError(t, err)
		return Apply(&cfg, append(slices.Clone(good), set...)...)
	}
	require.NoError(t, apply("verifier.endpoint.key_env=OPENAI_API_KEY", "verifier.endpoint.timeout=2.5"))
	for _, fault := range []string{"url=ftp://x/v1", "url=", "url=http://", "url=http://me:hunter2@x/v1", "url=http://x/v1?key=hunter2", "model=", "key_env=sk-hunter2", "key_env=AWS_SECRET_ACCESS_KEY",
		"concurrency=-1", "concurrency=2000", "timeout=-1", "connect_timeout=1e9", "attempts=-1"} {
		err := apply("verifier.endpoint." + fault)
		key, _, _ := strings.Cut(fault, "=")
		require.Len(t, Faults(err), 1, fault)
		require.Equal(t, "verifier.endpoint."+key, Faults(err)[0].Field)
		require.NotContains(t, err.Error(), "hunter2", "what may be a secret is not repeated")
	}
	require.ErrorContains(t, apply("verifier.update=ema"), "verifier.endpoint.url: is given, but verifier.update is \"ema\"")
	require.ErrorContains(t, apply("verifier.path=x"), "verifier.path: is given")
}
