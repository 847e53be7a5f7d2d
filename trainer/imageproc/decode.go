// Package imageproc turns an image file into the patches that a Qwen-VL vision
// encoder reads: decoding, resizing and normalising with the results of Pillow
// and the reference image processor.
package imageproc

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"
)

// RGB is an image of 8 bits a channel: Pix is [Height, Width, 3].
type RGB struct {
	Width, Height int
	Pix           []uint8
}

// DefaultMaxBytes is the largest file that Decode reads unless told otherwise.
const DefaultMaxBytes = 64 << 20

// Limits bound what Decode accepts; a zero field takes the default.
type Limits struct {
	MaxBytes  int64 // of the file; DefaultMaxBytes
	MaxPixels int64 // width times height, before any is decoded; 2^26
	MaxSide   int   // pixels; 65500, which is JPEG's own limit
}

func (l Limits) withDefaults() Limits {
	if l.MaxBytes == 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxPixels == 0 {
		l.MaxPixels = 1 << 26
	}
	if l.MaxSide == 0 {
		l.MaxSide = 65500
	}
	return l
}

// Errors that Decode wraps.
var (
	ErrTooLarge = errors.New("image too large")
	ErrFormat   = errors.New("not a PNG, JPEG, GIF or WebP image")
)

type codec struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	yuv    func(y, cb, cr uint8) (r, g, b uint8) // of its YCbCr images, if any
}

// codecOf recognises a format by its first bytes. It is not image.Decode, whose
// formats depend on what else the program has imported.
func codecOf(b []byte) (codec, bool) {
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return codec{config: png.DecodeConfig, decode: png.Decode}, true
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		return codec{jpeg.DecodeConfig, jpeg.Decode, color.YCbCrToRGB}, true
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		return codec{config: gif.DecodeConfig, decode: gif.Decode}, true
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return codec{webp.DecodeConfig, webp.Decode, videoToRGB}, true
	}
	return codec{}, false
}

// Decode reads an image file: grey, palette, 16-bit and CMYK become 8-bit RGB,
// transparency is composited on white, a JPEG is turned upright as its EXIF
// orientation says, and of an animation the first frame is taken. The size is
// checked before pixels are decoded. It returns ErrTooLarge, ErrFormat or the
// decoder's error.
func Decode(r io.Reader, limits Limits) (*RGB, error) {
	b, c, size, err := begin(r, limits)
	if err != nil {
		return nil, err
	}
	img, err := c.decode(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("decode image: %w", err)
	}
	return c.flatten(img, size.Width, size.Height).upright(orientation(b)), nil
}

// Check reads as much of an image file as tells its format and size, and
// returns the error that Decode would return by then.
func Check(r io.Reader, limits Limits) error {
	_, _, _, err := begin(r, limits)
	return err
}

// begin reads the file and finds its codec and its size within the limits.
func begin(r io.Reader, limits Limits) ([]byte, codec, image.Config, error) {
	limits = limits.withDefaults()
	fail := func(err error) ([]byte, codec, image.Config, error) { return nil, codec{}, image.Config{}, err }
	b, err := io.ReadAll(io.LimitReader(r, limits.MaxBytes+1))
	if err != nil {
		return fail(fmt.Errorf("read image: %w", err))
	}
	if int64(len(b)) > limits.MaxBytes {
		return fail(fmt.Errorf("%w: the file exceeds %d bytes", ErrTooLarge, limits.MaxBytes))
	}
	c, ok := codecOf(b)
	if !ok {
		return fail(ErrFormat)
	}
	size, err := c.config(bytes.NewReader(b))
	if err != nil {
		return fail(fmt.Errorf("decode image: %w", err))
	}
	if size.Width < 1 || size.Height < 1 {
		return fail(fmt.Errorf("decode image: %dx%d pixels", size.Width, size.Height))
	}
	if int64(size.Width)*int64(size.Height) > limits.MaxPixels || max(size.Width, size.Height) > limits.MaxSide {
		return fail(fmt.Errorf("%w: %dx%d pixels, at most %d and %d a side are read",
			ErrTooLarge, size.Width, size.Height, limits.MaxPixels, limits.MaxSide))
	}
	return b, c, size, nil
}

// flatten composites img on a white canvas; a GIF's frame may be smaller.
func (c codec) flatten(img image.Image, width, height int) *RGB {
	out := &RGB{Width: width, Height: height, Pix: make([]uint8, 3*width*height)}
	for i := range out.Pix {
		out.Pix[i] = 255
	}
	at := c.pixelReader(img)
	area := img.Bounds().Intersect(image.Rect(0, 0, width, height))
	for y := area.Min.Y; y < area.Max.Y; y++ {
		p := out.Pix[3*(y*width+area.Min.X):]
		for x := area.Min.X; x < area.Max.X; x++ {
			r, g, b, a := at(x, y)
			p[0], p[1], p[2] = onWhite(r, a), onWhite(g, a), onWhite(b, a)
			p = p[3:]
		}
	}
	return out
}

// onWhite is (v*a + 255*(255-a)) / 255, rounded.
func onWhite(v, a uint8) uint8 {
	t := uint32(v)*uint32(a) + 255*uint32(255-a) + 128
	return uint8((t + t>>8) >> 8)
}

// pixelReader returns straight (not premultiplied) 8-bit channels. 16-bit
// images give their high bytes.
func (c codec) pixelReader(img image.Image) func(x, y int) (r, g, b, a uint8) {
	switch m := img.(type) {
	case *image.NRGBA:
		return func(x, y int) (uint8, uint8, uint8, uint8) {
			p := m.Pix[m.PixOffset(x, y):]
			return p[0], p[1], p[2], p[3]
		}
	case *image.RGBA: // from the decoders only opaque
		return func(x, y int) (uint8, uint8, uint8, uint8) {
			p := m.Pix[m.PixOffset(x, y):]
			return p[0], p[1], p[2], p[3]
		}
	case *image.Gray:
		return func(x, y int) (uint8, uint8, uint8, uint8) {
			v := m.Pix[m.PixOffset(x, y)]
			return v, v, v, 255
		}
	case *image.YCbCr:
		return c.colourReader(m)
	case *image.NYCbCrA:
		opaque := c.colourReader(&m.YCbCr)
		return func(x, y int) (uint8, uint8, uint8, uint8) {
			r, g, b, _ := opaque(x, y)
			return r, g, b, m.A[m.AOffset(x, y)]
		}
	}
	return func(x, y int) (uint8, uint8, uint8, uint8) {
		at := img.At(x, y)
		if v, ok := at.(color.NRGBA); ok { // a palette's entry; exact
			return v.R, v.G, v.B, v.A
		}
		v := color.NRGBA64Model.Convert(at).(color.NRGBA64)
		return uint8(v.R >> 8), uint8(v.G >> 8), uint8(v.B >> 8), uint8(v.A >> 8)
	}
}

// colourReader is pixelReader for luma and colour planes.
func (c codec) colourReader(m *image.YCbCr) func(x, y int) (r, g, b, a uint8) {
	full := upsampleChroma(m)
	return func(x, y int) (uint8, uint8, uint8, uint8) {
		var cb, cr uint8
		if full != nil {
			i := (y-m.Rect.Min.Y)*full.width + x - m.Rect.Min.X
			cb, cr = full.cb[i], full.cr[i]
		} else {
			i := m.COffset(x, y)
			cb, cr = m.Cb[i], m.Cr[i]
		}
		r, g, b := c.yuv(m.Y[m.YOffset(x, y)], cb, cr)
		return r, g, b, 255
	}
}

// videoToRGB converts BT.601 with luma of 16 to 235, which is what lossy WebP
// holds; the image package's conversion expects the full range of JPEG and
// would wash the colours out. The fixed point is libwebp's.
func videoToRGB(y, cb, cr uint8) (r, g, b uint8) {
	part := func(v uint8, factor int32) int32 { return int32(v) * factor >> 8 }
	clip := func(v int32) uint8 { return uint8(min(max(v>>6, 0), 255)) }
	luma := part(y, 19077)
	r = clip(luma + part(cr, 26149) - 14234)
	g = clip(luma - part(cb, 6419) - part(cr, 13320) + 8708)
	b = clip(luma + part(cb, 33050) - 17685)
	return r, g, b
}
