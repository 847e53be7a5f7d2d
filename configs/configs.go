// Package configs embeds the files that ship inside the binary.
package configs

import "embed"

// Tables holds tables/*.csv, the public tables from which the wind tunnel's figures are drawn.
//
//go:embed tables/*.csv
var Tables embed.FS
