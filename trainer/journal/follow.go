package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// FollowOptions tune Follow; zero values choose the defaults.
type FollowOptions struct {
	Poll  time.Duration // how often the file is looked at when idle; default 100 ms
	Batch int           // most records in one call; default 500
	Idle  func() error  // called after each look that found nothing, such as to notice a dead writer; an error ends Follow
}

// ErrDiverged is returned by Follow where the journal no longer holds the record that the reader stopped at: a power
// failure can take records that were read before they were on the disk. The reader must start again from the zero Position.
var ErrDiverged = errors.New("the journal does not continue what was read from it before; read it again from the start")

// Follow gives fn the records behind after, as they appear, in batches with the position behind each batch. It waits
// for a journal that does not exist yet. It returns fn's or Idle's first error, damage, ErrDiverged, or ctx's error.
// Storing the position in the same transaction as the batch makes the reader resume exactly once.
func Follow(ctx context.Context, dir string, after Position, opt FollowOptions, fn func(batch []spec.Record, behind Position) error) error {
	if opt.Poll <= 0 {
		opt.Poll = 100 * time.Millisecond
	}
	if opt.Batch <= 0 {
		opt.Batch = 500
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	located := after.Seq == 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		batch, err := follow(dir, &after, &located, opt.Batch, fn)
		if err != nil {
			return err
		}
		wait := time.Duration(0)
		if batch == 0 {
			wait = opt.Poll
			if opt.Idle != nil {
				if err := opt.Idle(); err != nil {
					return err
				}
			}
		}
		timer.Reset(wait)
	}
}

// follow hands over at most one batch and moves after behind it.
func follow(dir string, after *Position, located *bool, most int, fn func([]spec.Record, Position) error) (int, error) {
	s, err := openScanner(dir, Position{})
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer s.close()
	if err := s.skipTo(after, *located); err != nil {
		return 0, err
	}
	*located = true
	var batch []spec.Record
	for len(batch) < most {
		line, _, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		r, err := decode(line)
		if err != nil {
			return 0, fmt.Errorf("journal %q: %w", s.path, err)
		}
		batch = append(batch, r)
	}
	if len(batch) == 0 {
		return 0, nil
	}
	if err := fn(batch, s.pos); err != nil {
		return 0, err
	}
	*after = s.pos
	return len(batch), nil
}

// skipTo moves to a position: straight to its offset once it is known to fit the file, else by reading up to its record.
func (s *scanner) skipTo(to *Position, located bool) error {
	if located {
		info, err := s.file.Stat()
		if err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		if info.Size() < to.Offset {
			return ErrDiverged
		}
		if _, err := s.file.Seek(to.Offset, io.SeekStart); err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		s.r.Reset(s.file)
		s.pos = *to
		return nil
	}
	for s.pos.Seq < to.Seq {
		if _, _, err := s.next(); errors.Is(err, io.EOF) {
			return ErrDiverged
		} else if err != nil {
			return err
		}
	}
	if to.Sum != 0 && to.Sum != s.pos.Sum {
		return ErrDiverged
	}
	*to = s.pos
	return nil
}
