package journal

import (
	"errors"
	"fmt"
	"io"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Summary describes a readable journal.
type Summary struct {
	Records   uint64            `json:"records"`
	Bytes     int64             `json:"bytes"` // of valid records
	Torn      int64             `json:"torn"`  // unreadable bytes behind them, cut off at the next resume
	Steps     int               `json:"steps"` // committed
	Kinds     map[spec.Kind]int `json:"kinds"`
	Completed bool              `json:"completed"` // the last record is an end with status completed
}

// Verify reads every record of dir in full. The error is a *CorruptError where bytes are damaged.
func Verify(dir string) (Summary, error) {
	sum := Summary{Kinds: map[spec.Kind]int{}}
	s, err := openScanner(dir, Position{})
	if err != nil {
		return sum, err
	}
	defer s.close()
	for {
		line, h, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sum, err
		}
		r, err := decode(line)
		if err != nil {
			return sum, fmt.Errorf("journal %q: %w", s.path, err)
		}
		sum.Records, sum.Bytes = s.pos.Seq, s.pos.Offset
		sum.Kinds[h.Kind]++
		last, ok := r.Data.(*spec.End)
		sum.Completed = ok && last.Status == "completed"
	}
	sum.Torn = s.torn
	keep, err := committedIndex(dir)
	if err != nil {
		return sum, err
	}
	sum.Steps, err = countSteps(dir, keep)
	return sum, err
}

func countSteps(dir string, keep []bool) (int, error) {
	s, err := openScanner(dir, Position{})
	if err != nil {
		return 0, err
	}
	defer s.close()
	n := 0
	for {
		_, h, err := s.next()
		if errors.Is(err, io.EOF) || h.Seq > uint64(len(keep)) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if h.Kind == spec.KindStep && keep[h.Seq-1] {
			n++
		}
	}
}
