//go:build amd64 && !purego

package cpu

//go:noescape
func dotAVX2(n int64, x, y *float32) float32

//go:noescape
func dotRow(n int64, x, w, y *float32)

//go:noescape
func dotRows4(n int64, x, w *float32, ldw int64, y *float32, quads int64)

//go:noescape
func accumulateRowsAVX2(p, v *float32, ldv, rows int64, y *float32, n int64)

//go:noescape
func axpyAVX2(n int64, alpha float32, x, y *float32)

//go:noescape
func scaleAVX2(n int64, alpha float32, x *float32)

//go:noescape
func addAVX2(n int64, dst, x *float32)

//go:noescape
func expShiftAVX2(n int64, shift float32, dst, x *float32) float32

//go:noescape
func sumExpShiftAVX2(n int64, shift float32, x *float32) float32

//go:noescape
func sigmoidAVX2(n int64, dst, x *float32)

//go:noescape
func max8(n int64, x *float32) float32

//go:noescape
func adamWAVX2(n int64, w, grad, m, v *float32, c *float32)

// The functions below take slices that their exported callers found equally long and not empty.

func dot(x, y []float32) float32 {
	if !hasAVX2 {
		return dotPortable(x, y)
	}
	return dotAVX2(int64(len(x)), &x[0], &y[0])
}

func dotRows(x, w []float32, ldw, rows int, y []float32) {
	if !hasAVX2 {
		dotRowsPortable(x, w, ldw, rows, y)
		return
	}
	quads := rows / 4
	if quads > 0 {
		dotRows4(int64(len(x)), &x[0], &w[0], int64(ldw), &y[0], int64(quads))
	}
	for r := 4 * quads; r < rows; r++ {
		dotRow(int64(len(x)), &x[0], &w[r*ldw], &y[r])
	}
}

func accumulateRows(p, v []float32, ldv, rows int, y []float32) {
	if !hasAVX2 {
		accumulateRowsPortable(p, v, ldv, rows, y)
		return
	}
	accumulateRowsAVX2(&p[0], &v[0], int64(ldv), int64(rows), &y[0], int64(len(y)))
}

func axpy(alpha float32, x, y []float32) {
	if !hasAVX2 {
		axpyPortable(alpha, x, y)
		return
	}
	axpyAVX2(int64(len(x)), alpha, &x[0], &y[0])
}

func scale(alpha float32, x []float32) {
	if !hasAVX2 {
		scalePortable(alpha, x)
		return
	}
	scaleAVX2(int64(len(x)), alpha, &x[0])
}

func add(dst, x []float32) {
	if !hasAVX2 {
		addPortable(dst, x)
		return
	}
	addAVX2(int64(len(x)), &dst[0], &x[0])
}

func expShift(dst, x []float32, shift float32) float32 {
	if !hasAVX2 {
		return expShiftPortable(dst, x, shift)
	}
	return expShiftAVX2(int64(len(x)), shift, &dst[0], &x[0])
}

func sumExpShift(x []float32, shift float32) float32 {
	if !hasAVX2 {
		return sumExpShiftPortable(x, shift)
	}
	return sumExpShiftAVX2(int64(len(x)), shift, &x[0])
}

func sigmoid(dst, x []float32) {
	if !hasAVX2 {
		sigmoidPortable(dst, x)
		return
	}
	sigmoidAVX2(int64(len(x)), &dst[0], &x[0])
}

func largest(x []float32) float32 {
	whole := len(x) &^ 7
	if !hasAVX2 || whole == 0 {
		return largestPortable(x)
	}
	top := max8(int64(whole), &x[0])
	if whole < len(x) {
		top = max(top, largestPortable(x[whole:]))
	}
	return top
}

func adamW(w, g, m, v []float32, c *adamWConstants) {
	if !hasAVX2 {
		adamWPortable(w, g, m, v, c)
		return
	}
	adamWAVX2(int64(len(w)), &w[0], &g[0], &m[0], &v[0], &c.gradScale)
}
