# Makes golden.json with transformers' own rendering (run in this folder):
# pip install transformers==5.25.0 jinja2==3.1.6; python make.py
# trl/ holds the chat templates of Qwen2.5-VL and Qwen3-VL as TRL 1.16.0 carries them, under the Apache License 2.0 beside them.
import json

from transformers.utils.chat_template_utils import render_jinja_template

image = {"type": "image"}
words = lambda t: {"type": "text", "text": t}
user, system, assistant = ({"role": r} for r in ("user", "system", "assistant"))
talks = [
    [{**user, "content": "Hi."}],
    [{**user, "content": [words("Hi "), words("there\n")]}],
    [{**user, "content": [image, words("What is <|im_end|> this?")]}],
    [{**system, "content": "Be brief."}, {**user, "content": [image, words("a"), image, words("b")]}],
    [{**system, "content": [words("Be "), words("brief.")]}, {**user, "content": "x"}, {**assistant, "content": "y"}, {**user, "content": [words("z")]}],
    [{**user, "content": "{{ x }}{% if %}"}, {**assistant, "content": [words(" é ")]}],
    [{**user, "content": [{"type": "video"}, {"image_url": "u"}, {"image": "i"}, words("")]}],
]
cases = []


def expect(template, variables, name=""):
    try:
        text = render_jinja_template([variables.pop("messages", [])], chat_template=template, **variables)[0][0]
    except Exception as e:
        text = None
        print("refused:", template[:60].replace("\n", " "), type(e).__name__, e)
    return text


for file in ["qwen2_5_vl", "qwen3_vl"]:
    template = open(f"trl/{file}.jinja").read()
    for messages in talks:
        for prompt in (True, False):
            for ids in (True, False):
                v = {"messages": messages, "add_generation_prompt": prompt, "add_vision_id": ids}
                cases.append({"file": file, "variables": v, "want": expect(template, dict(v))})

# Constructs one by one; numbers, lists and nested mappings come from here.
data = {"n": 7, "f": 2.5, "s": "  Hello, wörld\n", "l": [1, 2, 3], "d": {"b": 1, "a": {"x": [True, None]}}, "empty": [], "none": None,
        "talk": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}, {"role": "tool", "content": "c"}]}
for template in [
    "{% for x in l %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in l if x != 2 %}{{ loop.index0 }}{{ x }}{{ loop.first }}{% else %}none{% endfor %}{% for x in empty %}a{% else %}b{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v | tojson }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "{%- for m in talk[::-1] %}{{ m.role }}{{ m['content'] }}{%- endfor %}|{{ talk[1:][0].content }}|{{ talk[-1].content }}|{{ talk[:-1] | length }}",
    "{% for m in talk %}{% if m.role == 'tool' and (loop.first or talk[loop.index0 - 1].role != 'tool') %}<{% endif %}{{ m.content }}{% endfor %}",
    "{% for x in l %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% set ns = namespace(found=false, n=0) %}{% for x in l %}{% set ns.n = ns.n + x %}{% set ns.found = true %}{% endfor %}{{ ns.n }}{{ ns.found }}",
    "{% set x = 1 %}{% for y in l %}{% set x = y %}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set block %}a{{ n }}b{% endset %}[{{ block }}]{% set a, b = 1, 'z' %}{{ a }}{{ b }}",
    "{{ s | trim }}|{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip('\\n') }}|{{ s.split(',')[-1].strip() }}|{{ s | length }}|{{ s | upper }}",
    "{{ 'a-b-c'.split('-', 1) | join('+') }}|{{ 'x  y z'.split() | join(',') }}|{{ 'aXbX'.replace('X', '') }}|{{ 'ab'.startswith('a') and 'ab'.endswith('b') }}",
    "{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ (1 + 2) * 3 }} {{ 'a' ~ 1 ~ none }} {{ 'a' + 'b' }} {{ f * 2 }} {{ -n }}",
    "{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 == 1.0 }} {{ 'a' in 'cat' }} {{ 'z' not in 'cat' }} {{ 2 in l }} {{ 'b' in d }} {{ not 1 in l }} {{ 'a' < 'b' }}",
    "{{ none is none }} {{ x is defined }} {{ x is not defined }} {{ s is string }} {{ d is mapping }} {{ l is iterable }} {{ s is sequence }} {{ n is number }} {{ false is false }}",
    "{{ x | default('q') }}{{ '' | default('r', true) }}{{ none | default('t') }}{{ x }}{{ d.nothing }}{{ 'yes' if n else 'no' }}{{ 'a' if empty }}",
    "{{ 0 or 'a' }}{{ '' and 'b' }}{{ 1 and 'c' }}{{ none or empty or 'd' }}{{ true }}{{ (n, 'x') | last }}{{ l | first }}",
    "{{ d | tojson }} {{ [1, 'é<>&\"\\n', none, true, 1.5] | tojson }} {{ {'k': {}} | tojson }}",
    "{{ range(3) | join }} {{ range(5, 1, -2) | join(' ') }} {{ range(2, 4) | list | tojson }}",
    "a  {%- if true -%}  b  {%- endif -%}  c",
    "  {% if true %}\n  x\n  {% endif %}\n  y {# gone #} z\n{# line #}\n  {#- both -#}  \n w",
    "a\n  {%+ if true +%}\n b {%- endif +%}\nc\n",
    "{{ '}}' }}{{ \"%}\" }}{{ '\\'\\\\\\x41\\u00e9\\q' }}{{ {'a': {'b': 1}}.a.b }}{{ 'a' 'b' }}",
    "{{- s -}}   x   {{- n -}}   \n",
    "a {{ n }}\n\n{% set q = [] %}\n\nb\n\n",
    "{% generation %}{{ n }}{% endgeneration %}!",
    "{% if n > 9 %}a{% elif n > 6 and n != 8 %}b{% else %}c{% endif %}",
    "{{ d.get('b') }}{{ d.get('zz', 5) }}{{ d.keys() | list | tojson }}{{ d['a']['x'][0] }}{{ d.values() | list | length }}",
    "{{ 'hello'[1] }}{{ 'hello'[-2:] }}{{ 'hello'[::2] }}{{ 'hello'[::-1] }}{{ l[5] }}{{ l[1:][::-1] | tojson }}",
    "{{ raise_exception('no') }}", "{{ none.x }}{{ x.y.z }}", "{{ 1 + 'a' }}", "{% for x in 5 %}{% endfor %}",
]:
    v = {**data}
    cases.append({"template": template, "variables": v, "want": expect(template, dict(v))})

with open("golden.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
