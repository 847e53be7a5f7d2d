// Package migrations holds the database's schema, as numbered goose migrations.
package migrations

import "embed"

// FS holds the SQL files.
//
//go:embed *.sql
var FS embed.FS
