#!/usr/bin/env python3
"""Speed of the text side, against Hugging Face's `tokenizers`: one thread each, runs in turn, least and median of the ratios.

usage: perf/text.py [--program build/release/tests/text/text_lines] [--repeat 15] [--json FILE]
Then a prompt of an agent (100 kB, 40 tools) as a first and as a next turn, and texts that are hard on tokenizers in two sizes: twice the text
must not cost much more than twice the time.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import sysconfig
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/text"))
from checks import need  # noqa: E402

need("tokenizers")
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
import tokenizers  # noqa: E402

from text_lines import TextLines  # noqa: E402

MODEL = ROOT / "target/demo"
MEGABYTE = 1000000


def library(size):
    """Python's standard library: the same on every machine with this Python."""
    folder, out = pathlib.Path(sysconfig.get_path("stdlib")), []
    for path in sorted(folder.glob("*.py")):
        out.append(path.read_text(encoding="utf-8", errors="replace"))
        size -= len(out[-1])
        if size < 0:
            break
    return "".join(out)


def prose(size):
    """What the library says in its doc strings and comments, as lines of text."""
    lines = [line.strip().lstrip("# ") for line in library(8 * size).split("\n")]
    words = [line for line in lines if len(line) > 30 and line.count(" ") > 4 and not set(line) & set("=()[]{}<>_\"'`\\|/")]
    text = "\n".join(words)
    return (text * (size // max(1, len(text)) + 1))[:size]


def compare(tok, ours, text, repeat):
    mine, theirs = [], []
    for _ in range(repeat):
        mine.append(ours.ask([{"encode": text, "timed": True}])[0]["ns"] / 1e6)
        start = time.perf_counter()
        n = len(tok.encode(text, add_special_tokens=False).ids)
        theirs.append((time.perf_counter() - start) * 1e3)
    ratios = [b / a for a, b in zip(mine, theirs)]
    return {"bytes": len(text.encode()), "tokens": n, "ms": min(mine), "ms_median": statistics.median(mine), "tokenizers_ms": min(theirs), "tokenizers_ms_median": statistics.median(theirs),
            "times_as_fast_median": statistics.median(ratios), "times_as_fast_least": min(ratios)}


def agent_request(code):
    tools = [{"type": "function", "function": {"name": f"tool_{i}", "description": code[i * 300:i * 300 + 300],
                                               "parameters": {"type": "object", "properties": {f"p{k}": {"type": "string", "description": code[k * 70:k * 70 + 70]} for k in range(6)}, "required": ["p0"]}}} for i in range(40)]
    messages = [{"role": "system", "content": code[:3000]}]
    for i in range(24):
        call = {"id": f"call_{i}", "type": "function", "function": {"name": f"tool_{i}", "arguments": json.dumps({"p0": code[i * 100:i * 100 + 100], "p1": "x"})}}
        messages += [{"role": "user", "content": code[i * 500:i * 500 + 500]}, {"role": "assistant", "content": "", "reasoning": code[i * 400:i * 400 + 400], "tool_calls": [call]}, {"role": "tool", "tool_call_id": f"call_{i}", "content": code[i * 900:i * 900 + 900]}]
    return {"messages": messages, "tools": tools, "add_generation_prompt": True, "timed": True}


def agent(ours, repeat):
    """The prompt when nothing is known, and with one more message when the prompt is known, as in a server."""
    request = agent_request(library(100000))
    ours.ask([request | {"known": True}])
    out = {}
    for name, known in (("first", False), ("next", True)):
        extra = [[{"role": "user", "content": f"And now number {i}?"}] if known else [] for i in range(repeat)]
        turns = ours.ask([request | {"known": known, "messages": request["messages"] + more} for more in extra])
        out[name] = {"bytes": turns[0]["bytes"], "tokens": turns[0]["n"], **{part + "_ms": statistics.median(t[part + "_ns"] for t in turns) / 1e6 for part in ("render", "encode")}}
    return out


HARD = {"one word": lambda n: "a" * n, "newlines": lambda n: "\n" * n, "blanks": lambda n: " " * n, "brackets": lambda n: "[" * (n // 2) + "]" * (n // 2), "marks": lambda n: "\u0301" * (n // 2), "digits": lambda n: "7" * n, "emoji": lambda n: "\U0001f600" * (n // 4),
        "tags": lambda n: "<think>" * (n // 7), "half tags": lambda n: "<think" * (n // 6), "crlf": lambda n: "\r\n" * (n // 2), "apostrophes": lambda n: "'" * n}


def doubling(ours, repeat):
    out = {}
    for name, make in HARD.items():
        ms = [min(a["ns"] for a in ours.ask([{"encode": make(n), "timed": True}] * repeat)) / 1e6 for n in (MEGABYTE // 2, MEGABYTE)]
        out[name] = {"half_ms": ms[0], "ms": ms[1], "growth": ms[1] / ms[0]}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build/release/tests/text/text_lines"))
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json")
    args = parser.parse_args()
    tok, ours = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json")), TextLines(args.program, MODEL / "tokenizer.json", MODEL / "chat_template.jinja")
    result = {"tokenizers": tokenizers.__version__, "texts": {name: compare(tok, ours, text, args.repeat) for name, text in (("code", library(MEGABYTE)[:MEGABYTE]), ("prose", prose(MEGABYTE)))},
              "agent": agent(ours, args.repeat), "hard": doubling(ours, 3)}
    for name, r in result["texts"].items():
        print(f"{name}: {r['bytes']} bytes, {r['tokens']} tokens: {r['ms']:.1f} ms (median {r['ms_median']:.1f}); tokenizers {r['tokenizers_ms']:.1f} ms ({r['tokenizers_ms_median']:.1f}); {r['times_as_fast_median']:.1f} times as fast, least {r['times_as_fast_least']:.1f}")
    for name, r in result["agent"].items():
        print(f"agent prompt, {name} turn: {r['bytes']} bytes, {r['tokens']} tokens: template {r['render_ms']:.2f} ms, tokens {r['encode_ms']:.2f} ms")
    for name, r in result["hard"].items():
        print(f"{name}: half a megabyte {r['half_ms']:.1f} ms, one {r['ms']:.1f} ms, growth {r['growth']:.2f}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


main()
