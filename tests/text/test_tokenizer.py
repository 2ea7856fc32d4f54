#!/usr/bin/env python3
"""Ids, pieces and texts of our tokenizer against Hugging Face's `tokenizers` on the same tokenizer.json.

usage: test_tokenizer.py build/release/tests/text/text_lines [--strings N] [--decodes N] [--every 1] [--seed S]
Random strings through the tokenizers of tests/golden and the demo model, through variants of them that use the rest of the format (flags of
added tokens, ignore_merges, other ways to split, other expressions), random ids back to text, and every code point of Unicode.
"""
import copy
import json
import tempfile
import pathlib

from checks import ROOT, Tally, need, options

need("tokenizers")
import tokenizers  # noqa: E402

import random_text  # noqa: E402
from text_lines import TextLines  # noqa: E402

BATCH = 2000


def split(regex, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: regex}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps) + [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}


QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEKKEN = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
NEWLINES = r"(?:\r?\n)+(?!\r?\n)"
STEPS = {
    "gpt2": sequence(split(GPT2)), "llama": sequence(split(LLAMA)), "tekken": sequence(split(TEKKEN)), "qwen-alone": sequence(split(QWEN)),
    "newlines-isolated": sequence(split(NEWLINES), split(QWEN)), "newlines-previous": sequence(split(NEWLINES, "MergedWithPrevious"), split(QWEN)), "newlines-contiguous": sequence(split(NEWLINES, "Contiguous"), split(QWEN)),
    "blank-removed": sequence(split(r"\s+", "Removed"), split(QWEN)), "words-inverted": sequence(split(r"\p{L}+", "Removed", True)), "literal": sequence(split(" ", "MergedWithPrevious", kind="String"), split(QWEN)),
    "scripts": sequence(split(r"\p{Han}+|[\p{Hiragana}\p{Katakana}]+|\p{Greek}+|\P{Latin}"), split(r"\d+|\D")),
    "digits-contiguous": sequence(split(r"\p{N}", "Contiguous")), "white-classes": sequence(split(r"\s"), split(r"[\S\p{N}]+|[^\S\n]+", "MergedWithNext")),
}


def variants(base):
    """(name, tokenizer.json as an object): one change to the base each."""
    for name, steps in STEPS.items():
        changed = copy.deepcopy(base)
        changed["pre_tokenizer"] = steps
        yield name, changed
    for seed, flag in enumerate(("single_word", "lstrip", "rstrip", "normalized", "special")):
        changed = copy.deepcopy(base)
        for i, token in enumerate(changed["added_tokens"]):
            token[flag] = not token[flag] if i % 2 == seed % 2 else token[flag]
        yield "flag-" + flag, changed
    changed = copy.deepcopy(base)
    for i, token in enumerate(changed["added_tokens"]):
        for bit, flag in enumerate(("single_word", "lstrip", "rstrip", "normalized")):
            token[flag] = bool(i >> bit & 1)
    for i, content in enumerate(("<think>x", "<thin", "ink>", "é", "  ", "the", "\n\n", "a b", "<think></think>")):
        changed["added_tokens"][40 + i]["content"] = content
    for token in changed["added_tokens"]:
        old = next(k for k, v in changed["model"]["vocab"].items() if v == token["id"])
        if old != token["content"] and token["content"] not in changed["model"]["vocab"]:
            changed["model"]["vocab"][token["content"]] = changed["model"]["vocab"].pop(old)
    changed["added_tokens"] = [t for t in changed["added_tokens"] if changed["model"]["vocab"].get(t["content"]) == t["id"]]
    yield "flags-mixed", changed
    changed = copy.deepcopy(base)
    changed["model"]["ignore_merges"] = True
    yield "ignore-merges", changed


def pieces_of(tok, text):
    return [text[a:b] for _, (a, b) in tok.pre_tokenizer.pre_tokenize_str(text)]


def compare_strings(tally, name, program, path, texts, rng):
    tok, ours = tokenizers.Tokenizer.from_file(str(path)), TextLines(program, path)
    for kind, ask, answer, expected in (
            ("ids", lambda s: {"encode": s}, "ids", lambda s: tok.encode(s, add_special_tokens=False).ids),
            ("pieces", lambda s: {"split": s}, "pieces", lambda s: pieces_of(tok, s))):
        given = texts if kind == "ids" else texts[:len(texts) // 4]
        tally.group(f"{name} {kind}", ((s, expected(s), got.get(answer, got)) for at in range(0, len(given), BATCH)
                                       for s, got in zip(given[at:at + BATCH], ours.ask([ask(s) for s in given[at:at + BATCH]]))))
    return tok, ours


def compare_decodes(tally, name, tok, ours, texts, n, rng):
    lists = [[rng.randrange(tok.get_vocab_size() + 3) for _ in range(rng.randint(0, 12))] for _ in range(n)]
    single = [t for t in range(tok.get_vocab_size()) if len(tok.id_to_token(t) or "") == 1]  # one byte each: broken UTF-8
    lists += [[rng.choice(single) for _ in range(rng.randint(1, 8))] for _ in range(n)]
    tally.group(f"{name} decoded", ((ids, tok.decode(ids, skip_special_tokens=False), got.get("text")) for ids, got in zip(lists, ours.ask([{"decode": ids} for ids in lists]))))
    ids = [a["ids"] for a in ours.ask([{"encode": s} for s in texts])]
    tally.group(f"{name} there and back", ((s, s, got.get("text")) for s, got in zip(texts, ours.ask([{"decode": i} for i in ids]))))


def compare_plain(tally, program, path, texts):
    """Texts whose control tokens are ordinary characters, by either way."""
    tok, ours = tokenizers.Tokenizer.from_file(str(path)), TextLines(program, path)
    tok.encode_special_tokens = True
    for name, option in (("without added tokens", {"added": False}), ("guarded", {"guarded": True})):
        answers = ours.ask([{"encode": s, **option} for s in texts])
        tally.group(name, ((s, tok.encode(s, add_special_tokens=False).ids, got.get("ids")) for s, got in zip(texts, answers)))
    ours.close()


CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()


def compare_categories(tally, program, base, path):
    """Every code point on its own, in each general category and some scripts. U+1171E moved from Mn to Mc: see engine/text/ucat.c."""
    path.write_text(json.dumps(base | {"pre_tokenizer": sequence(split("|".join(rf"\p{{{c}}}+" for c in CATEGORIES)), split(r"\p{Han}+|\p{Cyrillic}+|\s+|\d+"))}))
    tok, ours = tokenizers.Tokenizer.from_file(str(path)), TextLines(program, path)
    strings = ["".join(chr(c) for c in range(at, at + 2048) if c != 0x1171E) for at in range(0, 0x110000, 2048) if not 0xD800 <= at < 0xE000]
    tally.group("categories", ((ascii(s[0]), pieces_of(tok, s), got.get("pieces", got)) for s, got in zip(strings, ours.ask([{"split": s} for s in strings]))))
    ours.close()


def compare_code_points(tally, tok, ours, step):
    """Letters join what is before them, digits stand alone, blanks and others differ in what they join behind them."""
    strings = []
    for start in range(0, 0x110000, 64):
        if 0xD800 <= start < 0xE000 or (step > 1 and start > 0x3400 and start // 64 % step):
            continue
        strings.append("".join(f"q{chr(c)};{chr(c)}{chr(c)} {chr(c)}'{chr(c)}\n" for c in range(start, start + 64)))
    tally.group("code points", ((s[:1] + s[1], pieces_of(tok, s), got.get("pieces")) for s, got in zip(strings, ours.ask([{"split": s} for s in strings]))))


def main():
    args = options(__doc__, strings=20000, decodes=2000, every=1)
    rng, tally = args.rng, Tally()
    demo = ROOT / "target/demo/tokenizer.json"
    base = json.loads(demo.read_text())
    tokens = [t["content"] for t in base["added_tokens"]]
    favourites = [t for t in tokens if "RESERVED" not in t]
    texts = [random_text.text(rng, favourites * 3 + tokens) for _ in range(args.strings)]
    tok, ours = compare_strings(tally, "demo", args.program, demo, texts, rng)
    compare_decodes(tally, "demo", tok, ours, texts, args.decodes, rng)
    compare_code_points(tally, tok, ours, args.every)
    ours.close()
    compare_plain(tally, args.program, demo, texts[:args.strings // 2])
    for path in sorted((ROOT / "tests/golden").glob("*/tokenizer.json")):
        compare_strings(tally, path.parent.name, args.program, path, texts[:args.strings // 10], rng)[1].close()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tokenizer.json"
        if args.every == 1:
            compare_categories(tally, args.program, base, path)
        for name, changed in variants(base):
            path.write_text(json.dumps(changed, ensure_ascii=False))
            compare_strings(tally, name, args.program, path, texts[:args.strings // 10], rng)[1].close()
    tally.end()


main()
