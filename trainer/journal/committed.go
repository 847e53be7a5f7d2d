package journal

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Committed returns the records that count: those of steps that a step record closed and no later rewind superseded,
// with their checkpoints; run, log and the last end record; neither phases nor rewinds. Order is kept.
func Committed(records []spec.Record) []spec.Record {
	var v view
	for _, r := range records {
		v.add(header{r.Seq, r.Kind, r.Step}, rewindTo(r))
	}
	keep := v.kept()
	var out []spec.Record
	for i, r := range records {
		if keep[i] {
			out = append(out, r)
		}
	}
	return out
}

// ReadCommitted yields Committed of dir's journal in two passes, holding one record at a time.
func ReadCommitted(dir string) iter.Seq2[spec.Record, error] {
	return func(yield func(spec.Record, error) bool) {
		keep, err := committedIndex(dir)
		if err != nil {
			yield(spec.Record{}, err)
			return
		}
		for r, err := range Read(dir, 0) {
			if err == nil && r.Seq > uint64(len(keep)) {
				return // appended since the first pass
			}
			if err == nil && !keep[r.Seq-1] {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// committedIndex says for each sequence number, from 1, whether its record counts.
func committedIndex(dir string) ([]bool, error) {
	s, err := openScanner(dir, Position{})
	if err != nil {
		return nil, err
	}
	defer s.close()
	var v view
	for {
		line, h, err := s.next()
		if errors.Is(err, io.EOF) {
			return v.kept(), nil
		}
		if err != nil {
			return nil, err
		}
		to := 0
		if h.Kind == spec.KindRewind {
			r, err := decode(line)
			if err != nil {
				return nil, fmt.Errorf("journal %q: %w", s.path, err)
			}
			to = rewindTo(r)
		}
		v.add(h, to)
	}
}

func rewindTo(r spec.Record) int {
	if d, ok := r.Data.(*spec.Rewind); ok {
		return d.ToStep
	}
	return 0
}

// view applies commits and rewinds to a list of record headers.
type view struct {
	headers  []header
	rewindTo []int
}

func (v *view) add(h header, rewindTo int) {
	v.headers = append(v.headers, h)
	v.rewindTo = append(v.rewindTo, rewindTo)
}

// kept walks backwards: a step's records count if its commit lies ahead, before any rewind to it or below.
func (v *view) kept() []bool {
	keep := make([]bool, len(v.headers))
	const never = int(^uint(0) >> 1)
	superseded := never // steps from here on are superseded by a later rewind
	committed := map[int]bool{}
	ended := false
	for i := len(v.headers) - 1; i >= 0; i-- {
		h := v.headers[i]
		switch h.Kind {
		case spec.KindRewind:
			superseded = min(superseded, v.rewindTo[i])
		case spec.KindStep:
			keep[i] = h.Step < superseded && !committed[h.Step]
			if keep[i] {
				committed[h.Step] = true
			}
		case spec.KindCandidate, spec.KindJudgement, spec.KindRollout, spec.KindDispute:
			keep[i] = h.Step < superseded && committed[h.Step]
		case spec.KindCheckpoint:
			keep[i] = h.Step < superseded
		case spec.KindEnd:
			keep[i], ended = !ended && superseded == never, true
		case spec.KindRun, spec.KindLog:
			keep[i] = true
		}
	}
	return keep
}
