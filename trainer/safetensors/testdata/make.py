# Makes reference.safetensors: pip install safetensors==0.8.0 numpy; python make.py
import numpy as np
from safetensors.numpy import save_file

halves = np.array([0, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0x8000, 0x8001, 0xBC00, 0xFC00], np.uint16)
save_file(
    {
        "half": halves.view(np.float16),
        "single": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
        "scalar": np.array(-1.5, np.float32),
        "empty": np.zeros((0, 4), np.float32),
        "ids": np.arange(3, dtype=np.int64),
        "näme \"q\"": np.ones(1, np.float32),
    },
    "reference.safetensors",
    metadata={"format": "np"},
)
