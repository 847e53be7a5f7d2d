package configs

import "embed"

// Models holds model/NAME: checkpoints small enough to ship, in Hugging Face layout.
//
//go:embed model/*
var Models embed.FS
