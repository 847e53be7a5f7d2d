// Package journal keeps a run's records in an append-only file in its run directory.
//
// The file, journal.jsonl, holds one record a line: the CRC-32C of the JSON in eight hexadecimal digits, a space, the
// JSON of a spec.Record, a newline. Sequence numbers count from 1 without gaps. Each record reaches the file in one
// write, so a reader that follows the file sees it at once and a killed process loses nothing that it appended; records
// that commit something (run, step, checkpoint, rewind, end) are also synced to the disk before Append returns.
//
// What a crash can leave is an unreadable tail: bytes after the last valid record with no valid record behind them.
// Open cuts it off. Unreadable bytes in front of a valid record are damage, reported as a CorruptError.
package journal

import (
	"fmt"
	"path/filepath"
)

// FileName is the journal's name inside a run directory.
const FileName = "journal.jsonl"

// maxLine bounds one framed record, bytes; a longer one is refused by Append and treated as damage by readers.
const maxLine = 64 << 20

// CorruptError reports a damaged journal: valid records follow unreadable bytes, or sequence numbers jump.
type CorruptError struct {
	Path   string
	Offset int64 // of the first unreadable byte
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal %q is damaged at byte %d: %s; restore the file from a copy, or keep what comes before with: head -c %d",
		e.Path, e.Offset, e.Reason, e.Offset)
}

func path(dir string) string { return filepath.Join(dir, FileName) }
