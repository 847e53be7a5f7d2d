package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// prefix is the length of the checksum and its space.
const prefix = 9

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// frame returns the line of r, newline included.
func frame(r *spec.Record) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("00000000 ")
	enc := json.NewEncoder(&b) // ends with the newline
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("record %d (%s): %w", r.Seq, r.Kind, err)
	}
	line := b.Bytes()
	if len(line) > maxLine {
		return nil, fmt.Errorf("record %d (%s) has %d bytes; at most %d fit", r.Seq, r.Kind, len(line), maxLine)
	}
	sum := checksum(line[prefix : len(line)-1])
	hex.Encode(line[:8], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return line, nil
}

var (
	errFrame = errors.New("no checksum at the start of the line")
	errSum   = errors.New("the checksum does not match")
)

// payload checks a line (newline excluded) and returns its JSON.
func payload(line []byte) ([]byte, error) {
	var sum [4]byte
	if len(line) < prefix || line[prefix-1] != ' ' {
		return nil, errFrame
	}
	if _, err := hex.Decode(sum[:], line[:prefix-1]); err != nil {
		return nil, errFrame
	}
	body := line[prefix:]
	want := uint32(sum[0])<<24 | uint32(sum[1])<<16 | uint32(sum[2])<<8 | uint32(sum[3])
	if checksum(body) != want {
		return nil, errSum
	}
	return body, nil
}

// decode reads the record of a line (newline excluded).
func decode(line []byte) (spec.Record, error) {
	var r spec.Record
	body, err := payload(line)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(body, &r)
}

// header is what placing a record needs.
type header struct {
	Seq  uint64    `json:"seq"`
	Kind spec.Kind `json:"kind"`
	Step int       `json:"step"`
}

func decodeHeader(body []byte, h *header) error { return json.Unmarshal(body, h) }
