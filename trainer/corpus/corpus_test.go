package corpus

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/imageproc"
)

func picture(t *testing.T, shade uint8) []byte {
	img := image.NewGray(image.Rect(0, 0, 8, 6))
	for i := range img.Pix {
		img.Pix[i] = shade
	}
	img.SetGray(1, 1, color.Gray{Y: ^shade})
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

func write(t *testing.T, dir, name string, b []byte) {
	p := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, b, 0o644))
}

func open(t *testing.T, dir string, opts Options) *Corpus {
	c, err := Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func paths(t *testing.T, c *Corpus) []string {
	var out []string
	for i := range c.Len() {
		img, err := c.At(i)
		require.NoError(t, err)
		out = append(out, img.Path)
	}
	return out
}

func TestOpenFolderOfOrdinaryFiles(t *testing.T) {
	dir := t.TempDir()
	fixtures, err := filepath.Glob("../imageproc/testdata/*")
	require.NoError(t, err)
	kinds := 0
	for _, f := range fixtures { // PNG, JPEG, WebP and GIF; grey, palette, alpha, 16-bit
		if slices.Contains(extensions(), filepath.Ext(f)) {
			b, err := os.ReadFile(f)
			require.NoError(t, err)
			write(t, dir, "kinds/"+filepath.Base(f), b)
			kinds++
		}
	}
	require.Greater(t, kinds, 20)
	write(t, dir, "b/UPPER.PNG", picture(t, 1))
	write(t, dir, "a.png", picture(t, 2))
	write(t, dir, "notes.txt", []byte("x"))
	write(t, dir, ".hidden.png", []byte("x"))
	write(t, dir, "._a.png", []byte("x"))
	write(t, dir, ".cache/x.png", picture(t, 9))
	write(t, dir, "corrupt.jpg", []byte("\xff\xd8\xff\xe0 rubbish"))
	write(t, dir, "cut.png", picture(t, 3)[:60])
	write(t, dir, "page.png", []byte("<html>"))
	write(t, dir, "copy.png", picture(t, 2))

	var progress []int
	c := open(t, dir, Options{Progress: func(done, total int) { progress = append(progress, done, total) }})
	require.Equal(t, kinds+2, c.Len())
	got := paths(t, c)
	require.True(t, slices.IsSorted(got))
	require.Equal(t, []string{"a.png", "b/UPPER.PNG"}, got[:2])
	var skipped []string
	for _, s := range c.Skipped() {
		require.Error(t, s.Err)
		skipped = append(skipped, s.Path)
	}
	require.Equal(t, []string{"copy.png", "corrupt.jpg", "cut.png", "page.png"}, skipped)
	require.ErrorIs(t, c.Skipped()[0].Err, ErrDuplicate)
	require.ErrorContains(t, c.Skipped()[0].Err, "a.png")
	require.ErrorIs(t, c.Skipped()[3].Err, imageproc.ErrFormat)
	require.Equal(t, []int{0, kinds + 6, kinds + 6, kinds + 6}, progress)

	img, err := c.At(0)
	require.NoError(t, err)
	require.Equal(t, picture(t, 2), img.Bytes)
	require.Equal(t, hash(img.Bytes), img.SHA256)
	require.Len(t, img.SHA256, 64)
	for _, i := range []int{-1, c.Len()} {
		_, err = c.At(i)
		require.ErrorContains(t, err, "no image")
	}

	quick := open(t, dir, Options{HeadersOnly: true})
	require.Contains(t, paths(t, quick), "cut.png")
	require.NotContains(t, paths(t, quick), "page.png")
}

func TestAtNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.png", picture(t, 1))
	c := open(t, dir, Options{})
	write(t, dir, "a.png", picture(t, 2))
	_, err := c.At(0)
	require.ErrorIs(t, err, ErrChanged)
	require.NoError(t, os.Remove(filepath.Join(dir, "a.png")))
	_, err = c.At(0)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLinks(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	write(t, outside, "secret.png", picture(t, 1))
	write(t, outside, "sub/more.png", picture(t, 2))
	write(t, dir, "real/in.png", picture(t, 3))
	for name, target := range map[string]string{
		"out.png":      filepath.Join(outside, "secret.png"),
		"relative.png": "../" + filepath.Base(outside) + "/secret.png",
		"folder":       filepath.Join(outside, "sub"),
		"folder.png":   "real",
		"dangling.png": "nowhere.png",
		"fine.png":     "real/in.png",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	c := open(t, dir, Options{})
	require.Equal(t, []string{"fine.png"}, paths(t, c), "a link inside is followed; what it leads to is then the duplicate")
	var skipped []string
	for _, s := range c.Skipped() {
		skipped = append(skipped, s.Path)
		if s.Path != "real/in.png" {
			require.ErrorIs(t, s.Err, ErrNotFile)
		}
	}
	require.Equal(t, []string{"dangling.png", "folder.png", "out.png", "real/in.png", "relative.png"}, skipped)
}

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.png", picture(t, 1))
	write(t, dir, "padded.png", append(picture(t, 2), make([]byte, 5000)...))
	c := open(t, dir, Options{Limits: imageproc.Limits{MaxBytes: 4000}})
	require.Equal(t, []string{"a.png"}, paths(t, c))
	require.ErrorIs(t, c.Skipped()[0].Err, imageproc.ErrTooLarge)
	_, err := Open(dir, Options{Limits: imageproc.Limits{MaxPixels: 47}})
	require.ErrorIs(t, err, ErrEmpty)
	require.ErrorIs(t, err, imageproc.ErrTooLarge)
}

func TestNothingToRead(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir, Options{})
	require.ErrorIs(t, err, ErrEmpty)
	for _, part := range []string{dir, ".png", ".webp", "0 other files"} {
		require.ErrorContains(t, err, part)
	}
	write(t, dir, "a.txt", nil)
	write(t, dir, "b.png", []byte("x"))
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "1 other files")
	require.ErrorContains(t, err, `1 that cannot be used, the first "b.png"`)
	_, err = Open(filepath.Join(dir, "absent"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(filepath.Join(dir, "a.txt"), Options{})
	require.Error(t, err)
	require.True(t, strings.Contains(err.Error(), "a folder of images"))
}

func TestDrawIsAFunctionOfSeedAndStep(t *testing.T) {
	// Written down so that a change of the generator does not go unseen.
	require.Equal(t, []int{5, 1, 7}, Draw(10, 0, 1, 3))
	require.Equal(t, Draw(10, 7, 2, 3), Draw(10, 7, 2, 3))
	require.NotEqual(t, Draw(100, 7, 0, 100), Draw(100, 8, 0, 100))
	require.NotEqual(t, Draw(100, 7, 0, 100), Draw(100, 7, 1, 100))
	require.Empty(t, Draw(10, 7, 0, 0))
	require.Empty(t, Draw(10, 7, -1, 3))
	require.Empty(t, Draw(0, 7, 0, 3))
	require.Equal(t, Draw(10, 7, 2, 3), (&Corpus{images: make([]Image, 10)}).Draw(7, 2, 3))
}

func TestDrawWithoutReplacementInAnEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 50).Draw(t, "size")
		n := rapid.IntRange(1, size).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		steps := size / n
		epoch := rapid.IntRange(0, 1000).Draw(t, "epoch")
		seen := map[int]bool{}
		for s := range steps {
			for _, i := range Draw(size, seed, epoch*steps+s, n) {
				require.False(t, seen[i], "drawn twice")
				require.True(t, i >= 0 && i < size)
				seen[i] = true
			}
		}
		require.Len(t, seen, steps*n)
	})
}

func TestDrawMoreThanThereAre(t *testing.T) {
	got := Draw(3, 1, 5, 7)
	require.Len(t, got, 7)
	for _, part := range [][]int{got[:3], got[3:6]} {
		require.ElementsMatch(t, []int{0, 1, 2}, part)
	}
}

func TestDrawIsUniform(t *testing.T) {
	counts := make([]int, 7) // 2 of 7: every image misses some epochs
	for step := range 30000 {
		for _, i := range Draw(7, 3, step, 2) {
			counts[i]++
		}
	}
	for _, n := range counts {
		require.InDelta(t, 60000.0/7, n, 300) // three standard deviations are below
	}
}
