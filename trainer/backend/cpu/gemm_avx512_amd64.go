//go:build amd64 && !purego

package cpu

// tile is what the AVX-512 micro-kernels are told; the assembly knows the offsets. The kernels compute tiles stacked
// down C, each of as many rows as the name says and up to 32 columns (wide) or 16 (narrow).
type tile struct {
	k        int64
	a        *float32
	rsA, csA int64 // floats between rows and columns of A
	stepA    int64 // floats from one tile's A to the next
	b        *float32
	rsB      int64
	c        *float32
	ldc      int64
	tiles    int64 // counted down to 0
	mask     uint32
	load     bool // start from C instead of zero
}

//go:noescape
func wide1(t *tile)

//go:noescape
func wide2(t *tile)

//go:noescape
func wide3(t *tile)

//go:noescape
func wide4(t *tile)

//go:noescape
func wide5(t *tile)

//go:noescape
func wide6(t *tile)

//go:noescape
func wide7(t *tile)

//go:noescape
func wide8(t *tile)

//go:noescape
func wide9(t *tile)

//go:noescape
func wide10(t *tile)

//go:noescape
func wide11(t *tile)

//go:noescape
func wide12(t *tile)

//go:noescape
func narrow1(t *tile)

//go:noescape
func narrow2(t *tile)

//go:noescape
func narrow3(t *tile)

//go:noescape
func narrow4(t *tile)

//go:noescape
func narrow5(t *tile)

//go:noescape
func narrow6(t *tile)

//go:noescape
func narrow7(t *tile)

//go:noescape
func narrow8(t *tile)

//go:noescape
func narrow9(t *tile)

//go:noescape
func narrow10(t *tile)

//go:noescape
func narrow11(t *tile)

//go:noescape
func narrow12(t *tile)

// By rows.
var (
	wideKernels   = [...]func(*tile){1: wide1, wide2, wide3, wide4, wide5, wide6, wide7, wide8, wide9, wide10, wide11, wide12}
	narrowKernels = [...]func(*tile){1: narrow1, narrow2, narrow3, narrow4, narrow5, narrow6, narrow7, narrow8, narrow9, narrow10, narrow11, narrow12}
)

//go:noescape
func packCopy32(k int64, src *float32, ld int64, mask uint32, dst *float32)

//go:noescape
func packTrans16(quads int64, src *float32, ld int64, dst *float32)

//go:noescape
func packTiles(k int64, src *float32, ld, rows int64, dst *float32, step, tiles int64)

// avx512N is the number of columns of a wide tile.
const avx512N = 32

var avx512 = tiling{
	rows: 12, cols: avx512N, depth: 256, inPlace: 24,
	packPlain: packPlainAVX512, packTrans: packTransAVX512, packTiles: packTilesAVX512, column: (*Gemm).columnAVX512,
}

// lowBits has the first n bits set.
func lowBits(n int) uint32 { return uint32(1<<n - 1) }

func packPlainAVX512(k, n int, b []float32, ldb int, panel []float32) {
	packCopy32(int64(k), &b[0], int64(ldb), lowBits(n), &panel[0])
}

func packTransAVX512(k, n int, b []float32, ldb int, panel []float32) {
	if k < 8 {
		packTransPlain(k, n, b, ldb, panel, avx512N)
		return
	}
	j := 0
	for ; j+16 <= n; j += 16 {
		src, quads := b[j*ldb:], k/4
		packTrans16(int64(quads), &src[0], int64(ldb), &panel[j])
		if k%4 > 0 { // once more, over the last four
			packTrans16(1, &src[k-4], int64(ldb), &panel[(k-4)*avx512N+j])
		}
	}
	for ; j < n; j += 8 {
		packTrans8(int64(k), &b[j*ldb], int64(ldb), int64(min(8, n-j)), &panel[j], avx512N)
	}
}

func packTilesAVX512(k int, a []float32, lda, rows int, dst []float32, step, tiles int) {
	packTiles(int64(k), &a[0], int64(lda), int64(rows), &dst[0], int64(step), int64(tiles))
}

func (g *Gemm) columnAVX512(k int, b []float32, rsB, n int, c []float32, ldc int, load bool) {
	kernels := &wideKernels
	if n <= avx512N/2 {
		kernels = &narrowKernels
	}
	blk := &g.scratch.block
	for _, t := range blk.tiles {
		if t.count == 0 {
			continue
		}
		rs, cs, step := blk.strides(t)
		g.scratch.tile = tile{
			k: int64(k), a: &blk.a[t.first*blk.step], rsA: int64(rs), csA: int64(cs), stepA: int64(step),
			b: &b[0], rsB: int64(rsB), c: &c[t.first*ldc], ldc: int64(ldc), tiles: int64(t.count), mask: lowBits(n), load: load,
		}
		kernels[t.rows](&g.scratch.tile)
	}
}
