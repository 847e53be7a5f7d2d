//go:build amd64 && !purego

#include "textflag.h"

// func packCopy32(k int64, src *float32, ld int64, mask uint32, dst *float32)
// dst[p*32+j] = src[p*ld+j] where mask has bit j, else 0.
TEXT ·packCopy32(SB), NOSPLIT, $0-40
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), BX
	MOVL mask+24(FP), AX
	MOVQ dst+32(FP), DI
	SHLQ $2, BX
	KMOVW AX, K1
	SHRL $16, AX
	KMOVW AX, K2
copy:
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS.Z 64(SI), K2, Z1
	VMOVUPS Z0, (DI)
	VMOVUPS Z1, 64(DI)
	ADDQ BX, SI
	ADDQ $128, DI
	DECQ CX
	JNZ copy
	VZEROUPPER
	RET

// func packTrans16(quads int64, src *float32, ld int64, dst *float32)
// dst[p*32+i] = src[i*ld+p] for i < 16, p < 4 quads. A register gathers four columns of the rows i, i+4, i+8 and i+12;
// four of them are then transposed within their 128-bit lanes.
TEXT ·packTrans16(SB), NOSPLIT, $0-32
	MOVQ quads+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), R8
	MOVQ dst+24(FP), DI
	SHLQ $2, R8
	LEAQ (R8)(R8*2), R9
	LEAQ (SI)(R8*4), R10
	LEAQ (SI)(R8*8), R11
	LEAQ (R10)(R8*8), R12
quad:
	VMOVUPS (SI), X0
	VMOVUPS (SI)(R8*1), X1
	VMOVUPS (SI)(R8*2), X2
	VMOVUPS (SI)(R9*1), X3
	VINSERTF32X4 $1, (R10), Z0, Z0
	VINSERTF32X4 $1, (R10)(R8*1), Z1, Z1
	VINSERTF32X4 $1, (R10)(R8*2), Z2, Z2
	VINSERTF32X4 $1, (R10)(R9*1), Z3, Z3
	VINSERTF32X4 $2, (R11), Z0, Z0
	VINSERTF32X4 $2, (R11)(R8*1), Z1, Z1
	VINSERTF32X4 $2, (R11)(R8*2), Z2, Z2
	VINSERTF32X4 $2, (R11)(R9*1), Z3, Z3
	VINSERTF32X4 $3, (R12), Z0, Z0
	VINSERTF32X4 $3, (R12)(R8*1), Z1, Z1
	VINSERTF32X4 $3, (R12)(R8*2), Z2, Z2
	VINSERTF32X4 $3, (R12)(R9*1), Z3, Z3
	VUNPCKLPS Z1, Z0, Z4
	VUNPCKHPS Z1, Z0, Z5
	VUNPCKLPS Z3, Z2, Z6
	VUNPCKHPS Z3, Z2, Z7
	VUNPCKLPD Z6, Z4, Z0
	VUNPCKHPD Z6, Z4, Z1
	VUNPCKLPD Z7, Z5, Z2
	VUNPCKHPD Z7, Z5, Z3
	VMOVUPS Z0, (DI)
	VMOVUPS Z1, 128(DI)
	VMOVUPS Z2, 256(DI)
	VMOVUPS Z3, 384(DI)
	ADDQ $16, SI
	ADDQ $16, R10
	ADDQ $16, R11
	ADDQ $16, R12
	ADDQ $512, DI
	DECQ CX
	JNZ quad
	VZEROUPPER
	RET

// func packTiles(k int64, src *float32, ld, rows int64, dst *float32, step, tiles int64)
// dst[t*step+p*rows+i] = src[p*ld+t*rows+i] for i < rows <= 16, t < tiles: rows are read along their length.
TEXT ·packTiles(SB), NOSPLIT, $0-56
	MOVQ k+0(FP), R10
	MOVQ src+8(FP), SI
	MOVQ ld+16(FP), BX
	MOVQ rows+24(FP), R11
	MOVQ dst+32(FP), DI
	MOVQ step+40(FP), DX
	MOVQ R11, CX
	MOVL $1, AX
	SHLL CX, AX
	DECL AX
	KMOVW AX, K1
	SHLQ $2, BX
	SHLQ $2, DX
	SHLQ $2, R11
row:
	MOVQ SI, R8
	MOVQ DI, R9
	MOVQ tiles+48(FP), AX
tile:
	VMOVUPS.Z (R8), K1, Z0
	VMOVUPS Z0, K1, (R9)
	ADDQ R11, R8
	ADDQ DX, R9
	DECQ AX
	JNZ tile
	ADDQ BX, SI
	ADDQ R11, DI
	DECQ R10
	JNZ row
	VZEROUPPER
	RET
