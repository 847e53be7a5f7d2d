package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
)

// python is a Python process that times a reference implementation: it reads a request a line and answers each with a
// line. What we compare ourselves with stays out of our binary.
type python struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startPython runs a script and reads its first line. The process ends with ctx or close.
func startPython(ctx context.Context, interpreter, script string, env []string) (p *python, greeting string, err error) {
	cmd := exec.CommandContext(ctx, interpreter, "-c", script)
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	p = &python{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if !p.out.Scan() {
		p.close()
		return nil, "", fmt.Errorf("%s ended without a word", interpreter)
	}
	return p, p.out.Text(), nil
}

// ask sends a line and returns the answer.
func (p *python) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return "", err
	}
	if !p.out.Scan() {
		return "", fmt.Errorf("%s stopped without an answer", p.cmd.Path)
	}
	return p.out.Text(), nil
}

// close ends the process; it leaves when its input does.
func (p *python) close() {
	p.in.Close()
	_ = p.cmd.Wait() // a killed or failed child has nothing left to say
}
