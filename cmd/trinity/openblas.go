package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

//go:embed bench_openblas.py
var openBLASScript string

// errNoOpenBLAS says how to get the reference; the benchmark goes on without it.
var errNoOpenBLAS = errors.New("OpenBLAS was not found, so only our own figures are shown; for the comparison install " +
	"python3 and the Debian package libopenblas0 (any libopenblas.so.0 on the loader's path will do, and so does NumPy)")

// openBLAS is a Python process that times OpenBLAS through ctypes, which keeps our binary free of cgo.
type openBLAS struct {
	config  string // version and build options, as OpenBLAS prints them
	process *python
}

// startOpenBLAS returns errNoOpenBLAS where Python or the library is missing. The process ends with ctx or Close.
func startOpenBLAS(ctx context.Context, interpreter string) (*openBLAS, error) {
	p, greeting, err := startPython(ctx, interpreter, openBLASScript, withoutOpenBLASSettings(os.Environ()))
	if err != nil {
		return nil, errNoOpenBLAS
	}
	config, ok := strings.CutPrefix(greeting, "found ")
	if !ok {
		p.close()
		return nil, errNoOpenBLAS
	}
	return &openBLAS{config, p}, nil
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
	answer, err := b.process.ask(fmt.Sprint(threads, flag[p.transA()], flag[p.transB()], p.M, p.N, p.K, about.Seconds()))
	if err != nil {
		return 0, fmt.Errorf("time OpenBLAS for %dx%dx%d %s: %w", p.M, p.N, p.K, p.Form, err)
	}
	seconds, err := strconv.ParseFloat(answer, 64)
	if err != nil || seconds <= 0 {
		return 0, fmt.Errorf("time OpenBLAS for %dx%dx%d %s: unexpected answer %q", p.M, p.N, p.K, p.Form, answer)
	}
	return seconds, nil
}

// Close ends the process.
func (b *openBLAS) Close() { b.process.close() }
