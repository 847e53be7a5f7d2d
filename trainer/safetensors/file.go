// Package safetensors reads and writes tensors in the safetensors format:
// eight bytes of little-endian header length, a JSON header, then the tensors'
// bytes without gaps. Floating-point tensors are converted to float32.
//
// Files are validated whole before a tensor is read, since checkpoints come
// from strangers; see ErrFormat.
package safetensors

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
)

// ErrNotFound is returned for a tensor that a file or set does not hold.
var ErrNotFound = errors.New("no such tensor")

// Info describes a stored tensor. Shape is empty for a scalar.
type Info struct {
	DType DType
	Shape []int
	File  string // path of the file that holds it
}

// source is the byte storage of a file. A view may alias the storage; forget says that one is done with.
type source interface {
	view(offset int64, n int) ([]byte, error)
	forget(offset int64, n int)
	close() error
}

// chunk is the number of elements that are converted at a time. It bounds the memory that reading takes besides its result.
const chunk = 1 << 18

// File is an open safetensors file. It may be used by several goroutines; a
// mapped file must not be shortened by others while it is open.
type File struct {
	path   string
	header *header
	data   int64 // offset of the data section

	mu  sync.RWMutex // held for reading while src is in use, for writing by Close
	src source       // nil once closed
}

// Open maps and validates a file. Errors about its contents wrap ErrFormat.
func Open(path string) (*File, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open safetensors %q: %w", path, err)
	}
	return f, nil
}

func open(path string) (*File, error) {
	osFile, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	st, err := osFile.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil && st.Size() < 8 {
		_, err = headerLength(nil, st.Size())
	}
	if err == nil && st.Size() > math.MaxInt {
		err = errors.New("file too large for this platform")
	}
	if err != nil {
		osFile.Close()
		return nil, err
	}
	src, err := newSource(osFile, st.Size())
	if err != nil {
		return nil, err
	}
	f, err := newFile(path, src, st.Size())
	if err != nil {
		src.close()
		return nil, err
	}
	return f, nil
}

func newFile(path string, src source, size int64) (*File, error) {
	prefix, err := src.view(0, int(min(size, 8)))
	if err != nil {
		return nil, err
	}
	n, err := headerLength(prefix, size)
	if err != nil {
		return nil, err
	}
	text, err := src.view(8, int(n))
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(text, uint64(size-8-n))
	if err != nil {
		return nil, err
	}
	return &File{path: path, header: h, data: 8 + n, src: src}, nil
}

// Names lists the tensors in the order of their bytes.
func (f *File) Names() []string { return slices.Clone(f.header.names) }

// Metadata returns a copy of the file's free-form strings.
func (f *File) Metadata() map[string]string { return maps.Clone(f.header.metadata) }

// Info describes a tensor, false if there is none of that name.
func (f *File) Info(name string) (Info, bool) {
	e, ok := f.header.entries[name]
	return Info{DType: e.dtype, Shape: slices.Clone(e.shape), File: f.path}, ok
}

// Float32 returns a tensor's elements in row-major order, converted from F32,
// F16 or BF16. It returns ErrNotFound for an unknown name.
func (f *File) Float32(name string) ([]float32, error) {
	e, err := f.lookup(name)
	if err != nil {
		return nil, err
	}
	// Refused before allocating: an 8-bit tensor would need four times its size.
	if err := e.dtype.decode(nil, nil); err != nil {
		return nil, fmt.Errorf("read tensor %q of %q: %w", name, f.path, err)
	}
	dst := make([]float32, e.count)
	return dst, f.read(name, e, dst)
}

// ReadInto is Float32 into dst, whose length must be the number of elements.
func (f *File) ReadInto(name string, dst []float32) error {
	e, err := f.lookup(name)
	if err != nil {
		return err
	}
	if len(dst) != e.count {
		return fmt.Errorf("read tensor %q of %q: it has shape %v, %d elements, but room was made for %d",
			name, f.path, e.shape, e.count, len(dst))
	}
	return f.read(name, e, dst)
}

func (f *File) lookup(name string) (entry, error) {
	e, ok := f.header.entries[name]
	if !ok {
		return entry{}, fmt.Errorf("read tensor %q of %q: %w", name, f.path, ErrNotFound)
	}
	return e, nil
}

func (f *File) read(name string, e entry, dst []float32) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	err := os.ErrClosed
	if f.src != nil {
		err = f.decode(e, dst)
	}
	if err != nil {
		return fmt.Errorf("read tensor %q of %q: %w", name, f.path, err)
	}
	return nil
}

func (f *File) decode(e entry, dst []float32) error {
	width := int(e.dtype.bytes())
	offset := f.data + int64(e.begin)
	for {
		n := min(len(dst), chunk)
		raw, err := f.src.view(offset, n*width)
		if err != nil {
			return err
		}
		if err := e.dtype.decode(dst[:n], raw); err != nil {
			return err
		}
		f.src.forget(offset, n*width)
		if dst = dst[n:]; len(dst) == 0 {
			return nil
		}
		offset += int64(n * width)
	}
}

// Close unmaps the file. Reads after it fail; slices returned before it stay
// valid. Closing twice is harmless.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.src == nil {
		return nil
	}
	err := f.src.close()
	f.src = nil
	return err
}

// memory is a source held in memory.
type memory []byte

func (m memory) view(offset int64, n int) ([]byte, error) { return m[offset:][:n], nil }
func (m memory) forget(int64, int)                        {}
func (m memory) close() error                             { return nil }
