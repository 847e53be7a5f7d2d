package imageproc

import (
	"bytes"
	"encoding/binary"
)

// orientation returns the EXIF orientation of a JPEG file, 1 to 8, and 1 for
// any other file or a tag that cannot be read: a photograph with a broken tag
// is still a photograph.
func orientation(file []byte) int {
	if !bytes.HasPrefix(file, []byte("\xff\xd8")) {
		return 1
	}
	b := file[2:]
	for len(b) >= 4 && b[0] == 0xff {
		marker := b[1]
		if marker == 0xff { // fill byte
			b = b[1:]
			continue
		}
		size := int(binary.BigEndian.Uint16(b[2:]))
		const app1, startOfScan = 0xe1, 0xda
		if marker == startOfScan || size < 2 || len(b) < 2+size {
			return 1
		}
		if tiff, ok := bytes.CutPrefix(b[4:2+size], []byte("Exif\x00\x00")); ok && marker == app1 {
			return tiffOrientation(tiff)
		}
		b = b[2+size:]
	}
	return 1
}

// tiffOrientation finds tag 0x112 in the first directory.
func tiffOrientation(b []byte) int {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(b, []byte("II*\x00")):
		order = binary.LittleEndian
	case bytes.HasPrefix(b, []byte("MM\x00*")):
		order = binary.BigEndian
	}
	if order == nil || len(b) < 8 {
		return 1
	}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return 1
	}
	entries := b[at+2:]
	for range order.Uint16(b[at:]) {
		if len(entries) < 12 {
			return 1
		}
		const tag, short = 0x112, 3
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			if v := order.Uint16(entries[8:]); v >= 1 && v <= 8 {
				return int(v)
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// upright undoes an orientation. Orientations 5 to 8 swap the sides.
func (m *RGB) upright(orientation int) *RGB {
	if orientation <= 1 {
		return m
	}
	out := &RGB{Width: m.Width, Height: m.Height, Pix: make([]uint8, len(m.Pix))}
	if orientation >= 5 {
		out.Width, out.Height = m.Height, m.Width
	}
	for y := range out.Height {
		for x := range out.Width {
			sx, sy := x, y // where the pixel was stored
			if orientation >= 5 {
				sx, sy = y, x
			}
			switch orientation {
			case 2, 3, 7, 8:
				sx = m.Width - 1 - sx
			}
			switch orientation {
			case 3, 4, 6, 7:
				sy = m.Height - 1 - sy
			}
			copy(out.Pix[3*(y*out.Width+x):][:3], m.Pix[3*(sy*m.Width+sx):])
		}
	}
	return out
}
