//go:build amd64 && !purego

#include "textflag.h"

// Packing: operands are rearranged so that the micro-kernel walks them with unit stride.

// func packCopy16(k int64, src *float32, ld int64, dst *float32)
// dst[p*16+j] = src[p*ld+j] for j < 16.
TEXT ·packCopy16(SB), NOSPLIT, $0-32
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), BX
	MOVQ dst+24(FP), DI
	SHLQ $2, BX
copy:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ BX, SI
	ADDQ $64, DI
	DECQ CX
	JNZ copy
	VZEROUPPER
	RET

// func packCopy8(k int64, src *float32, ld int64, width int64, dst *float32, stride int64)
// dst[p*stride+j] = src[p*ld+j] for j < width <= 8; nothing beyond width is read. Each row writes 8 lanes, the
// surplus ones before the next row covers them, so dst needs 8 floats of slack.
TEXT ·packCopy8(SB), NOSPLIT, $0-48
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), BX
	MOVQ width+24(FP), AX
	MOVQ dst+32(FP), DI
	MOVQ stride+40(FP), DX
	SHLQ $2, BX
	SHLQ $2, DX
	LEAQ masks<>+32(SB), R8
	SHLQ $2, AX
	SUBQ AX, R8
	VMOVUPS (R8), Y2
copy:
	VMASKMOVPS (SI), Y2, Y0
	VMOVUPS Y0, (DI)
	ADDQ BX, SI
	ADDQ DX, DI
	DECQ CX
	JNZ copy
	VZEROUPPER
	RET

// func packTiles6(k int64, src *float32, ld int64, dst *float32, step, tiles int64)
// dst[t*step+p*6+i] = src[p*ld+t*6+i] for i < 6, t < tiles: rows are read along their length. Each store writes 8
// lanes, so the steps leave 2 floats between tiles.
TEXT ·packTiles6(SB), NOSPLIT, $0-48
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), BX
	MOVQ dst+24(FP), DI
	MOVQ step+32(FP), DX
	SHLQ $2, BX
	SHLQ $2, DX
	VMOVUPS masks<>+8(SB), Y2
row:
	MOVQ SI, R8
	MOVQ DI, R9
	MOVQ tiles+40(FP), AX
tile:
	VMASKMOVPS (R8), Y2, Y0
	VMOVUPS Y0, (R9)
	ADDQ $24, R8
	ADDQ DX, R9
	DECQ AX
	JNZ tile
	ADDQ BX, SI
	ADDQ $24, DI
	DECQ CX
	JNZ row
	VZEROUPPER
	RET

// masks: the eight lanes starting 4*r bytes before the middle have the first r lanes set.
DATA masks<>+0(SB)/8, $0xffffffffffffffff
DATA masks<>+8(SB)/8, $0xffffffffffffffff
DATA masks<>+16(SB)/8, $0xffffffffffffffff
DATA masks<>+24(SB)/8, $0xffffffffffffffff
DATA masks<>+32(SB)/8, $0
DATA masks<>+40(SB)/8, $0
DATA masks<>+48(SB)/8, $0
DATA masks<>+56(SB)/8, $0
GLOBL masks<>(SB), RODATA|NOPTR, $64

#define NEXTROW(FROM, TO, I) \
	LEAQ (FROM)(CX*1), TO; \
	CMPQ DX, $I; \
	CMOVQLE FROM, TO

// func packTrans8(k int64, src *float32, ld int64, rows int64, dst *float32, stride int64)
// dst[p*stride+i] = src[i*ld+p] for i < rows <= 8, k >= 8. Lanes from rows to 8 are written with copies of the last
// row (the next p covers them when stride < 8), so dst needs 8 floats of slack. A k that is no multiple of 8 is
// finished by an overlapping block.
TEXT ·packTrans8(SB), NOSPLIT, $0-48
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), CX
	MOVQ rows+24(FP), DX
	SHLQ $2, CX
	NEXTROW(SI, R8, 1)
	NEXTROW(R8, R9, 2)
	NEXTROW(R9, R10, 3)
	NEXTROW(R10, R11, 4)
	NEXTROW(R11, R12, 5)
	NEXTROW(R12, R13, 6)
	NEXTROW(R13, R14, 7)
	MOVQ k+0(FP), CX
	MOVQ dst+32(FP), DI
	MOVQ stride+40(FP), DX
	SHLQ $2, DX
	XORQ AX, AX // byte offset along k
	SHLQ $2, CX
	SUBQ $32, CX // last offset at which a whole block starts
block:
	VMOVUPS (SI)(AX*1), Y0
	VMOVUPS (R8)(AX*1), Y1
	VMOVUPS (R9)(AX*1), Y2
	VMOVUPS (R10)(AX*1), Y3
	VMOVUPS (R11)(AX*1), Y4
	VMOVUPS (R12)(AX*1), Y5
	VMOVUPS (R13)(AX*1), Y6
	VMOVUPS (R14)(AX*1), Y7
	VUNPCKLPS Y1, Y0, Y8
	VUNPCKHPS Y1, Y0, Y9
	VUNPCKLPS Y3, Y2, Y10
	VUNPCKHPS Y3, Y2, Y11
	VUNPCKLPS Y5, Y4, Y12
	VUNPCKHPS Y5, Y4, Y13
	VUNPCKLPS Y7, Y6, Y14
	VUNPCKHPS Y7, Y6, Y15
	VUNPCKLPD Y10, Y8, Y0
	VUNPCKHPD Y10, Y8, Y1
	VUNPCKLPD Y11, Y9, Y2
	VUNPCKHPD Y11, Y9, Y3
	VUNPCKLPD Y14, Y12, Y4
	VUNPCKHPD Y14, Y12, Y5
	VUNPCKLPD Y15, Y13, Y6
	VUNPCKHPD Y15, Y13, Y7
	VPERM2F128 $0x20, Y4, Y0, Y8
	VPERM2F128 $0x20, Y5, Y1, Y9
	VPERM2F128 $0x20, Y6, Y2, Y10
	VPERM2F128 $0x20, Y7, Y3, Y11
	VPERM2F128 $0x31, Y4, Y0, Y12
	VPERM2F128 $0x31, Y5, Y1, Y13
	VPERM2F128 $0x31, Y6, Y2, Y14
	VPERM2F128 $0x31, Y7, Y3, Y15
	VMOVUPS Y8, (DI)
	VMOVUPS Y9, (DI)(DX*1)
	LEAQ (DI)(DX*2), BX
	VMOVUPS Y10, (BX)
	VMOVUPS Y11, (BX)(DX*1)
	LEAQ (BX)(DX*2), BX
	VMOVUPS Y12, (BX)
	VMOVUPS Y13, (BX)(DX*1)
	LEAQ (BX)(DX*2), BX
	VMOVUPS Y14, (BX)
	VMOVUPS Y15, (BX)(DX*1)
	CMPQ AX, CX
	JEQ done
	ADDQ $32, AX
	LEAQ (BX)(DX*2), DI
	CMPQ AX, CX
	JLE block
	// Step back so that the last block ends with k: both AX and DI go back by the same number of columns.
	MOVQ AX, BX
	SUBQ CX, BX
	MOVQ CX, AX
	IMULQ DX, BX
	SHRQ $2, BX
	SUBQ BX, DI
	JMP block
done:
	VZEROUPPER
	RET
