package safetensors

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"unicode/utf8"
)

// Tensor is a tensor to be written: Data in row-major order, stored as DType,
// which is F32 or BF16 (rounded to nearest, ties to even).
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	Data  []float32
}

// Write stores tensors in the order given, so that equal input gives equal
// bytes. The file appears at path whole or not at all: it is written beside
// it, synced and renamed. Readers that need aligned elements want the F32
// tensors of a mixed file first.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	head, err := encodeHeader(tensors, metadata)
	if err != nil {
		return fmt.Errorf("write safetensors %q: %w", path, err)
	}
	err = replaceFile(path, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		const chunk = 8192 // elements
		buf := make([]byte, 0, 4*chunk)
		for _, t := range tensors {
			for data := t.Data; len(data) > 0; {
				n := min(chunk, len(data))
				if _, err := w.Write(t.DType.encode(buf[:0], data[:n])); err != nil {
					return err
				}
				data = data[n:]
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write safetensors %q: %w", path, err)
	}
	return nil
}

// encodeHeader returns the length prefix and the padded JSON header.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 8))
	b.WriteByte('{')
	if len(metadata) > 0 {
		for k, v := range metadata {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return nil, fmt.Errorf("metadata %q: not UTF-8", k)
			}
		}
		b.WriteString(`"__metadata__":`)
		if err := appendJSON(b, metadata); err != nil {
			return nil, err
		}
	}
	at := uint64(0)
	seen := map[string]bool{"__metadata__": true}
	for _, t := range tensors {
		if seen[t.Name] || !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("tensor %q: name is used twice, reserved or not UTF-8", t.Name)
		}
		seen[t.Name] = true
		if t.DType != F32 && t.DType != BF16 {
			return nil, fmt.Errorf("tensor %q: cannot write dtype %q, only F32 and BF16", t.Name, t.DType)
		}
		if n, ok := product(t.Shape); !ok || n != uint64(len(t.Data)) {
			return nil, fmt.Errorf("tensor %q: shape %v does not hold %d elements", t.Name, t.Shape, len(t.Data))
		}
		if b.Len() > 9 {
			b.WriteByte(',')
		}
		if err := appendJSON(b, t.Name); err != nil {
			return nil, err
		}
		end := at + t.DType.bytes()*uint64(len(t.Data))
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		b.WriteByte(':')
		err := appendJSON(b, struct {
			DType   DType     `json:"dtype"`
			Shape   []int     `json:"shape"`
			Offsets [2]uint64 `json:"data_offsets"`
		}{t.DType, shape, [2]uint64{at, end}})
		if err != nil {
			return nil, err
		}
		at = end
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len()-8 > maxHeader {
		return nil, fmt.Errorf("header of %d bytes exceeds %d", b.Len()-8, maxHeader)
	}
	out := b.Bytes()
	binary.LittleEndian.PutUint64(out, uint64(len(out)-8))
	return out, nil
}

// appendJSON writes v with sorted keys and without HTML escapes.
func appendJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // Encode ends with a newline
	return nil
}

// replaceFile writes a temporary file, syncs it and renames it to path.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename durable, where the system can sync a directory.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && runtime.GOOS != "windows" {
		return err
	}
	return nil
}
