# Makes the images here, golden.json and transformers.json (run in this folder):
# pip install pillow==13.0.0 numpy transformers==5.25.0 torch==2.9.1 torchvision==0.24.1; python make.py
# Expected pixels are base64 of raw RGB or float32.
import base64, hashlib, json, struct, zlib

import numpy as np
from PIL import Image, ImageOps

rng = np.random.default_rng(7)
b64 = lambda a: base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()


def picture(w, h):
    """Smooth shapes with hard edges and some noise."""
    y, x = np.mgrid[0:h, 0:w]
    p = np.stack([x * 255 / w, y * 255 / h, 127 + 120 * np.sin(x / 3) * np.cos(y / 4)], -1)
    p[h // 4 : h // 2, w // 3 : w // 2] = (250, 20, 10)
    return np.clip(p + rng.normal(0, 6, p.shape), 0, 255).astype(np.uint8)


def png(name, depth, kind, rows):
    """A PNG that Pillow cannot write: rows of big-endian samples."""
    chunk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
    h, w = rows.shape[:2]
    raw = b"".join(b"\0" + r.astype(">u2").tobytes() for r in rows)
    head = struct.pack(">IIBBBBB", w, h, depth, kind, 0, 0, 0)
    with open(name, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def upright_on_white(img):
    img = ImageOps.exif_transpose(img)
    if "transparency" in img.info or img.mode in ("RGBA", "LA", "PA"):
        img = img.convert("RGBA")
        img = Image.alpha_composite(Image.new("RGBA", img.size, (255, 255, 255, 255)), img)
    return np.asarray(img.convert("RGB"))


decode = []


def expect(name, rgb=None, tolerance=0):
    rgb = upright_on_white(Image.open(name)) if rgb is None else rgb
    decode.append({"file": name, "width": rgb.shape[1], "height": rgb.shape[0], "tolerance": tolerance, "rgb": b64(rgb)})


W, H = 19, 13
p = picture(W, H)
alpha = (np.mgrid[0:H, 0:W][1] * 255 // (W - 1)).astype(np.uint8)
rgb = Image.fromarray(p)
rgba = Image.fromarray(np.dstack([p, alpha]))
grey = rgb.convert("L")
rgb.save("rgb.png"); expect("rgb.png")
rgba.save("rgba.png"); expect("rgba.png")
grey.save("grey.png"); expect("grey.png")
Image.merge("LA", [grey, Image.fromarray(alpha)]).save("grey_alpha.png"); expect("grey_alpha.png")
rgb.convert("1").save("bilevel.png"); expect("bilevel.png")
rgb.quantize(16).save("palette.png"); expect("palette.png")
rgb.quantize(16).save("palette_alpha.png", transparency=bytes([0, 100, 255, 30] + [255] * 12)); expect("palette_alpha.png")
rgb.save("key.png", transparency=tuple(int(v) for v in p[0, 0])); expect("key.png")
deep = rng.integers(0, 65536, (H, W, 3))
png("rgb16.png", 16, 2, deep.reshape(H, W * 3)[:, :].reshape(H, W, 3)); expect("rgb16.png", (deep >> 8).astype(np.uint8))
png("grey16.png", 16, 0, deep[:, :, :1]); expect("grey16.png", np.repeat(deep[:, :, :1] >> 8, 3, 2).astype(np.uint8))
rgb.save("rgb.webp", lossless=True); expect("rgb.webp")
rgba.save("rgba.webp", lossless=True, exact=True); expect("rgba.webp")
rgb.quantize(16).save("still.gif"); expect("still.gif")
frames = [rgb.quantize(8), rgb.transpose(Image.Transpose.FLIP_LEFT_RIGHT).quantize(8)]
frames[0].save("animated.gif", save_all=True, append_images=frames[1:]); expect("animated.gif")
# Lossy: decoders differ by a few levels, so the pictures are smooth.
y, x = np.mgrid[0:24, 0:40]
smooth = np.stack([40 + x * 4, 30 + y * 8, 200 - x * 2 - y * 2], -1).astype(np.uint8)
Image.fromarray(smooth).save("lossy.webp", quality=95); expect("lossy.webp", tolerance=2)
Image.fromarray(np.dstack([smooth, np.full((24, 40), 128, np.uint8)])).save("lossy_alpha.webp", quality=95); expect("lossy_alpha.webp", tolerance=2)
Image.fromarray(smooth).convert("L").save("grey.jpg", quality=95); expect("grey.jpg", tolerance=2)
Image.fromarray(smooth).save("progressive.jpg", quality=95, progressive=True, subsampling=0); expect("progressive.jpg", tolerance=2)
Image.fromarray(smooth).convert("CMYK").save("cmyk.jpg", quality=95); expect("cmyk.jpg", tolerance=2)
photo = picture(37, 27)  # odd sides; hard edges and noise
for name, kind in [("photo420", "4:2:0"), ("photo422", "4:2:2"), ("photo444", "4:4:4")]:
    Image.fromarray(photo).save(name + ".jpg", quality=90, subsampling=kind); expect(name + ".jpg", tolerance=3)
Image.fromarray(photo).save("photo.webp", quality=90); expect("photo.webp", tolerance=2)
for o in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = o
    Image.fromarray(smooth).save(f"orientation{o}.jpg", quality=90, exif=exif); expect(f"orientation{o}.jpg", tolerance=2)

big = Image.open("rgb.png")
resize = []
for w, h in [(19, 13), (38, 26), (7, 5), (19, 40), (3, 13), (1, 1), (100, 9), (20, 14), (18, 12), (8, 64)]:
    resize.append({"width": w, "height": h, "rgb": b64(np.asarray(big.resize((w, h), Image.Resampling.BICUBIC)))})

process = []
for name, patch, mean, std in [
    ("clip", 4, [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]),
    ("half", 4, [0.5] * 3, [0.5] * 3),
]:
    m, t, h, w = 2, 2, 16, 16  # 19x13 -> 16x16 (13/8 and 19/8 round to 2)
    a = np.asarray(big.resize((w, h), Image.Resampling.BICUBIC)).astype(np.float64) / 255
    a = ((a - mean) / std).transpose(2, 0, 1)
    a = np.stack([a] * t)  # [T, C, H, W]
    a = a.reshape(1, t, 3, h // patch // m, m, patch, w // patch // m, m, patch)
    a = a.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(h // patch * (w // patch), -1)
    process.append({"name": name, "patch": patch, "mean": mean, "std": std, "rows": a.shape[0], "data": b64(a.astype("<f4"))})

json.dump({"decode": decode, "resize": resize, "process": process}, open("golden.json", "w"), indent=0)


# What transformers' own image processor makes of pictures of many sizes, under the settings that the models are released with
# and smaller ones, in which all branches of the resizing are met.
from transformers import Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize


def pattern(w, h):
    """Slopes, edges and noise in integers, which the test makes again."""
    y, x, c = np.mgrid[0:h, 0:w, 0:3]
    v = (x * (3 + c) + y * (5 - c) + x * y % (31 + c)) & 255
    return np.where((x // 9 + y // 7) % 5 == c, 255 - v, v).astype(np.uint8)


clip = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
even = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
qwen2_5 = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, **clip, "image_processor_type": "Qwen2VLImageProcessor"}
qwen3 = {"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, **even, "image_processor_type": "Qwen2VLImageProcessorFast"}
small2_5 = {**qwen2_5, "max_pixels": 40 * 28 * 28}
small3 = {**qwen3, "size": {"longest_edge": 40 * 32 * 32, "shortest_edge": 4 * 32 * 32}}
odd = {**qwen3, "size": {"longest_edge": 4096, "shortest_edge": 256}, "patch_size": 4, "temporal_patch_size": 3, "merge_size": 4}
cases = [
    (qwen2_5, [(640, 480), (1, 1), (3, 500), (70, 42), (98, 126), (57, 55)]),  # 70/28, 42/28, 98/28, 126/28 end in .5
    (qwen3, [(320, 240), (1, 1), (10, 900), (272, 304), (656, 640)]),  # 272/32, 304/32, 656/32 end in .5
    (small2_5, [(500, 60), (60, 500), (1000, 700), (14, 14), (199, 1)]),
    (small3, [(48, 80), (1280, 32), (33, 999), (16, 16), (150, 1)]),
    (odd, [(100, 70), (24, 40), (7, 5), (64, 64)]),
]
process = []
for config, shapes in cases:
    processor = Qwen2VLImageProcessorPil(**{k: v for k, v in config.items() if k != "image_processor_type"})
    for w, h in shapes:
        out = processor(images=[Image.fromarray(pattern(w, h))], return_tensors="np")
        a, (t, gh, gw) = out["pixel_values"].astype("<f4"), map(int, out["image_grid_thw"][0])
        assert t == 1
        flat = a.reshape(-1)
        process.append({"config": config, "width": w, "height": h, "gridH": gh, "gridW": gw, "first": float(flat[0]), "middle": float(flat[flat.size // 2]),
                        "last": float(flat[-1]), "sha256": hashlib.sha256(flat.tobytes()).hexdigest()})
sizes = []
draw = np.random.default_rng(8)
for _ in range(400):
    patch = int(draw.choice([14, 16]))
    factor = 2 * patch
    least = int(draw.integers(1, 64)) * factor * factor
    most = least * int(draw.integers(1, 40))
    h = int(draw.choice([draw.integers(1, 60), draw.integers(1, 4000), draw.integers(1, 200) * patch]))
    w = int(draw.choice([draw.integers(1, 60), draw.integers(1, 4000), draw.integers(1, 200) * patch]))
    if max(h, w) > 200 * min(h, w):
        continue
    wh, ww = smart_resize(h, w, factor, least, most)
    sizes.append({"patch": patch, "min": least, "max": most, "height": h, "width": w, "wantHeight": wh, "wantWidth": ww})
lines = lambda rows: "[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]"
with open("transformers.json", "w") as f:
    f.write('{"process": ' + lines(process) + ',\n"sizes": ' + lines(sizes) + "}\n")
