package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// longestLine is the largest line of JSON that is read, in bytes.
const longestLine = 16 << 20

// mapLines reads JSON lines and writes handle's result for each, in order; blank lines are skipped. A line that handle
// refuses becomes {"error": ...} in its place, and the returned error, at the end, says how many there were.
func mapLines(c *Context, handle func(line []byte) (any, error)) error {
	out := bufio.NewWriter(c.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	number, failed := 0, 0
	var first error
	err := eachLine(c.Ctx, c.Stdin, func(line []byte, err error) error {
		number++
		if line = bytes.TrimSpace(line); err == nil && len(line) == 0 {
			return nil
		}
		var result any
		if err == nil {
			result, err = handle(line)
		}
		if err != nil {
			failed++
			if first == nil {
				first = fmt.Errorf("line %d: %w", number, err)
			}
			result = map[string]string{"error": fmt.Sprintf("line %d: %v", number, err)}
		}
		if err := encoder.Encode(result); err != nil {
			return err
		}
		return out.Flush()
	})
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d lines were refused, the first being %w; mend them and run those again", failed, number, first)
	}
	return nil
}

// eachLine calls handle for each line of r, without its end; a line that is too long is handed over as an error. It
// returns early when ctx ends, also while r blocks.
func eachLine(ctx context.Context, r io.Reader, handle func(line []byte, err error) error) error {
	type item struct {
		line []byte
		err  error
	}
	items, failed := make(chan item), make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(items)
		in := bufio.NewReaderSize(r, 64<<10)
		for {
			line, tooLong, err := readLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				failed <- fmt.Errorf("read standard input: %w", err)
				return
			}
			if err != nil && len(line) == 0 {
				return
			}
			next := item{line: line}
			if tooLong {
				next = item{err: fmt.Errorf("it is longer than %d MiB; split it", longestLine>>20)}
			}
			select {
			case items <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case next, ok := <-items:
			if !ok {
				select {
				case err := <-failed:
					return err
				default:
					return ctx.Err()
				}
			}
			if err := handle(next.line, next.err); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readLine reads to the end of the line, keeping at most longestLine bytes of it.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > longestLine {
			tooLong = true
			line = append(line[:0], ' ') // not empty: the line is there
		} else if !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// unmarshalObject decodes a JSON object. Its errors name the field and what was expected there.
func unmarshalObject(line []byte, v any) error {
	if len(line) == 0 || line[0] != '{' {
		return fmt.Errorf("a JSON object was expected, not %.40q", line)
	}
	err := json.Unmarshal(line, v)
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		return fmt.Errorf("%s is a %s; a %s was expected", typed.Field, typed.Value, typed.Type)
	}
	if err != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	return nil
}
