package configs

import "embed"

// Prompts holds prompts/NAME.yaml: the templates of every role.
//
//go:embed prompts/*.yaml
var Prompts embed.FS
