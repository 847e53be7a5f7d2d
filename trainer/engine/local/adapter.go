package local

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

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

// decoderLinears are the modules that LoRA adapts (Trinity A.2).
var decoderLinears = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

// exportAdapter writes the policy's adapters in float32.
func (e *Engine) exportAdapter(dir string) error {
	base, err := filepath.Abs(e.dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	lora := e.opts.Model.LoRA
	config, err := json.MarshalIndent(adapterConfig{PEFTType: "LORA", TaskType: "CAUSAL_LM", Base: base, Rank: lora.Rank, Alpha: lora.Alpha,
		TargetModules: decoderLinears, ExcludeModules: `.*\bvisual\b.*`, Bias: "none", InferenceMode: true}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, adapterConfigFile), append(config, '\n'), 0o644); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return writeTensors(filepath.Join(dir, adapterWeightsFile), e.adapters.Tensors, safetensors.F32)
}
