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

// forget lets go of the pages read, which would count as this process's memory until the file is closed: a checkpoint is
// read once, front to back. Should they be wanted again they come from the page cache.
func (m mapped) forget(offset int64, n int) {
	page := os.Getpagesize()
	from, to := int(offset)/page*page, (int(offset)+n)/page*page
	if from < to {
		_ = unix.Madvise(m.memory[from:to], unix.MADV_DONTNEED) // a hint
	}
}

func (m mapped) close() error { return unix.Munmap(m.memory) }
