# Makes golden.json: pip install tokenizers==0.23.3, then
#   go test -run TestTrainedMatchesReference -update . && python testdata/make.py
# or, for another file and its answers: python testdata/make.py TOKENIZER.json OUT.json
import json, os, sys

from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
source = sys.argv[1] if len(sys.argv) > 2 else os.path.join(here, "trained.json")
out = sys.argv[2] if len(sys.argv) > 2 else os.path.join(here, "golden.json")
texts = json.load(open(os.path.join(here, "texts.json"), encoding="utf-8"))
tok = Tokenizer.from_file(source)
rows = []
for text in texts:
    tok.encode_special_tokens = False
    ids = tok.encode(text, add_special_tokens=False).ids
    tok.encode_special_tokens = True
    plain = tok.encode(text, add_special_tokens=False).ids
    rows.append({"ids": ids, "plain": plain, "decoded": tok.decode(ids, skip_special_tokens=False)})
json.dump(rows, open(out, "w", encoding="utf-8"), ensure_ascii=True, separators=(",", ":"))
