"""Times OpenBLAS's sgemm. Reads lines "threads transA transB m n k seconds", answers each with seconds per call,
the best of four parts of the time allowed."""
import ctypes
import sys
import time

blas = None
for name in ("libopenblas.so.0", "libopenblas.so"):
    try:
        blas = ctypes.CDLL(name)
        break
    except OSError:
        pass
if blas is None:
    print("absent", flush=True)
    sys.exit(0)
blas.openblas_get_config.restype = ctypes.c_char_p
print("found", blas.openblas_get_config().decode(), flush=True)

ROW, PLAIN, TRANS = 101, 111, 112


def run(call, args, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call(*args)
    return (time.perf_counter() - start) / repeats


def matrix(n):
    # Plain floats in [-1, 1): what is multiplied must not be subnormal or special.
    return (ctypes.c_float * n)(*[((i * 7919) % 2048) / 1024 - 1 for i in range(n)])


operands = {}
for line in sys.stdin:
    threads, ta, tb, m, n, k, seconds = line.split()
    threads, ta, tb, m, n, k, seconds = int(threads), int(ta), int(tb), int(m), int(n), int(k), float(seconds)
    if (m, n, k) not in operands:
        operands = {(m, n, k): (matrix(m * k), matrix(k * n), matrix(m * n))}
    a, b, c = operands[(m, n, k)]
    args = [
        ctypes.c_int(ROW), ctypes.c_int(TRANS if ta else PLAIN), ctypes.c_int(TRANS if tb else PLAIN),
        ctypes.c_int(m), ctypes.c_int(n), ctypes.c_int(k), ctypes.c_float(1), a, ctypes.c_int(m if ta else k),
        b, ctypes.c_int(k if tb else n), ctypes.c_float(0), c, ctypes.c_int(n),
    ]
    blas.openblas_set_num_threads(threads)
    run(blas.cblas_sgemm, args, 2)
    once = run(blas.cblas_sgemm, args, 3)
    spent = min(run(blas.cblas_sgemm, args, max(1, int(seconds / 4 / once))) for _ in range(4))
    # A call with m = 0 does nothing: what it takes is ctypes' own share.
    empty = args[:3] + [ctypes.c_int(0)] + args[4:]
    spent -= min(run(blas.cblas_sgemm, empty, 200) for _ in range(3))
    if threads > 1:
        # Its idle threads spin for a tenth of a second; let them fall asleep before the other side is timed.
        blas.openblas_set_num_threads(1)
        time.sleep(0.125)
    print(spent, flush=True)
