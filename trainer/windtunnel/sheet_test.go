package windtunnel

import (
	"image"
	"image/draw"
	"image/png"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestContactSheet writes a sheet of figures for the eye where WINDTUNNEL_SHEET names a file.
func TestContactSheet(t *testing.T) {
	file := os.Getenv("WINDTUNNEL_SHEET")
	if file == "" {
		t.Skip("set WINDTUNNEL_SHEET to a file name to draw one")
	}
	const columns, rows, scale = 6, 6, 2
	tables, err := LoadTables(Training)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	sheet := image.NewRGBA(image.Rect(0, 0, columns*(Width*scale+8), rows*(Height*scale+8)))
	for i := range columns * rows {
		scene := Generate(rng, tables)
		figure := scene.Render(rng)
		t.Logf("%d %s/%v: %s", i, scene.Table, scene.Columns, scene.ReadTurn().Completion)
		x0, y0 := i%columns*(Width*scale+8), i/columns*(Height*scale+8)
		large := image.NewRGBA(image.Rect(0, 0, Width*scale, Height*scale))
		for y := range Height * scale {
			for x := range Width * scale {
				large.Set(x, y, figure.At(x/scale, y/scale))
			}
		}
		draw.Draw(sheet, image.Rect(x0, y0, x0+Width*scale, y0+Height*scale), large, image.Point{}, draw.Src)
	}
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, png.Encode(f, sheet))
	require.NoError(t, f.Close())
}
