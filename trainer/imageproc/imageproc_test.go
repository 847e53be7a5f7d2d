package imageproc

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// testdata/golden.json is made by testdata/make.py with Pillow and NumPy.
type golden struct {
	Decode []struct {
		File                     string
		Width, Height, Tolerance int
		RGB                      string
	}
	Resize []struct {
		Width, Height int
		RGB           string
	}
	Process []struct {
		Name        string
		Patch, Rows int
		Mean, Std   [3]float64
		Data        string
	}
}

func readGolden(t *testing.T) golden {
	var g golden
	b, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	return g
}

func unbase64(t *testing.T, s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	require.NoError(t, err)
	return b
}

func decodeFile(t testing.TB, name string) *RGB {
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	img, err := Decode(f, Limits{})
	require.NoError(t, err, name)
	return img
}

// worst returns the largest difference of two images of one size, in levels.
func worst(a, b []byte) int {
	most := 0
	for i := range a {
		most = max(most, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return most
}

func TestDecodeMatchesPillow(t *testing.T) {
	g := readGolden(t)
	require.NotEmpty(t, g.Decode)
	for _, c := range g.Decode {
		t.Run(c.File, func(t *testing.T) {
			img := decodeFile(t, c.File)
			require.Equal(t, []int{c.Width, c.Height}, []int{img.Width, img.Height})
			want := unbase64(t, c.RGB)
			require.Len(t, img.Pix, len(want))
			require.LessOrEqual(t, worst(want, img.Pix), c.Tolerance)
			t.Logf("worst difference %d", worst(want, img.Pix))
		})
	}
}

func TestResizeMatchesPillow(t *testing.T) {
	img := decodeFile(t, "rgb.png")
	g := readGolden(t)
	require.NotEmpty(t, g.Resize)
	for _, c := range g.Resize {
		got := Resize(img, c.Width, c.Height)
		require.Zero(t, worst(unbase64(t, c.RGB), got.Pix), "%dx%d", c.Width, c.Height)
	}
}

func TestProcessMatchesNumPy(t *testing.T) {
	img := decodeFile(t, "rgb.png")
	g := readGolden(t)
	require.NotEmpty(t, g.Process)
	for _, c := range g.Process {
		cfg := Config{PatchSize: c.Patch, MergeSize: 2, TemporalPatchSize: 2, MinPixels: 64, MaxPixels: 4096, Mean: c.Mean, Std: c.Std}
		got, err := Process(img, cfg)
		require.NoError(t, err)
		require.Equal(t, c.Rows, got.N())
		require.Equal(t, []int{1, 4, 4}, []int{got.GridT, got.GridH, got.GridW})
		raw := unbase64(t, c.Data)
		require.Len(t, raw, 4*len(got.Data))
		for i, v := range got.Data {
			want := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			require.InDelta(t, want, v, 1e-6, "%s element %d", c.Name, i)
		}
	}
}

// qwen returns a configuration with Trinity's bounds of 256 to 1024 tokens.
func qwen(patch int) Config {
	f := 2 * patch
	return Config{PatchSize: patch, MergeSize: 2, TemporalPatchSize: 2, MinPixels: 256 * f * f, MaxPixels: 1024 * f * f,
		Mean: [3]float64{.5, .5, .5}, Std: [3]float64{.5, .5, .5}}
}

func TestSmartResize(t *testing.T) {
	for _, c := range []struct{ patch, h, w, wantH, wantW, tokens int }{
		{14, 480, 640, 476, 644, 391},
		{14, 1080, 1920, 672, 1176, 1008},
		{14, 574, 840, 560, 840, 600}, // 20.5 rounds to even
		{16, 1080, 1920, 768, 1344, 1008},
		{16, 656, 640, 640, 640, 400}, // 20.5 rounds to even
	} {
		h, w, err := qwen(c.patch).SmartResize(c.h, c.w)
		require.NoError(t, err)
		require.Equal(t, []int{c.wantH, c.wantW}, []int{h, w})
		f := qwen(c.patch).Factor()
		require.Equal(t, c.tokens, h/f*(w/f))
	}
	_, _, err := qwen(14).SmartResize(10, 2001)
	require.ErrorContains(t, err, "more than 200 times")
	_, _, err = qwen(14).SmartResize(10, 2000)
	require.NoError(t, err)
	_, _, err = qwen(14).SmartResize(0, 5)
	require.ErrorContains(t, err, "empty")
}

func TestSmartResizeKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := qwen(rapid.SampledFrom([]int{14, 16}).Draw(t, "patch"))
		height := rapid.IntRange(1, 5000).Draw(t, "height")
		width := rapid.IntRange(max(1, (height+199)/200), min(5000, 200*height)).Draw(t, "width")
		h, w, err := cfg.SmartResize(height, width)
		require.NoError(t, err)
		require.Zero(t, h%cfg.Factor())
		require.Zero(t, w%cfg.Factor())
		require.GreaterOrEqual(t, h*w, cfg.MinPixels/2) // a side held at the factor may cost area
		if height*width >= cfg.MinPixels && min(h, w) > cfg.Factor() {
			require.LessOrEqual(t, h*w, cfg.MaxPixels)
		}
	})
}

func TestProcessShapes(t *testing.T) {
	img := &RGB{Width: 640, Height: 480, Pix: bytes.Repeat([]byte{255}, 3*640*480)}
	p, err := Process(img, qwen(14))
	require.NoError(t, err)
	require.Equal(t, []int{1, 34, 46}, []int{p.GridT, p.GridH, p.GridW})
	require.Len(t, p.Data, 34*46*1176)
	require.Equal(t, float32(1), slices.Min(p.Data))
	require.Equal(t, float32(1), slices.Max(p.Data))
	_, err = Process(&RGB{Width: 2, Height: 2}, qwen(14))
	require.ErrorContains(t, err, "0 bytes for 2x2")
	_, err = Process(&RGB{}, qwen(14))
	require.ErrorContains(t, err, "empty")
	_, err = Process(img, Config{})
	require.ErrorContains(t, err, "patch_size is 0")
}

func TestResizeKeepsFlatColour(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Byte().Draw(t, "v")
		side := rapid.IntRange(1, 40)
		w, h := side.Draw(t, "w"), side.Draw(t, "h")
		out := Resize(&RGB{w, h, bytes.Repeat([]byte{v}, 3*w*h)}, side.Draw(t, "w2"), side.Draw(t, "h2"))
		require.Equal(t, bytes.Repeat([]byte{v}, len(out.Pix)), out.Pix)
	})
}

func TestParseConfig(t *testing.T) {
	const common = `"patch_size":16,"temporal_patch_size":2,"merge_size":2,"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5]`
	c, err := ParseConfig([]byte(`{"size":{"longest_edge":16777216,"shortest_edge":65536},` + common + `,"image_processor_type":"Qwen2VLImageProcessorFast"}`))
	require.NoError(t, err)
	require.Equal(t, 32, c.Factor())
	require.Equal(t, 1536, c.PatchDim())
	require.Equal(t, []int{65536, 16777216}, []int{c.MinPixels, c.MaxPixels})
	c, err = ParseConfig([]byte(`{"min_pixels":3136,"max_pixels":12845056,"size":{"shortest_edge":1},` + common + `,"resample":3,"rescale_factor":0.00392156862745098}`))
	require.NoError(t, err)
	require.Equal(t, []int{3136, 12845056}, []int{c.MinPixels, c.MaxPixels})
	for _, bad := range []struct{ text, want string }{
		{`{`, "unexpected end"},
		{`{` + common + `}`, "min_pixels (or size.shortest_edge) is missing"},
		{`{"min_pixels":1,` + common + `}`, "max_pixels (or size.longest_edge) is missing"},
		{`{"min_pixels":0,"max_pixels":8,` + common + `}`, "min_pixels is 0"},
		{`{"size":7,` + common + `}`, "size"},
		{`{"min_pixels":1,"max_pixels":8,"do_convert_rgb":false,` + common + `}`, "do_convert_rgb is false"},
		{`{"min_pixels":1,"max_pixels":8,"do_center_crop":true,` + common + `}`, "do_center_crop is true"},
		{`{"min_pixels":1,"max_pixels":8,"image_processor_type":"CLIPImageProcessor",` + common + `}`, "image_processor_type is \"CLIPImageProcessor\""},
		{`{"min_pixels":1,"max_pixels":8,` + strings.Replace(common, `"temporal_patch_size":2,`, "", 1) + `}`, "temporal_patch_size is missing"},
		{`{"min_pixels":9,"max_pixels":8,` + common + `}`, "max_pixels is 8"},
		{`{"min_pixels":1,"max_pixels":8,"resample":2,` + common + `}`, "resample is 2"},
		{`{"min_pixels":1,"max_pixels":8,"do_resize":false,` + common + `}`, "do_resize"},
		{`{"min_pixels":1,"max_pixels":8,"rescale_factor":1,` + common + `}`, "rescale_factor"},
		{`{"min_pixels":1,"max_pixels":8,"patch_size":16,"image_mean":[0]}`, "three numbers"},
		{`{"min_pixels":1,"max_pixels":8,` + strings.Replace(common, `"image_std":[0.5`, `"image_std":[0`, 1) + `}`, "above 0"},
	} {
		_, err := ParseConfig([]byte(bad.text))
		require.ErrorContains(t, err, bad.want)
	}
}

func TestLoadConfigReadsEitherFile(t *testing.T) {
	const common = `"max_pixels":9999,"patch_size":16,"temporal_patch_size":2,"merge_size":2,"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5]}`
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	load := func() int {
		c, err := LoadConfig(dir)
		require.NoError(t, err)
		return c.MinPixels
	}
	_, err := LoadConfig(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "preprocessor_config.json")
	write("preprocessor_config.json", `{"min_pixels":1,`+common)
	require.Equal(t, 1, load())
	write("processor_config.json", `{"processor_class":"Qwen2_5_VLProcessor"}`) // of a release that kept the image processor apart
	require.Equal(t, 1, load())
	write("processor_config.json", `{"image_processor":{"min_pixels":2,`+common+`}`)
	require.Equal(t, 2, load())
	write("processor_config.json", `{"image_processor":{"min_pixels":2,"resample":0,`+common+`}`)
	_, err = LoadConfig(dir)
	require.ErrorContains(t, err, "processor_config.json")
	require.ErrorContains(t, err, "resample is 0")
	write("processor_config.json", `[`)
	_, err = LoadConfig(dir)
	require.ErrorContains(t, err, "processor_config.json")
}

// transformers.json is made by testdata/make.py with transformers' own image processor. Patches are compared by their hash:
// they agree to the last bit.
func TestProcessMatchesTransformers(t *testing.T) {
	var g struct {
		Process []struct {
			Config              json.RawMessage
			Width, Height       int
			GridH, GridW        int
			First, Middle, Last float32
			SHA256              string
		}
		Sizes []struct{ Patch, Min, Max, Height, Width, WantHeight, WantWidth int }
	}
	b, err := os.ReadFile("testdata/transformers.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	require.NotEmpty(t, g.Process)
	for _, c := range g.Process {
		cfg, err := ParseConfig(c.Config)
		require.NoError(t, err)
		p, err := Process(pattern(c.Width, c.Height), cfg)
		require.NoError(t, err)
		name := fmt.Sprintf("%dx%d, patches of %d", c.Width, c.Height, cfg.PatchSize)
		require.Equal(t, []int{1, c.GridH, c.GridW}, []int{p.GridT, p.GridH, p.GridW}, name)
		require.Equal(t, []float32{c.First, c.Middle, c.Last}, []float32{p.Data[0], p.Data[len(p.Data)/2], p.Data[len(p.Data)-1]}, name)
		h := sha256.New()
		require.NoError(t, binary.Write(h, binary.LittleEndian, p.Data))
		require.Equal(t, c.SHA256, hex.EncodeToString(h.Sum(nil)), name)
	}
	require.NotEmpty(t, g.Sizes)
	for _, c := range g.Sizes {
		h, w, err := Config{PatchSize: c.Patch, MergeSize: 2, MinPixels: c.Min, MaxPixels: c.Max}.SmartResize(c.Height, c.Width)
		require.NoError(t, err)
		require.Equal(t, []int{c.WantHeight, c.WantWidth}, []int{h, w}, "%+v", c)
	}
}

// pattern is make.py's picture of the same name: slopes, edges and noise in integers.
func pattern(w, h int) *RGB {
	img := &RGB{Width: w, Height: h, Pix: make([]uint8, 0, 3*w*h)}
	for y := range h {
		for x := range w {
			for c := range 3 {
				v := (x*(3+c) + y*(5-c) + x*y%(31+c)) & 255
				if (x/9+y/7)%5 == c {
					v = 255 - v
				}
				img.Pix = append(img.Pix, uint8(v))
			}
		}
	}
	return img
}

func TestDecodeRefuses(t *testing.T) {
	var bomb bytes.Buffer // a large area in few bytes
	require.NoError(t, png.Encode(&bomb, image.NewGray(image.Rect(0, 0, 4000, 3000))))
	_, err := Decode(bytes.NewReader(bomb.Bytes()), Limits{MaxPixels: 11_999_999})
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "4000x3000")
	_, err = Decode(bytes.NewReader(bomb.Bytes()), Limits{MaxSide: 3999})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Decode(bytes.NewReader(bomb.Bytes()), Limits{MaxBytes: 100})
	require.ErrorIs(t, err, ErrTooLarge)
	img, err := Decode(bytes.NewReader(bomb.Bytes()), Limits{MaxPixels: 12_000_000})
	require.NoError(t, err)
	require.Equal(t, 4000, img.Width)

	_, err = Decode(strings.NewReader("<svg/>"), Limits{})
	require.ErrorIs(t, err, ErrFormat)
	_, err = Decode(strings.NewReader(""), Limits{})
	require.ErrorIs(t, err, ErrFormat)
	_, err = Decode(io.MultiReader(strings.NewReader("\xff\xd8"), brokenReader{}), Limits{})
	require.ErrorIs(t, err, io.ErrClosedPipe)
	for _, name := range []string{"rgb.png", "orientation1.jpg", "still.gif", "rgb.webp"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		_, err = Decode(bytes.NewReader(b[:len(b)*2/3]), Limits{})
		require.Error(t, err, "%s cut short", name)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestOrientationOfBrokenTags(t *testing.T) {
	whole, err := os.ReadFile("testdata/orientation6.jpg")
	require.NoError(t, err)
	require.Equal(t, 6, orientation(whole))
	for n := range 60 {
		require.Contains(t, []int{1, 6}, orientation(whole[:n]))
	}
	little := []byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x03\x00\x00\x00")
	require.Equal(t, 3, tiffOrientation(little))
	little[18] = 9
	require.Equal(t, 1, tiffOrientation(little))
	require.Equal(t, 1, tiffOrientation([]byte("II*\x00\xff\xff\xff\xff")))
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	require.NoError(f, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := Decode(bytes.NewReader(b), Limits{MaxPixels: 1 << 16})
		if err != nil {
			return
		}
		require.Len(t, img.Pix, 3*img.Width*img.Height)
		require.LessOrEqual(t, img.Width*img.Height, 1<<16)
	})
}

func BenchmarkProcess1080p(b *testing.B) {
	img := &RGB{Width: 1920, Height: 1080, Pix: make([]byte, 3*1920*1080)}
	for b.Loop() {
		if _, err := Process(img, qwen(16)); err != nil {
			b.Fatal(err)
		}
	}
}
