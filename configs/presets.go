package configs

import "embed"

// Presets holds presets/NAME.yaml: complete run configurations.
//
//go:embed presets/*.yaml
var Presets embed.FS
