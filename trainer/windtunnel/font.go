package windtunnel

// letterGlyphs are 5x7 bitmaps, a byte a row, the leftmost pixel in bit 4; drawn at double size, 10x14 pixels.
var letterGlyphs = [MaxEntities][7]byte{
	{0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11},
	{0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e},
	{0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e},
	{0x1c, 0x12, 0x11, 0x11, 0x11, 0x12, 0x1c},
	{0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f},
	{0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10},
}

// digitGlyphs are 3x5 bitmaps for axis labels, a byte a row, the leftmost pixel in bit 2.
var digitGlyphs = [10][5]byte{
	{7, 5, 5, 5, 7}, {2, 6, 2, 2, 7}, {7, 1, 7, 4, 7}, {7, 1, 3, 1, 7}, {5, 5, 7, 1, 1},
	{7, 4, 7, 1, 7}, {7, 4, 7, 5, 7}, {7, 1, 1, 2, 2}, {7, 5, 7, 5, 7}, {7, 5, 7, 1, 7},
}

func (c *canvas) letter(letter byte, x, y int, ink rgb) {
	for row, bits := range letterGlyphs[int(letter-'A')%MaxEntities] {
		for col := range 5 {
			if bits>>(4-col)&1 == 1 {
				c.rect(x+2*col, y+2*row, 2, 2, ink)
			}
		}
	}
}

func (c *canvas) digit(d, x, y int, ink rgb) {
	for row, bits := range digitGlyphs[d] {
		for col := range 3 {
			if bits>>(2-col)&1 == 1 {
				c.set(x+col, y+row, ink, 1)
			}
		}
	}
}
