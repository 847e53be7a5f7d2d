package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/trinity-lab/trinity/trainer/durable"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Writer appends records; it implements spec.Sink and may be shared by goroutines. One Writer at a time holds a
// journal, across processes.
type Writer struct {
	mu   sync.Mutex
	file *os.File
	pos  Position
	err  error // sticky: after a failed write the file's end is unknown until Open
	now  func() time.Time
	torn int64
}

var _ spec.Sink = (*Writer)(nil)

// ErrExists is wrapped by Create where the directory has a journal already.
var ErrExists = errors.New("the run directory already has a journal; choose another directory, or continue it with: trinity resume")

// ErrLocked is wrapped by Create and Open while another process writes the journal.
var ErrLocked = errors.New("another process is writing this run; stop it first")

// Create starts a journal in dir, which it makes if needed. One without a record, as a process killed at its start leaves
// it, is taken over.
func Create(dir string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	w, err := open(dir, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	_ = durable.SyncDir(dir) // some file systems refuse, which is harmless
	return w, nil
}

// Open continues the journal of dir after its last valid record, cutting off a torn tail (see Torn).
func Open(dir string) (*Writer, error) { return open(dir, 0) }

// Exists says whether dir holds a run: a journal with at least one record, be it damaged.
func Exists(dir string) bool {
	for _, err := range Read(dir, 0) {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return false
}

// open locks the journal and goes to its end. With os.O_CREATE it must hold no record yet.
func open(dir string, create int) (*Writer, error) {
	f, err := os.OpenFile(path(dir), os.O_RDWR|os.O_APPEND|create, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	fail := func(err error) (*Writer, error) {
		f.Close()
		return nil, fmt.Errorf("open journal in %q: %w", dir, err)
	}
	if err := lock(f); err != nil {
		return fail(err)
	}
	pos, torn, err := end(dir)
	if err != nil {
		return fail(err)
	}
	if create != 0 && pos.Seq > 0 {
		return fail(ErrExists)
	}
	if torn > 0 {
		if err := errors.Join(f.Truncate(pos.Offset), f.Sync()); err != nil {
			return fail(err)
		}
	}
	return &Writer{file: f, pos: pos, now: time.Now, torn: torn}, nil
}

// end finds the place behind the last valid record and the bytes of torn tail there.
func end(dir string) (Position, int64, error) {
	s, err := openScanner(dir, Position{})
	if err != nil {
		return Position{}, 0, err
	}
	defer s.close()
	for {
		if _, _, err := s.next(); errors.Is(err, io.EOF) {
			return s.pos, s.torn, nil
		} else if err != nil {
			return Position{}, 0, err
		}
	}
}

// Torn is the number of bytes that Open cut off.
func (w *Writer) Torn() int64 { return w.torn }

// Position is the place behind the last record appended.
func (w *Writer) Position() Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pos
}

// Append writes one record, assigning its sequence number and time. After an error the Writer refuses further records.
func (w *Writer) Append(kind spec.Kind, step int, data any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	r := spec.Record{Seq: w.pos.Seq + 1, Kind: kind, Step: step, Time: w.now().UTC(), Data: data}
	line, err := frame(&r)
	if err != nil {
		return fmt.Errorf("append to journal: %w", err) // nothing was written: not sticky
	}
	if _, err := w.file.Write(line); err != nil {
		w.err = fmt.Errorf("append to journal: %w; free disk space, then: trinity resume", err)
		return w.err
	}
	if commits(kind) {
		if err := w.file.Sync(); err != nil {
			w.err = fmt.Errorf("sync journal: %w", err)
			return w.err
		}
	}
	w.pos = Position{r.Seq, w.pos.Offset + int64(len(line)), checksum(line[prefix : len(line)-1])}
	return nil
}

// commits says whether a record must be on disk before training goes on.
func commits(kind spec.Kind) bool {
	switch kind {
	case spec.KindRun, spec.KindStep, spec.KindCheckpoint, spec.KindRewind, spec.KindEnd:
		return true
	}
	return false
}

// Close syncs and closes the file.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, os.ErrClosed) {
		return nil
	}
	err := errors.Join(w.file.Sync(), w.file.Close())
	w.err = fmt.Errorf("append to journal: %w", os.ErrClosed)
	return err
}
