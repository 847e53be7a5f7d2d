package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// progressBar draws one line that is redrawn in place on a terminal, and now and then a line of its own elsewhere.
type progressBar struct {
	out  io.Writer
	last time.Time
	open bool
}

func (b *progressBar) show(done, total int, text string) {
	terminal := isTerminal(b.out)
	every := 200 * time.Millisecond
	if !terminal {
		every = 30 * time.Second
	}
	if time.Since(b.last) < every && done < total {
		return
	}
	b.last = time.Now()
	const width = 24
	filled := width * done / max(1, total)
	line := fmt.Sprintf("[%s%s] %d/%d  %s", strings.Repeat("#", filled), strings.Repeat(".", width-filled), done, total, text)
	if terminal {
		fmt.Fprintf(b.out, "\r\x1b[K%s", line)
		b.open = true
		return
	}
	fmt.Fprintln(b.out, line)
}

// end leaves the cursor on a fresh line.
func (b *progressBar) end() {
	if b.open {
		fmt.Fprintln(b.out)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
