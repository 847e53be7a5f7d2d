package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed bench_openblas.py
var openBLASScript string

// errNoOpenBLAS says how to get the reference; the benchmark goes on without it.
var errNoOpenBLAS = errors.New("OpenBLAS was not found, so only our own figures are shown; for the comparison install " +
	"python3 and the Debian package libopenblas0 (any libopenblas.so.0 on the loader's path will do)")

// openBLAS is a Python process that times OpenBLAS through ctypes, which keeps our binary free of cgo.
type openBLAS struct {
	config string // version and build options, as OpenBLAS prints them
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
}

// startOpenBLAS returns errNoOpenBLAS where Python or the library is missing. The process ends with ctx or Close.
func startOpenBLAS(ctx context.Context) (*openBLAS, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, errNoOpenBLAS
	}
	cmd := exec.CommandContext(ctx, python, "-c", openBLASScript)
	cmd.Env = withoutOpenBLASSettings(os.Environ())
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start OpenBLAS benchmark: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start OpenBLAS benchmark: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start OpenBLAS benchmark: %w", err)
	}
	b := &openBLAS{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if b.out.Scan() {
		if config, ok := strings.CutPrefix(b.out.Text(), "found "); ok {
			b.config = config
			return b, nil
		}
	}
	b.Close()
	return nil, errNoOpenBLAS
}

// withoutOpenBLASSettings drops the variables by which an environment may slow OpenBLAS (a forced core type, a wrong
// cache size, a cap on threads), so that the reference runs at its best.
func withoutOpenBLASSettings(env []string) []string {
	var kept []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "OPENBLAS_") || name == "GOTO_NUM_THREADS" || name == "OMP_NUM_THREADS" {
			continue
		}
		kept = append(kept, entry)
	}
	return kept
}

// time returns the seconds one product takes, the best of four parts of the time given.
func (b *openBLAS) time(p product, threads int, about time.Duration) (float64, error) {
	flag := map[bool]int{true: 1}
	if _, err := fmt.Fprintln(b.in, threads, flag[p.transA()], flag[p.transB()], p.M, p.N, p.K, about.Seconds()); err != nil {
		return 0, fmt.Errorf("ask OpenBLAS for %dx%dx%d: %w", p.M, p.N, p.K, err)
	}
	if !b.out.Scan() {
		return 0, fmt.Errorf("OpenBLAS stopped while timing %dx%dx%d %s", p.M, p.N, p.K, p.Form)
	}
	seconds, err := strconv.ParseFloat(b.out.Text(), 64)
	if err != nil || seconds <= 0 {
		return 0, fmt.Errorf("time OpenBLAS for %dx%dx%d: unexpected answer %q", p.M, p.N, p.K, b.out.Text())
	}
	return seconds, nil
}

// Close ends the process; it leaves when its input does.
func (b *openBLAS) Close() {
	b.in.Close()
	_ = b.cmd.Wait() // a killed or failed child has nothing left to say
}
