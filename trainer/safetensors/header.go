package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxHeader is the limit that the reference reader sets, in bytes.
const maxHeader = 100_000_000

// ErrFormat is wrapped by every error about the contents of a file.
var ErrFormat = errors.New("not a valid safetensors file")

func formatError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

type entry struct {
	dtype      DType
	shape      []int
	count      int    // elements
	begin, end uint64 // bytes, within the data section
}

type header struct {
	names    []string // by offset in the file
	entries  map[string]entry
	metadata map[string]string
}

// headerLength checks the first eight bytes of a file of size bytes.
func headerLength(prefix []byte, size int64) (int64, error) {
	if size < 8 || len(prefix) < 8 {
		return 0, formatError("it has %d bytes, fewer than the 8 of the header length (download cut short?)", size)
	}
	n := binary.LittleEndian.Uint64(prefix)
	if n > maxHeader {
		return 0, formatError("header length %d exceeds %d bytes (a Git LFS pointer or another format?)", n, maxHeader)
	}
	if n < 2 || int64(n) > size-8 {
		return 0, formatError("header length %d does not fit a file of %d bytes (download cut short?)", n, size)
	}
	return int64(n), nil
}

// parseHeader reads the JSON header; dataLen is the number of bytes after it.
func parseHeader(text []byte, dataLen uint64) (*header, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, formatError("the header does not start with '{'")
	}
	if !utf8.Valid(text) {
		return nil, formatError("the header is not UTF-8")
	}
	p := headerParser{dec: json.NewDecoder(bytes.NewReader(text))}
	p.dec.UseNumber()
	h := &header{entries: map[string]entry{}}
	seenMetadata := false
	err := p.object("header", func(key string) (err error) {
		if key == "__metadata__" {
			if seenMetadata {
				return formatError("duplicate key %q", key)
			}
			seenMetadata = true
			h.metadata, err = p.metadata()
			return err
		}
		if _, ok := h.entries[key]; ok {
			return formatError("duplicate tensor %q", key)
		}
		e, err := p.entry(key)
		if err != nil {
			return err
		}
		h.entries[key] = e
		h.names = append(h.names, key)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range text[p.dec.InputOffset():] {
		if c != ' ' {
			return nil, formatError("byte %#02x after the header's JSON: only spaces may pad it", c)
		}
	}
	return h, h.checkLayout(dataLen)
}

// checkLayout orders the tensors by offset and refuses holes, overlaps and a
// data section of another length.
func (h *header) checkLayout(dataLen uint64) error {
	slices.SortStableFunc(h.names, func(a, b string) int {
		x, y := h.entries[a], h.entries[b]
		// By end too: an empty tensor shares its offset with its successor.
		return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(x.end, y.end))
	})
	at := uint64(0)
	for _, name := range h.names {
		e := h.entries[name]
		switch {
		case e.begin > at:
			return formatError("tensor %q: a hole before it, bytes %d to %d belong to no tensor", name, at, e.begin)
		case e.begin < at:
			return formatError("tensor %q: it starts at byte %d, inside the tensor before it, which ends at %d", name, e.begin, at)
		}
		at = e.end
	}
	if at != dataLen {
		return formatError("the tensors end at byte %d, the data at byte %d (download cut short or extended?)", at, dataLen)
	}
	return nil
}

// headerParser walks the JSON token by token, since encoding/json into structs
// would accept duplicate and case-folded keys.
type headerParser struct{ dec *json.Decoder }

func (p headerParser) delim(what string, want json.Delim) error {
	t, err := p.dec.Token()
	if err != nil {
		return formatError("%s: %v", what, err)
	}
	if t != want {
		return formatError("%s: found %v where %q should be", what, t, want.String())
	}
	return nil
}

func (p headerParser) object(what string, member func(key string) error) error {
	if err := p.delim(what, '{'); err != nil {
		return err
	}
	for p.dec.More() {
		key, err := p.string(what)
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
	}
	return p.delim(what, '}')
}

func (p headerParser) string(what string) (string, error) {
	t, err := p.dec.Token()
	if err != nil {
		return "", formatError("%s: %v", what, err)
	}
	s, ok := t.(string)
	if !ok {
		return "", formatError("%s: found %v where a string should be", what, t)
	}
	return s, nil
}

// numbers reads an array of at most limit unsigned integers.
func (p headerParser) numbers(what string, limit int) ([]uint64, error) {
	if err := p.delim(what, '['); err != nil {
		return nil, err
	}
	var out []uint64
	for p.dec.More() {
		t, err := p.dec.Token()
		if err != nil {
			return nil, formatError("%s: %v", what, err)
		}
		n, ok := t.(json.Number)
		if !ok {
			return nil, formatError("%s: found %v where an integer should be", what, t)
		}
		v, err := strconv.ParseUint(n.String(), 10, 63)
		if err != nil {
			return nil, formatError("%s: %q is not an integer of 0 to 2^63-1", what, n)
		}
		if len(out) == limit {
			return nil, formatError("%s: more than %d numbers", what, limit)
		}
		out = append(out, v)
	}
	return out, p.delim(what, ']')
}

func (p headerParser) metadata() (map[string]string, error) {
	m := map[string]string{}
	err := p.object("__metadata__", func(key string) error {
		if _, ok := m[key]; ok {
			return formatError("__metadata__: duplicate key %q", key)
		}
		v, err := p.string("__metadata__ " + strconv.Quote(key))
		m[key] = v
		return err
	})
	return m, err
}

func (p headerParser) entry(name string) (entry, error) {
	var e entry
	var shape, offsets []uint64
	seen := map[string]bool{}
	what := "tensor " + strconv.Quote(name)
	err := p.object(what, func(key string) (err error) {
		if seen[key] {
			return formatError("%s: duplicate key %q", what, key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			var s string
			s, err = p.string(what + " dtype")
			e.dtype = DType(s)
		case "shape":
			shape, err = p.numbers(what+" shape", 64)
		case "data_offsets":
			offsets, err = p.numbers(what+" data_offsets", 2)
		default:
			err = formatError("%s: unknown key %q", what, key)
		}
		return err
	})
	if err != nil {
		return entry{}, err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return entry{}, formatError("%s: %s is missing", what, key)
		}
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] {
		return entry{}, formatError("%s: data_offsets %v should be [begin, end]", what, offsets)
	}
	e.begin, e.end = offsets[0], offsets[1]
	size := e.dtype.bytes()
	if size == 0 {
		return entry{}, formatError("%s: unknown dtype %q", what, e.dtype)
	}
	e.shape = make([]int, len(shape))
	for i, d := range shape {
		e.shape[i] = int(d)
	}
	count, ok := product(e.shape)
	hi, length := bits.Mul64(count, size)
	if !ok || hi != 0 || length != e.end-e.begin {
		return entry{}, formatError("%s: shape %v of %s does not fill its %d bytes", what, e.shape, e.dtype, e.end-e.begin)
	}
	e.count = int(count)
	return e, nil
}

// product returns the number of elements, false on overflow or a negative size.
func product(shape []int) (uint64, bool) {
	n := uint64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > 1<<62 {
			return 0, false
		}
		n = lo
	}
	return n, true
}
