//go:build amd64 && !purego

package cpu

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

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

// directB is the largest m for which packing an untransposed B costs more than reading it in place.
const directB = 2 * tileM

// packGroup is how many tiles of a transposed A are packed side by side: few enough for their ends to stay cached.
const packGroup = 32

// packSlack is what the packing routines may write past the end of a panel.
const packSlack = 8

// rowTile is a run of equal tiles down a block: count tiles of rows rows each, from row first on.
type rowTile struct {
	first, rows, count int
}

// rowTiles cuts m rows into full tiles and at most two smaller ones. A remainder of 1 to 3 rows is evened out with the
// last full tile, because a kernel of fewer than 4 rows waits for its own latency: 6+1 costs more than 4+3.
func rowTiles(m int) [3]rowTile {
	full, rest := m/tileM, m%tileM
	if rest == 0 || rest > 3 || full == 0 {
		return [3]rowTile{{0, tileM, full}, {full * tileM, rest, min(rest, 1)}}
	}
	full--
	hi := (tileM + rest + 1) / 2
	return [3]rowTile{{0, tileM, full}, {full * tileM, hi, 1}, {full*tileM + hi, tileM + rest - hi, 1}}
}

func (g *Gemm) mulAVX2(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	kBlocks := (k + blockK - 1) / blockK
	kc := (k + kBlocks - 1) / kBlocks
	mc := max(blockA/kc/tileM*tileM, tileM)
	mBlocks := (m + mc - 1) / mc
	mc = ((m+mBlocks-1)/mBlocks + tileM - 1) / tileM * tileM
	g.panelB = grow(g.panelB, kc*tileN+packSlack)
	for p := 0; p < k; p += kc {
		kb := min(kc, k-p)
		load := accumulate || p > 0
		for i := 0; i < m; i += mc {
			mb := min(mc, m-i)
			var blk block
			if transA {
				blk = g.packA(mb, kb, a[p*lda+i:], lda)
			} else {
				blk = block{rowTiles(mb), a[i*lda+p:], lda, lda, 1}
			}
			for j := 0; j < n; j += tileN {
				nb := min(tileN, n-j)
				panel, rsB := g.panelB, tileN
				switch {
				case transB:
					g.packTransB(kb, nb, b[j*ldb+p:], ldb)
				case nb < tileN:
					g.packEdgeB(kb, nb, b[p*ldb+j:], ldb)
				case mb <= directB:
					panel, rsB = b[p*ldb+j:], ldb
				default:
					packCopy16(int64(kb), &b[p*ldb+j], int64(ldb), &panel[0])
				}
				g.column(&blk, kb, panel, rsB, nb, c[i*ldc+j:], ldc, load)
			}
		}
	}
}

// block is a block of A, cut into tiles: either in place, with row stride rs and column stride cs, or packed, with rs 0
// and each tile a [k, rows] of its own. Either way row i of the block begins at a[i*step] where a tile begins.
type block struct {
	tiles  [3]rowTile
	a      []float32
	step   int
	rs, cs int
}

// packA packs a transposed block of A ([k,m] as stored) into tiles of [k, rows].
func (g *Gemm) packA(m, k int, a []float32, lda int) block {
	// One k more than there is keeps tiles off the same cache sets and takes the surplus lanes.
	step := k + 1
	g.panelA = grow(g.panelA, m*step+packSlack)
	tiles := rowTiles(m)
	full := tiles[0].count
	for t := 0; t < full; t += packGroup {
		row := t * tileM
		packTiles6(int64(k), &a[row], int64(lda), &g.panelA[row*step], int64(tileM*step), int64(min(packGroup, full-t)))
	}
	for _, t := range tiles[1:] {
		if t.count > 0 {
			packCopy8(int64(k), &a[t.first], int64(lda), int64(t.rows), &g.panelA[t.first*step], int64(t.rows))
		}
	}
	return block{tiles: tiles, a: g.panelA, step: step}
}

// packTransB packs n columns of op(B), stored as rows of length k, into the panel.
func (g *Gemm) packTransB(k, n int, b []float32, ldb int) {
	for j := 0; j < n; j += 8 {
		rows := min(8, n-j)
		if k >= 8 {
			packTrans8(int64(k), &b[j*ldb], int64(ldb), int64(rows), &g.panelB[j], tileN)
			continue
		}
		for i := range rows {
			for p, v := range b[(j+i)*ldb : (j+i)*ldb+k] {
				g.panelB[p*tileN+j+i] = v
			}
		}
	}
}

// packEdgeB packs fewer than 16 columns; lanes beyond n hold leftovers, whose products are never stored to C.
func (g *Gemm) packEdgeB(k, n int, b []float32, ldb int) {
	for j := 0; j < n; j += 8 {
		packCopy8(int64(k), &b[j], int64(ldb), int64(min(8, n-j)), &g.panelB[j], tileN)
	}
}

// column multiplies a block of A with one panel of B into n <= 16 columns of C.
func (g *Gemm) column(blk *block, k int, b []float32, rsB, n int, c []float32, ldc int, load bool) {
	for _, t := range blk.tiles {
		if t.count == 0 {
			continue
		}
		a, rs, cs, step := blk.a[t.first*blk.step:], blk.rs, blk.cs, t.rows*blk.step
		if rs == 0 {
			rs, cs = 1, t.rows
		}
		if n == tileN {
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
			copy(g.tile[r*tileN:], c[r*ldc:r*ldc+n])
		}
	}
	runTiles(rows, k, &a[0], rs, cs, 0, &b[0], rsB, &g.tile[0], tileN, 1, load)
	for r := range rows {
		copy(c[r*ldc:r*ldc+n], g.tile[r*tileN:])
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
