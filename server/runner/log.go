package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/trinity-lab/trinity/server/experiment"
)

// logFile receives what the trainer prints, inside the run directory.
const logFile = "stderr.log"

const (
	maxLogChunk = 256 << 10 // bytes read at once
	maxLogLine  = 4 << 10   // bytes of a line that reach the feed
	maxLogLines = 200       // lines of a chunk that reach the feed; more is a flood, of which the file keeps all
)

// tail moves the log into the feed until ctx ends.
func (s *Supervisor) tail(ctx context.Context, run, dir string) {
	for {
		if err := s.moveLog(ctx, run, dir, false); err != nil && ctx.Err() == nil {
			s.log.Warn("the run's log could not be stored", "run", run, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// moveLog stores all complete lines that are not stored yet; with last set, also an unfinished one.
func (s *Supervisor) moveLog(ctx context.Context, run, dir string, last bool) error {
	from, err := s.store.LogOffset(ctx, run)
	if err != nil {
		return err
	}
	for {
		chunk, err := readLog(dir, from)
		if err != nil || len(chunk) == 0 {
			return err
		}
		if end := bytes.LastIndexByte(chunk, '\n') + 1; end > 0 {
			chunk = chunk[:end]
		} else if !last && len(chunk) < maxLogChunk {
			return nil
		}
		to := from + int64(len(chunk))
		if err := s.store.AppendLog(ctx, run, from, to, logLines(chunk)); err != nil {
			return err
		}
		from = to
	}
}

func readLog(dir string, from int64) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, logFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, maxLogChunk)
	n, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// journalled matches what the trainer's logger prints: it writes the same to the journal, so that the feed has it already.
var journalled = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN) `)

func logLines(chunk []byte) []experiment.LogLine {
	var lines []experiment.LogLine
	left := 0
	for line := range bytes.Lines(chunk) {
		line = bytes.TrimRight(line, "\r\n")
		if i := bytes.LastIndexByte(line, '\r'); i >= 0 { // a progress bar repaints its line
			line = line[i+1:]
		}
		if len(line) == 0 || journalled.Match(line) {
			continue
		}
		if len(lines) >= maxLogLines {
			left++
			continue
		}
		text := strings.ToValidUTF8(string(line[:min(len(line), maxLogLine)]), "\uFFFD")
		lines = append(lines, experiment.LogLine{Level: level(text), Message: text, Source: "stderr"})
	}
	if left > 0 {
		lines = append(lines, experiment.LogLine{Level: "warn", Message: fmt.Sprintf("%d more lines are in the run directory's %s", left, logFile), Source: "stderr"})
	}
	return lines
}

// level guesses how grave a printed line is.
func level(line string) string {
	switch {
	case strings.HasPrefix(line, "trinity: "), strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "), strings.Contains(line, "level=ERROR"):
		return "error"
	}
	return "info"
}

// lastWords is the end of the log, for the reason of a failure.
func lastWords(dir string) string {
	info, err := os.Stat(filepath.Join(dir, logFile))
	if err != nil {
		return ""
	}
	chunk, err := readLog(dir, max(0, info.Size()-8<<10))
	if err != nil {
		return ""
	}
	lines := logLines(chunk)
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].Level == "error" {
			return strings.TrimPrefix(lines[i].Message, "trinity: ")
		}
	}
	if len(lines) > 0 {
		return lines[len(lines)-1].Message
	}
	return ""
}
