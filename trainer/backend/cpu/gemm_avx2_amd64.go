//go:build amd64 && !purego

package cpu

// The micro-kernels compute tiles stacked down C, each of as many rows as the name says and 16 columns. Strides are in
// floats: rsA and csA between rows and columns of A, stepA from one tile's A to the next, rsB between rows of B. load
// starts from C instead of zero.

//go:noescape
func tile6(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)

//go:noescape
func tile5(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)

//go:noescape
func tile4(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)

//go:noescape
func tile3(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)

//go:noescape
func tile2(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)

//go:noescape
func tile1(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)

//go:noescape
func packCopy16(k int64, src *float32, ld int64, dst *float32)

//go:noescape
func packCopy8(k int64, src *float32, ld int64, width int64, dst *float32, stride int64)

//go:noescape
func packTiles6(k int64, src *float32, ld int64, dst *float32, step, tiles int64)

//go:noescape
func packTrans8(k int64, src *float32, ld int64, rows int64, dst *float32, stride int64)

// avx2N is the number of columns of a tile.
const avx2N = 16

var avx2 = tiling{
	rows: 6, cols: avx2N, depth: 384, inPlace: 12,
	packPlain: packPlainAVX2, packTrans: packTransAVX2, packTiles: packTilesAVX2, column: (*Gemm).columnAVX2,
}

func packPlainAVX2(k, n int, b []float32, ldb int, panel []float32) {
	if n == avx2N {
		packCopy16(int64(k), &b[0], int64(ldb), &panel[0])
		return
	}
	for j := 0; j < n; j += 8 {
		packCopy8(int64(k), &b[j], int64(ldb), int64(min(8, n-j)), &panel[j], avx2N)
	}
}

func packTransAVX2(k, n int, b []float32, ldb int, panel []float32) {
	if k < 8 {
		packTransPlain(k, n, b, ldb, panel, avx2N)
		return
	}
	for j := 0; j < n; j += 8 {
		packTrans8(int64(k), &b[j*ldb], int64(ldb), int64(min(8, n-j)), &panel[j], avx2N)
	}
}

func packTilesAVX2(k int, a []float32, lda, rows int, dst []float32, step, tiles int) {
	if rows == 6 {
		packTiles6(int64(k), &a[0], int64(lda), &dst[0], int64(step), int64(tiles))
		return
	}
	for i := range tiles {
		packCopy8(int64(k), &a[i*rows], int64(lda), int64(rows), &dst[i*step], int64(rows))
	}
}

func (g *Gemm) columnAVX2(k int, b []float32, rsB, n int, c []float32, ldc int, load bool) {
	blk := &g.scratch.block
	for _, t := range blk.tiles {
		if t.count == 0 {
			continue
		}
		a := blk.a[t.first*blk.step:]
		rs, cs, step := blk.strides(t)
		if n == avx2N {
			runTiles(t.rows, k, &a[0], rs, cs, step, &b[0], rsB, &c[t.first*ldc], ldc, t.count, load)
			continue
		}
		for s := range t.count {
			g.edge(t.rows, n, k, a[s*step:], rs, cs, b, rsB, c[(t.first+s*t.rows)*ldc:], ldc, load)
		}
	}
}

// edge computes a tile of fewer than 16 columns aside and copies what belongs to C.
func (g *Gemm) edge(rows, n, k int, a []float32, rs, cs int, b []float32, rsB int, c []float32, ldc int, load bool) {
	if load {
		for r := range rows {
			copy(g.scratch.edge[r*avx2N:], c[r*ldc:r*ldc+n])
		}
	}
	runTiles(rows, k, &a[0], rs, cs, 0, &b[0], rsB, &g.scratch.edge[0], avx2N, 1, load)
	for r := range rows {
		copy(c[r*ldc:r*ldc+n], g.scratch.edge[r*avx2N:])
	}
}

func runTiles(rows, k int, a *float32, rs, cs, step int, b *float32, rsB int, c *float32, ldc, count int, load bool) {
	switch rows {
	case 6:
		tile6(int64(k), a, int64(rs), int64(cs), int64(step), b, int64(rsB), c, int64(ldc), int64(count), load)
	case 5:
		tile5(int64(k), a, int64(rs), int64(cs), int64(step), b, int64(rsB), c, int64(ldc), int64(count), load)
	case 4:
		tile4(int64(k), a, int64(rs), int64(cs), int64(step), b, int64(rsB), c, int64(ldc), int64(count), load)
	case 3:
		tile3(int64(k), a, int64(rs), int64(cs), int64(step), b, int64(rsB), c, int64(ldc), int64(count), load)
	case 2:
		tile2(int64(k), a, int64(rs), int64(cs), int64(step), b, int64(rsB), c, int64(ldc), int64(count), load)
	case 1:
		tile1(int64(k), a, int64(rs), int64(cs), int64(step), b, int64(rsB), c, int64(ldc), int64(count), load)
	}
}
