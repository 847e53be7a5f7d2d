package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is the element type of a stored tensor, spelt as in the file header.
type DType string

// The floating-point types that are converted to float32.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

// IsFloat says whether the type can be read as float32.
func (d DType) IsFloat() bool { return d == F32 || d == F16 || d == BF16 }

// bytes returns the size of one element, or 0 for an unknown type. Types that
// cannot be read as float32 are known too: their size is needed to validate a
// file that also holds, say, an integer buffer.
func (d DType) bytes() uint64 {
	switch d {
	case "F64", "I64", "U64":
		return 8
	case F32, "I32", "U32":
		return 4
	case F16, BF16, "I16", "U16":
		return 2
	case "BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0":
		return 1
	}
	return 0
}

// decode converts little-endian elements of type d in src to dst. len(src)
// must be len(dst) times the element size.
func (d DType) decode(dst []float32, src []byte) error {
	switch d {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = halfToFloat(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		return fmt.Errorf("dtype %s cannot be read as float32: convert the checkpoint to F32, F16 or BF16", d)
	}
	return nil
}

// encode appends src as elements of type d (F32 or BF16).
func (d DType) encode(dst []byte, src []float32) []byte {
	if d == BF16 {
		for _, v := range src {
			dst = binary.LittleEndian.AppendUint16(dst, floatToBF16(v))
		}
		return dst
	}
	for _, v := range src {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}

// floatToBF16 rounds to nearest, ties to even. A NaN stays a NaN (made quiet,
// since a signalling one may have all its payload in the dropped bits).
func floatToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + (b>>16)&1) >> 16)
}

func halfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24, exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
