"""Makes tiny random checkpoints of both families and what PyTorch, transformers, PEFT and TRL compute with them.

    pip install -r requirements.txt && python make.py [qwen3_vl] [qwen2_5_vl]

Everything is float32 on the CPU with attention computed plainly (attn_implementation="eager"). For each family it writes,
in a folder of its name: a checkpoint as on the hub, adapter/ as PEFT saves it, golden.json (numbers and token ids) and
golden.safetensors (tensors). Rows of several sequences are stored one after the other, without padding.
"""
import json
import math
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", CUDA_VISIBLE_DEVICES="")
import numpy as np
import peft
import safetensors.torch
import tokenizers
import torch
import torchvision
import transformers
import trl
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

here = os.path.dirname(os.path.abspath(__file__))
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
transformers.utils.logging.disable_progress_bar()

IGNORED = -100
NEW_TOKENS = 32
MARGIN = 1e-3  # by which the likeliest token must lead at every greedy step, far above rounding
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
DEFAULT_SYSTEM = "You are a helpful assistant."
CHATML = (
    r"{% for m in messages %}DEFAULT{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    r"{% if part.type == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}"
    r"{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WITH_SYSTEM = r"{% if loop.first and m.role != 'system' %}{{ '<|im_start|>system\n" + DEFAULT_SYSTEM + r"<|im_end|>\n' }}{% endif %}"

# The images are larger than a window of 4x4 tokens and no multiple of it: 4x5 (enlarged to min_pixels), 9x7 and 3x17 tokens
# (shrunk to max_pixels), in (height, width).
SIZES = {"small": (20, 28), "large": (73, 55), "wide": (40, 200)}
PIXELS = {"min": 1024, "max": 4096}
PROMPTS = [
    {"system": "Answer with a number.", "image": "small", "user": "How many red bars are there?"},
    {"image": "large", "user": "Which colour is the largest area of this figure, and why?"},
    {"image": "wide", "user": "Read the title."},
    {"system": "You check answers.", "user": "Is 3/4 the same as 0.75? Say yes or no."},
]
SEQUENCES = [  # completions, of 4 to about 40 tokens; two prompts have two, which Go computes with a shared prefix
    {"prompt": 0, "text": "4", "advantage": 1.2},
    {"prompt": 0, "text": "There are three red bars, so the answer is 3.", "advantage": -0.8},
    {"prompt": 1, "text": "Blue, since the water takes up most of the map.", "advantage": 0.5},
    {"prompt": 2, "text": "Title: x", "advantage": -1.3},
    {"prompt": 2, "text": "It says: rainfall by month (mm), 1990 to 2020", "advantage": 0.9},
    {"prompt": 3, "text": "yes", "advantage": 1.0},
]
LORA = {"rank": 4, "alpha": 8}
GSPO = {"clip_low": 3e-4, "clip_high": 4e-4, "regulariser": 0.10}
OPTIMIZER = {"learning_rate": 2e-3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "warmup_steps": 2,
             "minimum_factor": 0.1, "gradient_clip": 1.0}
STEPS, SCHEDULE = 3, 5  # updates made, of the steps that the schedule is laid out for

QWEN3 = {
    "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "tie_word_embeddings": True,
    "text_config": {
        "attention_bias": False, "attention_dropout": 0.0, "dtype": "float32", "head_dim": 16, "hidden_act": "silu", "hidden_size": 48,
        "initializer_range": 0.02, "intermediate_size": 84, "max_position_embeddings": 4096, "model_type": "qwen3_vl_text",
        "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_scaling": {"mrope_interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default"}, "rope_theta": 5000000,
        "use_cache": True,
    },
    "vision_config": {
        "deepstack_visual_indexes": [0, 1, 2], "depth": 4, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 32, "in_channels": 3,
        "initializer_range": 0.02, "intermediate_size": 52, "model_type": "qwen3_vl", "num_heads": 2, "num_position_embeddings": 36,
        "out_hidden_size": 48, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2,
    },
}
QWEN2_5 = {  # text settings at the top, as on the hub
    "architectures": ["Qwen2_5_VLForConditionalGeneration"], "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 64,
    "initializer_range": 0.02, "intermediate_size": 76, "max_position_embeddings": 4096, "max_window_layers": 4, "model_type": "qwen2_5_vl",
    "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 4096, "tie_word_embeddings": False, "torch_dtype": "float32", "use_cache": True, "use_sliding_window": False,
    "vision_config": {
        "depth": 4, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 52, "num_heads": 2, "in_chans": 3, "out_hidden_size": 64,
        "patch_size": 4, "spatial_merge_size": 2, "spatial_patch_size": 4, "window_size": 32, "fullatt_block_indexes": [1, 3],
        "tokens_per_second": 2, "temporal_patch_size": 2,
    },
    "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
}
PREPROCESSOR = {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 4, "temporal_patch_size": 2, "merge_size": 2}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
FAMILIES = {
    "qwen3_vl": {
        "seed": 3, "config": QWEN3, "model": transformers.Qwen3VLForConditionalGeneration, "processor": transformers.Qwen3VLProcessor,
        "video": transformers.Qwen3VLVideoProcessor, "template": CHATML.replace("DEFAULT", ""), "hub_name": lambda name: name,
        "preprocessor": PREPROCESSOR | {"size": {"shortest_edge": PIXELS["min"], "longest_edge": PIXELS["max"]}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
    },
    "qwen2_5_vl": {
        "seed": 25, "config": QWEN2_5, "model": transformers.Qwen2_5_VLForConditionalGeneration, "processor": transformers.Qwen2_5_VLProcessor,
        "video": transformers.Qwen2VLVideoProcessor, "template": CHATML.replace("DEFAULT", WITH_SYSTEM),
        "hub_name": lambda name: name.replace("model.visual.", "visual.").replace("model.language_model.", "model."),
        "preprocessor": PREPROCESSOR | CLIP | {"min_pixels": PIXELS["min"], "max_pixels": PIXELS["max"]},
    },
}


def draw_images():
    """Pictures with gradients, an edge and noise."""
    rng = np.random.default_rng(11)
    os.makedirs(os.path.join(here, "images"), exist_ok=True)
    out = {}
    for name, (h, w) in SIZES.items():
        y, x = np.mgrid[0:h, 0:w]
        p = np.stack([x * 255 / w, y * 255 / h, 127 + 120 * np.sin(x / 3) * np.cos(y / 4)], -1)
        p[h // 4 : h // 2, w // 3 : w // 2] = (250, 20, 10)
        path = os.path.join(here, "images", name + ".png")
        Image.fromarray(np.clip(p + rng.normal(0, 12, p.shape), 0, 255).astype(np.uint8)).save(path, optimize=True)
        out[name] = Image.open(path).convert("RGB")
    return out


def make_tokenizer():
    """A byte-level BPE with Qwen's splitting and special tokens, trained on the texts above."""
    tok = tokenizers.Tokenizer(tokenizers.models.BPE())
    tok.normalizer = tokenizers.normalizers.NFC()
    split = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tok.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(split), "isolated", invert=False),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tok.decoder = tokenizers.decoders.ByteLevel()
    texts = [p["user"] + "\n" + p.get("system", "") for p in PROMPTS] + [s["text"] for s in SEQUENCES] + ["system\nuser\nassistant\n", DEFAULT_SYSTEM]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=330, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(texts, trainer)
    tok.add_special_tokens([tokenizers.AddedToken(s, special=True, normalized=False) for s in SPECIALS])
    return tok


def complete_config(config, tok):
    """The token ids, and a vocabulary with rows to spare, as released checkpoints have."""
    ids = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>", "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    c = json.loads(json.dumps(config)) | {k: tok.token_to_id(v) for k, v in ids.items()}
    text = c.get("text_config", c)
    text |= {"vocab_size": tok.get_vocab_size() + 7, "bos_token_id": tok.token_to_id("<|endoftext|>"), "eos_token_id": tok.token_to_id("<|im_end|>")}
    return c


@torch.no_grad()
def draw_weights(model, seed):
    """Every tensor random, also norms and biases, so that each one matters to the result."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if name.endswith("bias"):
            p.copy_(0.1 * noise)
        elif p.dim() == 1:
            p.copy_(1 + 0.2 * noise)
        elif "embed_tokens" in name or "pos_embed" in name:
            p.copy_(0.2 * noise)
        else:
            p.copy_(noise / math.sqrt(p[0].numel()))


def messages(prompt):
    """A prompt as a conversation: the system's turn where there is one, then the image before the text."""
    content = [{"type": "image"}] * ("image" in prompt) + [{"type": "text", "text": prompt["user"]}]
    system = [{"role": "system", "content": prompt["system"]}] if "system" in prompt else []
    return [*system, {"role": "user", "content": content}]


def write_checkpoint(dir, family, config, tok):
    os.makedirs(dir, exist_ok=True)
    tok.save(os.path.join(dir, "tokenizer.json"))
    for name, content in {
        "config.json": config,
        "preprocessor_config.json": family["preprocessor"],
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    }.items():
        with open(os.path.join(dir, name), "w") as f:
            json.dump(content, f, indent=1)
            f.write("\n")
    with open(os.path.join(dir, "chat_template.jinja"), "w") as f:
        f.write(family["template"])
    # The class reads its config as it does a downloaded one's, and then draws.
    model = family["model"](family["model"].config_class.from_pretrained(dir))
    draw_weights(model, family["seed"])
    tied = {"lm_head.weight"} if config["tie_word_embeddings"] else set()
    weights = {family["hub_name"](k): v.contiguous() for k, v in model.state_dict().items() if k not in tied}
    safetensors.torch.save_file(weights, os.path.join(dir, "model.safetensors"), metadata={"format": "pt"})


class Reference:
    """A family's checkpoint under transformers, with the batch that everything is computed on."""

    def __init__(self, dir, family, images):
        self.dir, self.family = dir, family
        self.tok = transformers.PreTrainedTokenizerFast.from_pretrained(dir)
        self.tok.padding_side = "right"
        p = json.load(open(os.path.join(dir, "preprocessor_config.json")))
        p.pop("image_processor_type")
        self.image_processor = Qwen2VLImageProcessorPil(**p)
        self.image_processor_torch = transformers.Qwen2VLImageProcessor(**p)
        self.processor = family["processor"](image_processor=self.image_processor, tokenizer=self.tok, video_processor=family["video"](), chat_template=family["template"])
        self.prompts = []
        for q in PROMPTS:
            text = self.processor.apply_chat_template(messages(q), add_generation_prompt=True, tokenize=False)
            inputs = self.processor(text=[text], images=[images[q["image"]]] if "image" in q else None, return_tensors="pt")
            self.prompts.append(dict(inputs))
        end = self.tok.convert_tokens_to_ids("<|im_end|>")
        self.completions = [self.tok.encode(s["text"], add_special_tokens=False) + [end] for s in SEQUENCES]
        self.lengths = [self.prompts[s["prompt"]]["input_ids"].shape[1] + len(c) for s, c in zip(SEQUENCES, self.completions)]
        self.inputs, self.labels = self.batch()

    def load(self):
        return self.family["model"].from_pretrained(self.dir, dtype=torch.float32, attn_implementation="eager").eval()

    def load_lora(self):
        return peft.PeftModel.from_pretrained(self.load(), os.path.join(self.dir, "adapter"), is_trainable=True)

    def batch(self):
        """All sequences in one batch, padded on the right."""
        longest, pad = max(self.lengths), self.tok.pad_token_id
        rows, labels = [], []
        for s, c in zip(SEQUENCES, self.completions):
            prompt = self.prompts[s["prompt"]]["input_ids"][0].tolist()
            fill = longest - len(prompt) - len(c)
            rows.append(prompt + c + [pad] * fill)
            labels.append([IGNORED] * len(prompt) + c + [IGNORED] * fill)
        ids = torch.tensor(rows)
        mask = torch.arange(longest)[None] < torch.tensor(self.lengths)[:, None]
        pictures = [self.prompts[s["prompt"]] for s in SEQUENCES if "pixel_values" in self.prompts[s["prompt"]]]
        inputs = {"input_ids": ids, "attention_mask": mask.long(), "mm_token_type_ids": (ids == self.processor.image_token_id).int(),
                  "pixel_values": torch.cat([p["pixel_values"] for p in pictures]), "image_grid_thw": torch.cat([p["image_grid_thw"] for p in pictures])}
        return inputs, torch.tensor(labels)

    def rows(self, x):
        """The rows of [batch, position, ...] that are no padding."""
        return torch.cat([x[i, :n] for i, n in enumerate(self.lengths)])

    def log_probs(self, model):
        """Log-probs of the completions' tokens, a list of one tensor a sequence."""
        logits = model(**self.inputs).logits
        lp = torch.log_softmax(logits, -1)
        return [lp[i, n - len(c) - 1 : n - 1].gather(1, torch.tensor(c)[:, None])[:, 0] for i, (n, c) in enumerate(zip(self.lengths, self.completions))]

    def cross_entropy(self, model):
        return {"total": model(**self.inputs, labels=self.labels).loss}

    def gspo(self, model, old):
        """Eq. 3 from its definition: the mean over rollouts of -min(rho A, clip(rho) A) + c mean_t(e^l - l - 1)."""
        policy, regulariser, ratios, clipped = [], [], [], []
        for lp, o, s in zip(self.log_probs(model), old, SEQUENCES):
            l, advantage = lp - o, s["advantage"]
            rho = l.mean().exp()
            bounds = 1 - GSPO["clip_low"], 1 + GSPO["clip_high"]
            distance = min(abs(rho.item() - b) for b in bounds)
            assert distance > 2e-5, f"the ratio {rho.item()} is too near a clip bound to compare"
            policy.append(-torch.minimum(rho * advantage, rho.clamp(*bounds) * advantage))
            regulariser.append(GSPO["regulariser"] * (l.exp() - l - 1).mean())
            ratios.append(rho.item())
            clipped.append(bool(rho > bounds[1] if advantage > 0 else rho < bounds[0]))
        policy, regulariser = torch.stack(policy), torch.stack(regulariser)
        return {"total": (policy + regulariser).mean(), "policy": policy.mean(), "regulariser": regulariser.mean(), "ratios": ratios, "clipped": clipped}

    def greedy(self, model):
        """The likeliest tokens after every prompt, from one batch padded on the left."""
        longest, pad = max(p["input_ids"].shape[1] for p in self.prompts), self.tok.pad_token_id
        ids = torch.tensor([[pad] * (longest - p["input_ids"].shape[1]) + p["input_ids"][0].tolist() for p in self.prompts])
        mask = torch.tensor([[0] * (longest - p["input_ids"].shape[1]) + [1] * p["input_ids"].shape[1] for p in self.prompts])
        pictures = [p for p in self.prompts if "pixel_values" in p]
        with torch.no_grad():
            out = model.generate(
                input_ids=ids, attention_mask=mask, mm_token_type_ids=(ids == self.processor.image_token_id).int(),
                pixel_values=torch.cat([p["pixel_values"] for p in pictures]), image_grid_thw=torch.cat([p["image_grid_thw"] for p in pictures]),
                do_sample=False, max_new_tokens=NEW_TOKENS, eos_token_id=None, pad_token_id=pad, output_logits=True, return_dict_in_generate=True,
            )
        lead = min((top := step.topk(2).values)[:, 0].sub(top[:, 1]).min().item() for step in out.logits)
        assert lead > MARGIN, f"greedy decoding is decided by {lead}: choose another seed"
        return out.sequences[:, longest:].tolist(), lead


def capture_hidden(model, inputs):
    """What each decoder layer reads and what the final norm reads, and the logits."""
    text, seen = model.model.language_model, []
    hooks = [l.register_forward_pre_hook(lambda m, a, k: seen.append(a[0] if a else k["hidden_states"]), with_kwargs=True) for l in [*text.layers, text.norm]]
    with torch.no_grad():
        logits = model(**inputs).logits
    for h in hooks:
        h.remove()
    return seen, logits


def is_decayed(name, p, lora):
    return lora or (p.dim() > 1 and "embed_tokens" not in name and "pos_embed" not in name)


def rate(step):
    """Linear warm-up, the first step included, then a cosine to the minimum."""
    o = OPTIMIZER
    if step < o["warmup_steps"]:
        return o["learning_rate"] * (step + 1) / o["warmup_steps"]
    cosine = 0.5 * (1 + math.cos(math.pi * (step - o["warmup_steps"]) / (SCHEDULE - o["warmup_steps"])))
    return o["learning_rate"] * (o["minimum_factor"] + (1 - o["minimum_factor"]) * cosine)


def trained(model):
    return {n: p for n, p in model.named_parameters() if p.requires_grad}


def peft_name(name):
    return name.replace(".default", "")


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {peft_name(n): p.grad.clone() for n, p in trained(model).items()}


def three_steps(model, loss, lora):
    params, o = trained(model), OPTIMIZER
    groups = [{"params": [p for n, p in params.items() if is_decayed(n, p, lora) == decayed], "weight_decay": o["weight_decay"] * decayed} for decayed in (True, False)]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=1.0, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"])
    norms, losses = [], []
    for step in range(STEPS):
        for g in optimizer.param_groups:
            g["lr"] = rate(step)
        optimizer.zero_grad()
        value = loss(model)["total"]
        value.backward()
        losses.append(value.item())
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), o["gradient_clip"]).item())
        optimizer.step()
    return {peft_name(n): p.detach().clone() for n, p in params.items()}, {"losses": losses, "norms": norms}


def numbers(loss):
    return {k: v.item() if torch.is_tensor(v) else v for k, v in loss.items()}


def make_adapter(ref, seed):
    """An adapter with a B that is not zero, so that A has a gradient."""
    where = rf".*language_model.*\.({'|'.join(LINEARS)})"
    model = peft.get_peft_model(ref.load(), peft.LoraConfig(r=LORA["rank"], lora_alpha=LORA["alpha"], target_modules=where))
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in trained(model).values():
            p.copy_(0.5 * torch.randn(p.shape, generator=g) / math.sqrt(p.shape[1]))
    for c in model.peft_config.values():
        c.base_model_name_or_path = ".."
    model.save_pretrained(os.path.join(ref.dir, "adapter"))
    readme = os.path.join(ref.dir, "adapter", "README.md")
    if os.path.exists(readme):
        os.remove(readme)


def old_log_probs(current):
    """A rollout policy that differs by about 0.1 a token, with the ratio beside, above and below the clip range in turn."""
    g, out = torch.Generator().manual_seed(5), []
    for i, lp in enumerate(current):
        l = 0.1 * torch.randn(lp.shape, generator=g)
        out.append((lp - (l - l.mean() + [1e-4, -1e-2, 2e-2, 1e-4, 3e-2, -1e-3][i])).detach())
    return out


def trl_loss(ref, old):
    """TRL's own sequence-level loss without a KL term, and its gradients."""
    import datasets
    import tempfile

    model = ref.load_lora()
    rows = datasets.Dataset.from_dict({"prompt": ["x"] * 8})
    args = trl.GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, report_to=[], importance_sampling_level="sequence", loss_type="grpo", beta=0.0,
        epsilon=GSPO["clip_low"], epsilon_high=GSPO["clip_high"], num_generations=2, per_device_train_batch_size=2, gradient_checkpointing=False, temperature=1.0,
    )
    trainer = trl.GRPOTrainer(model=model, reward_funcs=lambda **_: [0.0], args=args, train_dataset=rows, processing_class=ref.processor)
    trainer.current_gradient_accumulation_steps = 1
    model.eval()  # no dropout to switch off: it only picks the names that metrics go under
    longest = max(p["input_ids"].shape[1] for p in ref.prompts)
    widest = max(map(len, ref.completions))
    pad = ref.tok.pad_token_id
    prompts = [ref.prompts[s["prompt"]]["input_ids"][0].tolist() for s in SEQUENCES]
    fill = lambda values, n, value, left: torch.tensor([[value] * (n - len(v)) + list(v) if left else list(v) + [value] * (n - len(v)) for v in values])
    batch = {
        "prompt_ids": fill(prompts, longest, pad, True), "prompt_mask": fill([[1] * len(p) for p in prompts], longest, 0, True),
        "completion_ids": fill(ref.completions, widest, pad, False), "completion_mask": fill([[1] * len(c) for c in ref.completions], widest, 0, False),
        "old_per_token_logps": fill([o.tolist() for o in old], widest, 0.0, False), "advantages": torch.tensor([s["advantage"] for s in SEQUENCES]),
        "pixel_values": ref.inputs["pixel_values"], "image_grid_thw": ref.inputs["image_grid_thw"],
        "num_images": [int("image" in PROMPTS[s["prompt"]]) for s in SEQUENCES],
    }
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    batch["mm_token_type_ids"] = (ids == ref.processor.image_token_id).int()
    loss = trainer._compute_loss(model, batch)
    return {"policy": loss.item()}, gradients(model, loss)


def make(name):
    family, dir = FAMILIES[name], os.path.join(here, name)
    tok, images = make_tokenizer(), draw_images()
    write_checkpoint(dir, family, complete_config(family["config"], tok), tok)
    ref = Reference(dir, family, images)
    make_adapter(ref, family["seed"] + 100)
    tensors, out = {}, {"versions": {m.__name__: m.__version__ for m in (torch, torchvision, transformers, peft, trl, safetensors, tokenizers, np)}}
    keep = lambda prefix, named: tensors.update({prefix + n: t.detach().float().contiguous() for n, t in named.items()})

    model = ref.load()
    for key, image in images.items():
        pixels = ref.image_processor(images=[image], return_tensors="pt")
        differ = (ref.image_processor_torch(images=[image], return_tensors="pt")["pixel_values"] - pixels["pixel_values"]).abs().max().item()
        with torch.no_grad():
            f = model.model.get_image_features(pixels["pixel_values"], pixels["image_grid_thw"], return_dict=True)
        keep("", {f"pixels.{key}": pixels["pixel_values"], f"features.{key}": torch.cat(f.pooler_output)})
        deep = getattr(f, "deepstack_features", None) or []
        keep("", {f"deep.{key}.{i}": torch.cat(d) if isinstance(d, (list, tuple)) else d for i, d in enumerate(deep)})
        out.setdefault("images", {})[key] = {"grid": pixels["image_grid_thw"][0].tolist(), "torchvision_differs_by": differ}
    positions, _ = model.model.get_rope_index(ref.inputs["input_ids"], image_grid_thw=ref.inputs["image_grid_thw"], attention_mask=ref.inputs["attention_mask"], mm_token_type_ids=ref.inputs["mm_token_type_ids"])
    hidden, logits = capture_hidden(model, ref.inputs)
    keep("", {f"hidden.{i}": ref.rows(h) for i, h in enumerate(hidden)} | {"logits": ref.rows(logits)})
    with torch.no_grad():
        current = ref.log_probs(model)
    keep("", {"log_probs": torch.cat(current)})
    greedy, lead = ref.greedy(model)
    out |= {
        "prompts": [q | {"ids": p["input_ids"][0].tolist()} for q, p in zip(PROMPTS, ref.prompts)],
        "sequences": [s | {"tokens": c, "positions": positions[:, i, :n].T.tolist()} for i, (s, c, n) in enumerate(zip(SEQUENCES, ref.completions, ref.lengths))],
        "greedy": greedy, "greedy_lead": lead, "lora": LORA, "gspo": GSPO, "optimizer": OPTIMIZER, "steps": STEPS, "schedule": SCHEDULE,
    }

    losses = {}
    for mode, load in {"full": ref.load, "lora": ref.load_lora}.items():
        model = load()
        with torch.no_grad():
            old = old_log_probs(ref.log_probs(model))
        keep(f"{mode}.", {"old_log_probs": torch.cat(old)})
        for kind, loss in {"ce": ref.cross_entropy, "gspo": lambda m: ref.gspo(m, old)}.items():
            value = loss(model)
            losses[f"{mode}.{kind}"] = numbers(value)
            keep(f"{mode}.{kind}.", gradients(model, value["total"]))
        if mode == "lora":
            losses["lora.trl"], grads = trl_loss(ref, old)
            keep("lora.trl.", grads)
        kind = {"full": "ce", "lora": "gspo"}[mode]
        weights, losses[f"{mode}.adamw"] = three_steps(load(), {"ce": ref.cross_entropy, "gspo": lambda m: ref.gspo(m, old)}[kind], mode == "lora")
        keep(f"{mode}.adamw.", weights)
    out["losses"] = losses
    safetensors.torch.save_file(tensors, os.path.join(dir, "golden.safetensors"))
    with open(os.path.join(dir, "golden.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
    print(f"{name}: {len(tensors)} tensors, greedy lead {lead:.4f}, losses {json.dumps(losses)}")


if __name__ == "__main__":
    for name in sys.argv[1:] or FAMILIES:
        make(name)
