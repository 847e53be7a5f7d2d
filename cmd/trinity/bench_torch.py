"""Times PyTorch and transformers on the work that trinity bench gives to both sides.

Reads one JSON request a line and answers each with one JSON line. "open" loads a checkpoint; "generate" completes one
prompt n times with the KV cache; "step" does forward, backward and AdamW over a batch of sequences.
"""
import base64
import json
import os
import sys
import time

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever a library prints goes to standard error

try:
    import torch
    import transformers
    from transformers import AutoModelForImageTextToText
except ImportError as e:
    print(json.dumps({"absent": str(e)}), file=answers, flush=True)
    sys.exit(0)
transformers.utils.logging.disable_progress_bar()

LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
IGNORED = -100


def images(pictures):
    """pixel_values and image_grid_thw of {"pixels": base64 of float32, "grid": [t, h, w]}, or nothing."""
    if not pictures:
        return {}
    pixels = [torch.frombuffer(bytearray(base64.b64decode(p["pixels"])), dtype=torch.float32) for p in pictures]
    grids = torch.tensor([p["grid"] for p in pictures])
    patches = [x.view(int(g.prod()), -1) for x, g in zip(pixels, grids)]
    return {"pixel_values": torch.cat(patches), "image_grid_thw": grids}


class Side:
    def open(self, dir, threads, attention, train, rank=0, rate=0.0):
        torch.set_num_threads(threads)
        self.model = AutoModelForImageTextToText.from_pretrained(dir, dtype=torch.float32, attn_implementation=attention)
        self.image = self.model.config.image_token_id
        self.model.train(train != "")
        if train == "lora":
            from peft import LoraConfig, get_peft_model

            where = rf".*language_model.*\.({'|'.join(LINEARS)})"
            self.model = get_peft_model(self.model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=where))
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.trained = trained
        if train:
            self.optimizer = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0, fused=True)
        return {"trainable": sum(p.numel() for p in trained)}

    def generate(self, ids, picture, n, new):
        ids = torch.tensor([ids])
        inputs = images([picture] if picture else [])
        start = time.perf_counter()
        with torch.no_grad():
            out = self.model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=(ids == self.image).int(), **inputs,
                num_return_sequences=n, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=new, min_new_tokens=new,
            )
        seconds = time.perf_counter() - start
        assert out.shape == (n, ids.shape[1] + new), out.shape
        return {"seconds": seconds}

    def step(self, sequences):
        longest = max(len(s["ids"]) for s in sequences)
        pad = [longest - len(s["ids"]) for s in sequences]
        ids = torch.tensor([s["ids"] + [0] * p for s, p in zip(sequences, pad)])
        mask = torch.tensor([[1] * len(s["ids"]) + [0] * p for s, p in zip(sequences, pad)])
        labels = torch.tensor([[IGNORED] * s["prompt"] + s["ids"][s["prompt"]:] + [IGNORED] * p for s, p in zip(sequences, pad)])
        inputs = images([s["picture"] for s in sequences if s.get("picture")])
        start = time.perf_counter()
        loss = self.model(input_ids=ids, attention_mask=mask, labels=labels, mm_token_type_ids=(ids == self.image).int(), **inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {"seconds": time.perf_counter() - start, "loss": loss.item()}


side = Side()
found = f"PyTorch {torch.__version__}, transformers {transformers.__version__}"
print(json.dumps({"found": found}), file=answers, flush=True)
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = getattr(side, request.pop("op"))(**request)
    except Exception as e:  # told to the other side, which says what it was doing
        answer = {"error": f"{type(e).__name__}: {e}"}
    print(json.dumps(answer), file=answers, flush=True)
