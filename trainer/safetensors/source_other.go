//go:build !linux

package safetensors

import (
	"io"
	"os"
)

// reader reads ranges on demand, where memory mapping is not used.
type reader struct{ file *os.File }

func newSource(f *os.File, _ int64) (source, error) { return reader{f}, nil }

func (r reader) view(offset int64, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(io.NewSectionReader(r.file, offset, int64(n)), b)
	return b, err
}

func (r reader) forget(int64, int) {}

func (r reader) close() error { return r.file.Close() }
