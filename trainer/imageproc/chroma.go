package imageproc

import "image"

// chroma holds the two colour planes of an image at the size of its luma.
type chroma struct {
	cb, cr []uint8 // [height, width]
	width  int
}

// upsampleChroma interpolates halved colour planes with the triangle filter
// (weights 3/4 and 1/4 a side) that libjpeg calls fancy upsampling and libwebp
// uses too, since nearest neighbours give visibly other colours at edges. It
// returns nil for ratios other than 4:2:0 and 4:2:2: their planes are whole
// (4:4:4) or they are rare.
func upsampleChroma(m *image.YCbCr) *chroma {
	down := m.SubsampleRatio == image.YCbCrSubsampleRatio420
	if !down && m.SubsampleRatio != image.YCbCrSubsampleRatio422 {
		return nil
	}
	w, h := m.Rect.Dx(), m.Rect.Dy()
	cw, ch := (w+1)/2, h
	if cw <= 2 { // libjpeg's exception
		return nil
	}
	if down {
		ch = (h + 1) / 2
	}
	out := &chroma{cb: make([]uint8, w*h), cr: make([]uint8, w*h), width: w}
	from := m.COffset(m.Rect.Min.X, m.Rect.Min.Y)
	sums := make([]int32, cw)
	for _, p := range []struct{ src, dst []uint8 }{{m.Cb[from:], out.cb}, {m.Cr[from:], out.cr}} {
		for y := range h {
			near, far := y, y
			if down {
				near = y / 2
				far = min(max(near+y%2*2-1, 0), ch-1)
			}
			sumRows(sums, p.src[near*m.CStride:], p.src[far*m.CStride:], down)
			spreadRow(p.dst[y*w:][:w], sums, down)
		}
	}
	return out
}

// sumRows weighs a row with the nearer of its neighbours; down scales by 4.
func sumRows(sums []int32, near, far []uint8, down bool) {
	for i := range sums {
		sums[i] = int32(near[i])
		if down {
			sums[i] = 3*sums[i] + int32(far[i])
		}
	}
}

// spreadRow interpolates along the row and takes off the scale. Rounding
// alternates, as in libjpeg, so that it does not drift.
func spreadRow(dst []uint8, sums []int32, down bool) {
	left, right, shift := int32(1), int32(2), 2
	if down {
		left, right, shift = 8, 7, 4
	}
	last := len(sums) - 1
	for x := range dst {
		s := 3 * sums[x/2]
		if x%2 == 0 {
			s += sums[max(x/2-1, 0)] + left
		} else {
			s += sums[min(x/2+1, last)] + right
		}
		dst[x] = uint8(s >> shift)
	}
}
