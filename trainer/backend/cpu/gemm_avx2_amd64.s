//go:build amd64 && !purego

#include "textflag.h"

// Outer-product micro-kernels: up to 6 rows by 16 columns of C live in Y4..Y15 while k runs. Both operands have free
// strides, so A is read where it lies or packed, and B likewise. Every element of C is one chain of fused
// multiply-adds in the order of k, in every kernel alike: that makes a row's bits independent of its tile.
//
//	CX k    SI rows 0..2 of A   R10 rows 3..5 of A   R8, R9 row and column stride of A   R12 step of A to the next tile
//	DI B    R11 row stride of B   DX C   BX row stride of C   R13 tiles left   AX counter   R15, Y0..Y3 scratch

#define LOADARGS \
	MOVQ k+0(FP), CX; \
	MOVQ a+8(FP), SI; \
	MOVQ rsA+16(FP), R8; \
	MOVQ csA+24(FP), R9; \
	MOVQ stepA+32(FP), R12; \
	MOVQ b+40(FP), DI; \
	MOVQ rsB+48(FP), R11; \
	MOVQ c+56(FP), DX; \
	MOVQ ldc+64(FP), BX; \
	MOVQ tiles+72(FP), R13; \
	SHLQ $2, R8; \
	SHLQ $2, R9; \
	SHLQ $2, R12; \
	SHLQ $2, R11; \
	SHLQ $2, BX

#define ZERO(P, Q) \
	VXORPS P, P, P; \
	VXORPS Q, Q, Q

#define FETCH(P, Q) \
	VMOVUPS (R15), P; \
	VMOVUPS 32(R15), Q; \
	ADDQ BX, R15

#define STORE(P, Q) \
	VMOVUPS P, (DX); \
	VMOVUPS Q, 32(DX); \
	ADDQ BX, DX

#define LOADB \
	VMOVUPS (DI), Y0; \
	VMOVUPS 32(DI), Y1; \
	ADDQ R11, DI

#define FMA2(P, Q, S) \
	VFMADD231PS Y0, S, P; \
	VFMADD231PS Y1, S, Q

#define STEP1 \
	LOADB; \
	VBROADCASTSS (SI), Y2; \
	ADDQ R9, SI; \
	FMA2(Y4, Y5, Y2)

#define STEP2 \
	LOADB; \
	VBROADCASTSS (SI), Y2; \
	VBROADCASTSS (SI)(R8*1), Y3; \
	ADDQ R9, SI; \
	FMA2(Y4, Y5, Y2); \
	FMA2(Y6, Y7, Y3)

#define STEP3 \
	LOADB; \
	VBROADCASTSS (SI), Y2; \
	VBROADCASTSS (SI)(R8*1), Y3; \
	FMA2(Y4, Y5, Y2); \
	FMA2(Y6, Y7, Y3); \
	VBROADCASTSS (SI)(R8*2), Y2; \
	ADDQ R9, SI; \
	FMA2(Y8, Y9, Y2)

#define STEP4 \
	STEP3; \
	VBROADCASTSS (R10), Y3; \
	ADDQ R9, R10; \
	FMA2(Y10, Y11, Y3)

#define STEP5 \
	STEP3; \
	VBROADCASTSS (R10), Y3; \
	VBROADCASTSS (R10)(R8*1), Y2; \
	ADDQ R9, R10; \
	FMA2(Y10, Y11, Y3); \
	FMA2(Y12, Y13, Y2)

#define STEP6 \
	STEP3; \
	VBROADCASTSS (R10), Y3; \
	VBROADCASTSS (R10)(R8*1), Y2; \
	FMA2(Y10, Y11, Y3); \
	FMA2(Y12, Y13, Y2); \
	VBROADCASTSS (R10)(R8*2), Y3; \
	ADDQ R9, R10; \
	FMA2(Y14, Y15, Y3)

// RUN spends all of k on one tile.
#define RUN(STEP) \
	MOVQ CX, AX; \
	SHRQ $2, AX; \
	JZ tail; \
quad: \
	STEP; \
	STEP; \
	STEP; \
	STEP; \
	DECQ AX; \
	JNZ quad; \
tail: \
	MOVQ CX, AX; \
	ANDQ $3, AX; \
	JZ done; \
one: \
	STEP; \
	DECQ AX; \
	JNZ one; \
done:

// BEGIN puts the second A pointer three rows down; NEXT moves to the tile below, with B from its start again.
#define BEGIN \
tile: \
	LEAQ (R8)(R8*2), R10; \
	ADDQ SI, R10; \
	MOVQ SI, R14; \
	MOVQ DX, R15; \
	CMPB load+80(FP), $0; \
	JNE fetch

#define NEXT \
	LEAQ (R14)(R12*1), SI; \
	MOVQ b+40(FP), DI; \
	DECQ R13; \
	JNZ tile; \
	VZEROUPPER; \
	RET

// func tile6(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)
TEXT ·tile6(SB), NOSPLIT, $0-81
	LOADARGS
	BEGIN
	ZERO(Y4, Y5)
	ZERO(Y6, Y7)
	ZERO(Y8, Y9)
	ZERO(Y10, Y11)
	ZERO(Y12, Y13)
	ZERO(Y14, Y15)
	JMP run
fetch:
	FETCH(Y4, Y5)
	FETCH(Y6, Y7)
	FETCH(Y8, Y9)
	FETCH(Y10, Y11)
	FETCH(Y12, Y13)
	FETCH(Y14, Y15)
run:
	RUN(STEP6)
	STORE(Y4, Y5)
	STORE(Y6, Y7)
	STORE(Y8, Y9)
	STORE(Y10, Y11)
	STORE(Y12, Y13)
	STORE(Y14, Y15)
	NEXT

// func tile5(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)
TEXT ·tile5(SB), NOSPLIT, $0-81
	LOADARGS
	BEGIN
	ZERO(Y4, Y5)
	ZERO(Y6, Y7)
	ZERO(Y8, Y9)
	ZERO(Y10, Y11)
	ZERO(Y12, Y13)
	JMP run
fetch:
	FETCH(Y4, Y5)
	FETCH(Y6, Y7)
	FETCH(Y8, Y9)
	FETCH(Y10, Y11)
	FETCH(Y12, Y13)
run:
	RUN(STEP5)
	STORE(Y4, Y5)
	STORE(Y6, Y7)
	STORE(Y8, Y9)
	STORE(Y10, Y11)
	STORE(Y12, Y13)
	NEXT

// func tile4(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)
TEXT ·tile4(SB), NOSPLIT, $0-81
	LOADARGS
	BEGIN
	ZERO(Y4, Y5)
	ZERO(Y6, Y7)
	ZERO(Y8, Y9)
	ZERO(Y10, Y11)
	JMP run
fetch:
	FETCH(Y4, Y5)
	FETCH(Y6, Y7)
	FETCH(Y8, Y9)
	FETCH(Y10, Y11)
run:
	RUN(STEP4)
	STORE(Y4, Y5)
	STORE(Y6, Y7)
	STORE(Y8, Y9)
	STORE(Y10, Y11)
	NEXT

// func tile3(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)
TEXT ·tile3(SB), NOSPLIT, $0-81
	LOADARGS
	BEGIN
	ZERO(Y4, Y5)
	ZERO(Y6, Y7)
	ZERO(Y8, Y9)
	JMP run
fetch:
	FETCH(Y4, Y5)
	FETCH(Y6, Y7)
	FETCH(Y8, Y9)
run:
	RUN(STEP3)
	STORE(Y4, Y5)
	STORE(Y6, Y7)
	STORE(Y8, Y9)
	NEXT

// func tile2(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)
TEXT ·tile2(SB), NOSPLIT, $0-81
	LOADARGS
	BEGIN
	ZERO(Y4, Y5)
	ZERO(Y6, Y7)
	JMP run
fetch:
	FETCH(Y4, Y5)
	FETCH(Y6, Y7)
run:
	RUN(STEP2)
	STORE(Y4, Y5)
	STORE(Y6, Y7)
	NEXT

// func tile1(k int64, a *float32, rsA, csA, stepA int64, b *float32, rsB int64, c *float32, ldc, tiles int64, load bool)
TEXT ·tile1(SB), NOSPLIT, $0-81
	LOADARGS
	BEGIN
	ZERO(Y4, Y5)
	JMP run
fetch:
	FETCH(Y4, Y5)
run:
	RUN(STEP1)
	STORE(Y4, Y5)
	NEXT
