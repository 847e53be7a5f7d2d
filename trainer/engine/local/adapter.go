package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/model/qwenvl"
	"github.com/trinity-lab/trinity/trainer/safetensors"
)

// The files of an adapter in PEFT's format.
const (
	adapterConfigFile  = "adapter_config.json"
	adapterWeightsFile = "adapter_model.safetensors"
)

// adapterConfig is what PEFT needs in adapter_config.json to load the adapters that this engine trains.
type adapterConfig struct {
	PEFTType       string   `json:"peft_type"`
	TaskType       string   `json:"task_type"`
	Base           string   `json:"base_model_name_or_path"`
	Rank           int      `json:"r"`
	Alpha          float64  `json:"lora_alpha"`
	Dropout        float64  `json:"lora_dropout"`
	TargetModules  []string `json:"target_modules"`
	ExcludeModules string   `json:"exclude_modules"` // Qwen2.5-VL's vision blocks have a gate_proj, too
	Bias           string   `json:"bias"`
	FanInFanOut    bool     `json:"fan_in_fan_out"`
	RSLoRA         bool     `json:"use_rslora"`
	DoRA           bool     `json:"use_dora"`
	ModulesToSave  []string `json:"modules_to_save"`
	InferenceMode  bool     `json:"inference_mode"`
}

// exportAdapter writes the policy's adapters in float32.
func (e *Engine) exportAdapter(dir string) error {
	base, err := filepath.Abs(e.dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	lora := e.opts.Model.LoRA
	config, err := json.MarshalIndent(adapterConfig{PEFTType: "LORA", TaskType: "CAUSAL_LM", Base: base, Rank: lora.Rank, Alpha: lora.Alpha,
		TargetModules: qwenvl.AdaptedModules, ExcludeModules: `.*\bvisual\b.*`, Bias: "none", InferenceMode: true}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, adapterConfigFile), append(config, '\n'), 0o644); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return writeTensors(filepath.Join(dir, adapterWeightsFile), e.adapters.Tensors, safetensors.F32)
}

// adapter is a LoRA adapter read from a folder: factors by their name in this engine's spelling. Modules that it does not
// adapt are absent.
type adapter struct {
	rank    int
	alpha   float64
	tensors map[string][]float32
}

// plainFields of adapter_config.json say nothing that changes what a saved adapter computes, or are checked one by one.
// Any other field must be off: it stands for a variant of LoRA that this engine lacks.
var plainFields = []string{"peft_type", "peft_version", "task_type", "auto_mapping", "base_model_name_or_path", "revision", "inference_mode", "r", "lora_alpha", "lora_dropout",
	"target_modules", "exclude_modules", "bias", "init_lora_weights", "layers_pattern", "loftq_config", "megatron_core", "qalora_group_size"}

// readAdapter reads a LoRA adapter on the decoder linears of the model c, in PEFT's format and in transformers' present
// spelling of the modules or the older one.
func readAdapter(dir string, c *qwenvl.Config) (*adapter, error) {
	fail := func(err error) (*adapter, error) { return nil, fmt.Errorf("adapter %q: %w", dir, err) }
	b, err := os.ReadFile(filepath.Join(dir, adapterConfigFile))
	if err != nil {
		return fail(fmt.Errorf("%w; give a folder in PEFT's format", err))
	}
	a, targeted, err := parseAdapterConfig(b)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", adapterConfigFile, err))
	}
	file, err := safetensors.Open(filepath.Join(dir, adapterWeightsFile))
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	unused := map[string]bool{}
	for _, name := range file.Names() {
		unused[name] = true
	}
	for _, t := range qwenvl.AdapterTensors(*c, a.rank) {
		if !targeted(t.Name) {
			continue
		}
		name, err := find(file, t.Name, t.Shape)
		if err != nil {
			return fail(err)
		}
		if a.tensors[t.Name], err = file.Float32(name); err != nil {
			return fail(err)
		}
		delete(unused, name)
	}
	for _, name := range file.Names() {
		if unused[name] {
			return fail(fmt.Errorf("%s: tensor %s: only the decoder's %s can be adapted, where target_modules names them", adapterWeightsFile, name, strings.Join(qwenvl.AdaptedModules, ", ")))
		}
	}
	if len(a.tensors) == 0 {
		return fail(errors.New("it adapts no module of the decoder"))
	}
	return a, nil
}

// parseAdapterConfig also returns whether target_modules includes the module of an adapter's tensor.
func parseAdapterConfig(b []byte) (*adapter, func(tensor string) bool, error) {
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if v := fields[name]; !slices.Contains(plainFields, name) && !isOff(v) {
			return nil, nil, fmt.Errorf("%s is %v; supported: plain LoRA, without it", name, v)
		}
	}
	if v := fields["peft_type"]; v != "LORA" {
		return nil, nil, fmt.Errorf("peft_type is %v; supported: LORA", v)
	}
	if v := fields["bias"]; v != "none" && v != nil {
		return nil, nil, fmt.Errorf("bias is %v; supported: none", v)
	}
	// PiSSA, OLoRA, CorDA and LoftQ change the base weights on initialisation; their factors mean nothing without that.
	if v, ok := fields["init_lora_weights"].(string); ok && !slices.Contains([]string{"gaussian", "eva", "orthogonal"}, v) {
		return nil, nil, fmt.Errorf("init_lora_weights is %q, which changes the base model; convert it to plain LoRA on saving (path_initial_model_for_weight_conversion)", v)
	}
	rank, alpha := number(fields["r"]), number(fields["lora_alpha"])
	if !(rank >= 1 && rank <= 4096) || rank != math.Trunc(rank) {
		return nil, nil, fmt.Errorf("r is %v; it must be a rank of 1 to 4096", fields["r"])
	}
	if math.IsNaN(alpha) {
		return nil, nil, fmt.Errorf("lora_alpha is %v; it must be a number", fields["lora_alpha"])
	}
	targeted, err := matcher(fields["target_modules"])
	if err != nil {
		return nil, nil, fmt.Errorf("target_modules: %w", err)
	}
	return &adapter{rank: int(rank), alpha: alpha, tensors: map[string][]float32{}}, targeted, nil
}

func isOff(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func number(v any) float64 {
	f, ok := v.(float64)
	if !ok {
		return math.NaN()
	}
	return f
}

// matcher reads target_modules as PEFT does: a list of names that a module's path ends with, or a regular expression for
// the whole path.
func matcher(v any) (func(tensor string) bool, error) {
	var matches func(module string) bool
	switch v := v.(type) {
	case string:
		re, err := regexp.Compile(`^(?:` + v + `)$`)
		if err != nil {
			return nil, err
		}
		matches = re.MatchString
	case []any:
		matches = func(module string) bool {
			return slices.ContainsFunc(v, func(target any) bool { s, ok := target.(string); return ok && strings.HasSuffix("."+module, "."+s) })
		}
	default:
		return nil, fmt.Errorf("is %v; it must be a list of modules or a regular expression", v)
	}
	return func(tensor string) bool {
		for _, name := range spellings(tensor) {
			module, _, _ := strings.Cut(strings.TrimPrefix(name, "base_model.model."), ".lora_")
			if matches(module) {
				return true
			}
		}
		return false
	}, nil
}

// copyTo overwrites the factors of the modules that a adapts; others stay as they are, which is without effect as long as
// their B is zero.
func (a *adapter) copyTo(set *qwenvl.AdapterSet) {
	for _, t := range set.Tensors {
		copy(t.Data, a.tensors[t.Name])
	}
}

// mergeInto adds the adapter to w for good.
func (a *adapter) mergeInto(w *qwenvl.Weights, c qwenvl.Config) {
	set, _ := qwenvl.AttachLoRA(c, w, w.Fork(c, qwenvl.IsAdapted), nil, a.rank, float32(a.alpha/float64(a.rank)), rand.New(rand.NewPCG(0, 0)))
	a.copyTo(set)
	w.MergeLoRA(new(cpu.Gemm))
	w.DetachLoRA()
}
