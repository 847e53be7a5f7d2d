package imageproc

import "math"

// Resize scales an image by bicubic interpolation with antialiasing, in the
// fixed-point arithmetic of Pillow (libImaging/Resample.c), so that the pixels
// are those of Image.resize(size, BICUBIC). Width and height must be positive.
//
// The result of each pass is rounded, so their order shows in the last level.
// It is that of Pillow 13: the height first where it loses more than twice as
// many pixels as the width, else (and in earlier versions always) the width.
func Resize(img *RGB, width, height int) *RGB {
	if img.Height > height && img.Height-height > 2*(img.Width-width) {
		return resizeWidth(resizeHeight(img, height), width)
	}
	return resizeHeight(resizeWidth(img, width), height)
}

func resizeWidth(img *RGB, width int) *RGB {
	if width == img.Width {
		return img
	}
	out := &RGB{Width: width, Height: img.Height, Pix: make([]uint8, 3*width*img.Height)}
	taps := bicubicTaps(img.Width, width)
	for y := range img.Height {
		row := img.Pix[3*y*img.Width:][:3*img.Width]
		to := out.Pix[3*y*width:]
		for x, t := range taps {
			r, g, b := int32(half), int32(half), int32(half)
			p := row[3*t.first:]
			for i, w := range t.weights {
				r += int32(p[3*i]) * w
				g += int32(p[3*i+1]) * w
				b += int32(p[3*i+2]) * w
			}
			to[3*x], to[3*x+1], to[3*x+2] = clip8(r), clip8(g), clip8(b)
		}
	}
	return out
}

func resizeHeight(img *RGB, height int) *RGB {
	if height == img.Height {
		return img
	}
	stride := 3 * img.Width
	out := &RGB{Width: img.Width, Height: height, Pix: make([]uint8, stride*height)}
	sums := make([]int32, stride)
	for y, t := range bicubicTaps(img.Height, height) {
		for i := range sums {
			sums[i] = half
		}
		for k, w := range t.weights {
			row := img.Pix[(t.first+k)*stride:][:stride]
			for i, v := range row {
				sums[i] += int32(v) * w
			}
		}
		to := out.Pix[y*stride:][:stride]
		for i, s := range sums {
			to[i] = clip8(s)
		}
	}
	return out
}

const (
	precision = 32 - 8 - 2 // bits after the point; two are left for overshoot
	half      = 1 << (precision - 1)
)

func clip8(v int32) uint8 { return uint8(min(max(v>>precision, 0), 255)) }

// tap holds the weights of the input pixels from first on.
type tap struct {
	first   int
	weights []int32
}

// bicubicTaps returns the taps of each output pixel along one axis.
func bicubicTaps(in, out int) []tap {
	scale := float64(in) / float64(out)
	stretch := max(scale, 1) // the kernel widens when shrinking
	support := 2 * stretch
	taps := make([]tap, out)
	for i := range taps {
		center := (float64(i) + 0.5) * scale
		first := max(int(center-support+0.5), 0)
		end := min(int(center+support+0.5), in)
		weights := make([]float64, end-first)
		sum := 0.0
		for j := range weights {
			weights[j] = cubic((float64(j+first) - center + 0.5) / stretch)
			sum += weights[j]
		}
		taps[i] = tap{first, make([]int32, len(weights))}
		for j, w := range weights {
			if sum != 0 {
				w /= sum
			}
			taps[i].weights[j] = int32(math.Copysign(0.5, w) + w*(1<<precision))
		}
	}
	return taps
}

// cubic is Keys' kernel with a = -1/2.
func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return (((x-5)*x+8)*x - 4) * a
	}
	return 0
}
