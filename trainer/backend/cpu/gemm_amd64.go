//go:build amd64 && !purego

package cpu

import "golang.org/x/sys/cpu"

var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F
)

// tiling is one instruction set's way to cut a product into register tiles.
type tiling struct {
	rows, cols int // of a register tile
	depth      int // longest block of k: a panel of B, [depth, cols], stays in the first-level cache
	inPlace    int // the largest m for which packing a plain B costs more than reading it where it lies

	// packPlain and packTrans put n <= cols columns of op(B) into a panel [k, cols]: B as stored, or its transpose. What
	// lies in the columns beyond n is never used.
	packPlain, packTrans func(k, n int, b []float32, ldb int, panel []float32)
	// packTiles cuts columns of a transposed A, stored [k, ...], into tiles of [k, rows], the next one step further on.
	packTiles func(k int, a []float32, lda, rows int, dst []float32, step, tiles int)
	// column multiplies the block of A in scratch with one panel of B into n <= cols columns of C.
	column func(g *Gemm, k int, b []float32, rsB, n int, c []float32, ldc int, load bool)
}

// tileScratch is what the micro-kernels need between calls.
type tileScratch struct {
	block block
	edge  [6 * avx2N]float32 // AVX2: a tile of fewer columns
	tile  tile               // AVX-512: arguments
}

// packSlack is what the packing routines may write past the end of a panel.
const packSlack = 16

// packGroup is how many tiles of a transposed A are packed side by side: few enough for their ends to stay cached.
const packGroup = 32

// mulTiled computes the product in assembly, or says that this machine can't.
func (g *Gemm) mulTiled(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) bool {
	var t *tiling
	switch {
	case hasAVX512 && g.path < pathAVX2:
		t = &avx512
	case hasAVX2 && g.path < pathPortable:
		t = &avx2
	default:
		return false
	}
	kBlocks := (k + t.depth - 1) / t.depth
	kc := (k + kBlocks - 1) / kBlocks
	mc := max(blockA/kc/t.rows*t.rows, t.rows)
	mBlocks := (m + mc - 1) / mc
	mc = ((m+mBlocks-1)/mBlocks + t.rows - 1) / t.rows * t.rows
	g.panelB = grow(g.panelB, kc*t.cols+packSlack)
	for p := 0; p < k; p += kc {
		kb := min(kc, k-p)
		load := accumulate || p > 0
		for i := 0; i < m; i += mc {
			mb := min(mc, m-i)
			if transA {
				g.scratch.block = g.packA(t, mb, kb, a[p*lda+i:], lda)
			} else {
				g.scratch.block = block{rowTiles(mb, t.rows), a[i*lda+p:], lda, lda, 1}
			}
			for j := 0; j < n; j += t.cols {
				nb := min(t.cols, n-j)
				panel, rsB := g.panelB, t.cols
				switch {
				case transB:
					t.packTrans(kb, nb, b[j*ldb+p:], ldb, panel)
				case mb <= t.inPlace && nb == t.cols:
					panel, rsB = b[p*ldb+j:], ldb
				default:
					t.packPlain(kb, nb, b[p*ldb+j:], ldb, panel)
				}
				t.column(g, kb, panel, rsB, nb, c[i*ldc+j:], ldc, load)
			}
		}
	}
	g.scratch.block, g.scratch.tile = block{}, tile{} // keeps no operand alive
	return true
}

// rowTile is a run of equal tiles down a block: count tiles of rows rows each, from row first on.
type rowTile struct {
	first, rows, count int
}

// rowTiles cuts m rows into full tiles and at most two smaller ones. A remainder of 1 to 3 rows is evened out with the
// last full tile, because a kernel of fewer than 4 rows waits for its own latency: 6+1 costs more than 4+3.
func rowTiles(m, rows int) [3]rowTile {
	full, rest := m/rows, m%rows
	if rest == 0 || rest > 3 || full == 0 {
		return [3]rowTile{{0, rows, full}, {full * rows, rest, min(rest, 1)}}
	}
	full--
	hi := (rows + rest + 1) / 2
	return [3]rowTile{{0, rows, full}, {full * rows, hi, 1}, {full*rows + hi, rows + rest - hi, 1}}
}

// block is a block of A, cut into tiles: either in place, with row stride rs and column stride cs, or packed, with rs 0
// and each tile a [k, rows] of its own. Either way row i of the block begins at a[i*step] where a tile begins.
type block struct {
	tiles  [3]rowTile
	a      []float32
	step   int
	rs, cs int
}

// strides returns row and column stride of the tiles of a run, and the step from one to the next.
func (b *block) strides(t rowTile) (rs, cs, step int) {
	if b.rs == 0 {
		return 1, t.rows, t.rows * b.step
	}
	return b.rs, b.cs, t.rows * b.step
}

// packA packs a transposed block of A ([k,m] as stored) into tiles of [k, rows].
func (g *Gemm) packA(t *tiling, m, k int, a []float32, lda int) block {
	// One k more than there is keeps tiles off the same cache sets and takes the surplus lanes.
	step := k + 1
	g.panelA = grow(g.panelA, m*step+packSlack)
	tiles := rowTiles(m, t.rows)
	for _, run := range tiles {
		for i := 0; i < run.count; i += packGroup {
			row := run.first + i*run.rows
			t.packTiles(k, a[row:], lda, run.rows, g.panelA[row*step:], run.rows*step, min(packGroup, run.count-i))
		}
	}
	return block{tiles: tiles, a: g.panelA, step: step}
}

// packTransPlain packs n columns of op(B), stored as rows of length k, one float at a time into columns of stride cols.
func packTransPlain(k, n int, b []float32, ldb int, panel []float32, cols int) {
	for j := range n {
		for p, v := range b[j*ldb : j*ldb+k] {
			panel[p*cols+j] = v
		}
	}
}
