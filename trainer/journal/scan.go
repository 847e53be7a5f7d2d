package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Position is a place between two records: Seq is the last record before it, Offset its byte in the file.
// The zero Position is the start. An Offset of 0 with a Seq above 0 asks the reader to look for the place. Sum is the
// last record's checksum; where it is not 0 a resuming reader compares it.
type Position struct {
	Seq    uint64 `json:"seq"`
	Offset int64  `json:"offset"`
	Sum    uint32 `json:"sum"`
}

// scanner reads framed lines and tells a torn tail from damage.
type scanner struct {
	path string
	file *os.File
	r    *bufio.Reader
	pos  Position // after the last record returned
	torn int64    // bytes of unreadable tail, once next has returned io.EOF
}

// openScanner starts at from, which must lie on a record boundary.
func openScanner(dir string, from Position) (*scanner, error) {
	f, err := os.Open(path(dir))
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if _, err := f.Seek(from.Offset, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &scanner{path: f.Name(), file: f, r: bufio.NewReaderSize(f, 1<<16), pos: from}, nil
}

func (s *scanner) close() { s.file.Close() }

// next returns the following record's line without its newline, valid until the next call. It ends with io.EOF
// at the end or at a torn tail, and with a CorruptError at damage.
func (s *scanner) next() ([]byte, header, error) {
	line, err := s.line()
	if err != nil {
		if errors.Is(err, io.EOF) {
			s.torn = int64(len(line))
		}
		return nil, header{}, err
	}
	var h header
	body, err := payload(line[:len(line)-1])
	if err == nil {
		err = decodeHeader(body, &h)
	}
	if err != nil {
		return nil, header{}, s.unreadable(int64(len(line)), err)
	}
	if h.Seq != s.pos.Seq+1 {
		return nil, header{}, s.corrupt(fmt.Sprintf("record %d follows record %d", h.Seq, s.pos.Seq))
	}
	s.pos = Position{h.Seq, s.pos.Offset + int64(len(line)), checksum(body)}
	return line[:len(line)-1], h, nil
}

// line reads through the next newline; with io.EOF it returns what was left without one.
func (s *scanner) line() ([]byte, error) {
	line, err := s.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, wrapRead(err)
	}
	long := append([]byte(nil), line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = s.r.ReadSlice('\n')
		if len(long)+len(line) <= maxLine { // beyond it only the length matters, and the checksum will fail
			long = append(long, line...)
		}
	}
	return long, wrapRead(err)
}

func wrapRead(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("read journal: %w", err)
}

// unreadable decides about a bad line of n bytes: io.EOF if no valid record follows, else a CorruptError.
func (s *scanner) unreadable(n int64, reason error) error {
	for {
		line, err := s.line()
		n += int64(len(line))
		if errors.Is(err, io.EOF) {
			s.torn = n
			return io.EOF
		}
		if err != nil {
			return err
		}
		if _, err := payload(line[:len(line)-1]); err == nil {
			return s.corrupt(reason.Error())
		}
	}
}

func (s *scanner) corrupt(reason string) error {
	return &CorruptError{Path: s.path, Offset: s.pos.Offset, Reason: reason}
}

// Read yields the records of dir with a sequence number above afterSeq, in order. A torn tail ends it silently;
// damage or an I/O error is yielded once, with an empty record.
func Read(dir string, afterSeq uint64) iter.Seq2[spec.Record, error] {
	return func(yield func(spec.Record, error) bool) {
		s, err := openScanner(dir, Position{})
		if err != nil {
			yield(spec.Record{}, err)
			return
		}
		defer s.close()
		for {
			line, h, err := s.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(spec.Record{}, err)
				return
			}
			if h.Seq <= afterSeq {
				continue
			}
			r, err := decode(line)
			if err != nil {
				yield(spec.Record{}, fmt.Errorf("journal %q: %w", s.path, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}
