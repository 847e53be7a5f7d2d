package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// encode marshals v for a jsonb column. NUL, which a model may write and jsonb can't hold, becomes U+FFFD.
func encode(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(withoutNUL(bytes.TrimSuffix(b.Bytes(), []byte("\n")))), nil
}

var escapedNUL = []byte(`\u0000`)

// withoutNUL replaces the escape of NUL in JSON, but not a backslash followed by "u0000", which is written \\u0000.
func withoutNUL(b []byte) []byte {
	if !bytes.Contains(b, escapedNUL) {
		return b
	}
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(b[i:], escapedNUL) {
			copy(b[i:], `\ufffd`)
		}
		i++
	}
	return b
}

// text makes a string storable in a text column.
func text(s string) string {
	return string(bytes.ToValidUTF8(bytes.ReplaceAll([]byte(s), []byte{0}, []byte("\uFFFD")), []byte("\uFFFD")))
}
