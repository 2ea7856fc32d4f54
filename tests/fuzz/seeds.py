#!/usr/bin/env python3
"""Writes the first inputs of every fuzz driver to tests/fuzz/corpus. Files that a fuzzer found (found-*) are left alone."""
import json
import pathlib
import random
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "text"))
import random_chat  # noqa: E402
import random_template  # noqa: E402
import random_text  # noqa: E402

SPLITS = {"qwen": r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", "newlines": r"(?:\r?\n)+(?!\r?\n)", "blank": r"\s"}


def put(name, index, data):
    folder = HERE / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{index}").write_bytes(data)


def symbols():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = iter(range(0x100, 0x200))
    return [chr(b) if b in plain else chr(next(moved)) for b in range(256)]


def tokenizer(flags, steps, **model):
    vocab = {s: i for i, s in enumerate(symbols())}
    merges = [["a", "b"], ["t", "h"], ["th", "e"], ["\u0120", "the"], ["ab", "ab"], ["\u010a", "\u010a"]]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    added = [{"id": len(vocab) + i, "content": c, "special": bool(i % 2), **{f: bool((flags >> k ^ i) & 1) for k, f in enumerate(("single_word", "lstrip", "rstrip", "normalized"))}} for i, c in enumerate(("<think>", "</think>", "\u3008|EOS|\u3009", "<t", "  "))]
    pre = {"type": "Sequence", "pretokenizers": steps + [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": pre, "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "ignore_merges": False, "byte_fallback": False, "vocab": vocab, "merges": merges if flags % 2 else [" ".join(m) for m in merges], **model}}


def split(name, behavior, invert=False):
    return {"type": "Split", "pattern": {"Regex": SPLITS[name]}, "behavior": behavior, "invert": invert}


def tokenizers(rng):
    plans = ((0, [split("newlines", "MergedWithNext"), split("qwen", "Isolated")], {}), (1, [split("blank", "Removed")], {}), (5, [split("qwen", "Contiguous", True)], {"ignore_merges": True}), (9, [{"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}], {}))
    for i, (flags, steps, model) in enumerate(plans):
        text = "\0".join(random_text.text(rng, ["<think>", "</think>"]) for _ in range(3))
        put("tokenizer", i, json.dumps(tokenizer(flags, steps, **model), ensure_ascii=False).encode() + b"\0" + text.encode())


def safetensors(header, data):
    head = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(head)) + head + data


def main():
    rng = random.Random(1)
    tokenizers(rng)
    for i in range(12):
        put("encode", i, random_text.text(rng, ["<think>", "</think>", "\u3008|EOS|\u3009", "<tool_call>"]).encode())
    put("encode", 12, b"\xf0\x9f a \xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80 \xe4\xbd")
    golden = [json.loads(line) for line in open(HERE.parent / "golden/template/jinja_cases.jsonl", encoding="utf-8")]
    for i, row in enumerate(rng.sample(golden, 40)):
        put("template", i, row["template"].encode() + b"\0" + json.dumps(row["vars"], ensure_ascii=False).encode())
    for i in range(40, 60):
        put("template", i, random_template.template(rng).encode() + b"\0" + json.dumps(random_template.variables(rng)).encode())
    for i, name in enumerate(("v5", "v8"), 60):
        request = random_chat.conversation(rng)
        put("template", i, (HERE.parent / f"golden/template/{name}.jinja").read_bytes() + b"\0" + json.dumps(request, ensure_ascii=False).encode())
    for i in range(8):
        stops = b"".join(s + b"\0" for s in rng.choice(([], [b"the"], [b"ab", b"abc", b"b"], ["é".encode(), b"</"], [b" "]))) + b"\0"
        ids = [rng.choice((18, 19, 2, 24, 25, 26, 9, rng.randrange(70, 326), rng.randrange(4096))) for _ in range(rng.randint(1, 40))]
        put("reply", i, bytes([rng.randrange(8)]) + stops + struct.pack(f"<{len(ids)}H", *ids))
    for i in range(8):
        put("json", i, json.dumps(random_chat.value(rng), ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1))).encode())
    put("json", 8, rb'{"a":[1.50,1E5,-0.0,1e999,18446744073709551616,"\ud83d\ude00\u0000\/"],"a":{},"":[[[]]]}')
    shape = {"a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}, "b.\u00e9": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]}, "__metadata__": {"format": "pt"}}
    put("safetensors", 0, safetensors(shape, bytes(10)))
    put("safetensors", 1, safetensors({"x": {"dtype": "F8_E8M0", "shape": [2**62, 4], "data_offsets": [0, 0]}}, b""))
    put("safetensors", 2, safetensors(b'{"a":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}}    ', b""))


main()
