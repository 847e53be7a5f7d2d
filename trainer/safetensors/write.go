package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/trinity-lab/trinity/trainer/durable"
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
	err = durable.WriteFile(path, func(w io.Writer) error {
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
