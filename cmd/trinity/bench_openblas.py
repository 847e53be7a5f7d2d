"""Times OpenBLAS's sgemm. Reads lines "threads transA transB m n k seconds", answers each with seconds per call,
the best of four parts of the time allowed."""
import ctypes
import glob
import importlib.util
import os
import sys
import time



def candidates():
    """Libraries to try, each with how it spells a function and what its integers are: the system's, then NumPy's own."""
    for name in ("libopenblas.so.0", "libopenblas.so"):
        yield name, "{}", ctypes.c_int
    spec = importlib.util.find_spec("numpy")
    if spec:
        for path in glob.glob(os.path.join(spec.submodule_search_locations[0], "..", "numpy.libs", "libscipy_openblas64_*.so")):
            yield path, "scipy_{}64_", ctypes.c_int64


for name, spelling, integer in candidates():
    try:
        blas = ctypes.CDLL(name)
        config, set_threads, sgemm = (getattr(blas, spelling.format(f)) for f in ("openblas_get_config", "openblas_set_num_threads", "cblas_sgemm"))
        break
    except (OSError, AttributeError):
        pass
else:
    print("absent", flush=True)
    sys.exit(0)
config.restype = ctypes.c_char_p
print("found", config().decode(), flush=True)

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
        integer(m), integer(n), integer(k), ctypes.c_float(1), a, integer(m if ta else k),
        b, integer(k if tb else n), ctypes.c_float(0), c, integer(n),
    ]
    set_threads(threads)
    run(sgemm, args, 2)
    once = run(sgemm, args, 3)
    spent = min(run(sgemm, args, max(1, int(seconds / 4 / once))) for _ in range(4))
    # A call with m = 0 does nothing: what it takes is ctypes' own share.
    empty = args[:3] + [integer(0)] + args[4:]
    spent -= min(run(sgemm, empty, 200) for _ in range(3))
    if threads > 1:
        # Its idle threads spin for a tenth of a second; let them fall asleep before the other side is timed.
        set_threads(1)
        time.sleep(0.125)
    print(spent, flush=True)
