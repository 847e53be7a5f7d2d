package safetensors

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

type mapped struct{ memory }

// newSource maps the file and closes it: the mapping outlives the descriptor.
func newSource(f *os.File, size int64) (source, error) {
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map into memory: %w", err)
	}
	return mapped{b}, nil
}

func (m mapped) close() error { return unix.Munmap(m.memory) }
