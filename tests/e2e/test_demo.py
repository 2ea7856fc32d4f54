#!/usr/bin/env python3
"""The real binary with the demo pair, as a user meets it: commands, streams, signals, bad input.

usage: test_demo.py SKIFF       one line per check, the last line counts; exit code 1 on failure
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

SKIFF = os.path.abspath(sys.argv[1])
PROMPT = "Write a Python function that reverses a list."
TOTALS = {"passed": 0, "failed": 0}


def check(name, ok, detail=""):
    TOTALS["passed" if ok else "failed"] += 1
    print(f"{'ok  ' if ok else 'FAIL'} {name}{'' if ok else ': ' + str(detail)[:600]}", flush=True)


def skiff(*args, stdin=None, timeout=120):
    return subprocess.run([SKIFF, *args], input=stdin, capture_output=True, timeout=timeout)


def answer(*args, **more):
    done = skiff("run", "--json", "-q", *args, **more)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.decode()}


def prompts_with_tools():
    with open("tests/prompts.jsonl", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return [r for r in rows if r.get("tools")]


# ---- commands ----

def commands():
    plain = answer("--spec-tokens", "0", PROMPT)
    for k in (1, 3, 7, 15):
        spec = answer("--spec", "fixed", "--spec-tokens", str(k), PROMPT)
        check(f"run: {k} proposals give the ids of plain decoding", spec.get("tokens") == plain.get("tokens") != None, spec)
        check(f"run: {k} proposals were verified", spec.get("stats", {}).get("drafted", 0) > 0, spec)
    for nodes in (1, 12, 31):
        tree = answer("--spec", "fixed", "--spec-tree", str(nodes), PROMPT)
        check(f"run: a tree of {nodes} nodes gives the ids of plain decoding", tree.get("tokens") == plain.get("tokens"), tree)
    rename = "Rename the variable foo to bar:\n" + "def total(foo):\n    for item in foo:\n        print(foo, item)\n" * 3
    for more in (("--temp", "0"), ("--seed", "5")):
        alone = answer("--spec-tokens", "0", *more, rename)
        for proposers in ("lookup", "dflash,lookup"):
            copied = answer("--spec", "fixed", "--proposers", proposers, *more, rename)
            adaptive = answer("--proposers", proposers, *more, rename)
            check(f"run: {proposers} gives the ids of plain decoding ({' '.join(more)})",
                  copied.get("tokens") == adaptive.get("tokens") == alone.get("tokens") != None, copied)
    check("run: looked-up proposals are accepted", copied["stats"]["lookup_accepted"] > 0, copied)
    narrow = [answer("--kv-dtype", "fp8_e4m3", "--spec", "fixed", "--spec-tokens", k, PROMPT) for k in ("0", "7")]
    check("run: FP8 keys and values, with and without speculation", narrow[0].get("tokens") == narrow[1].get("tokens") != None, narrow)
    seeds = [tuple(answer("--seed", str(s), "-n", "40", PROMPT)["tokens"]) for s in (1, 1, 2)]
    check("run: a seed repeats", seeds[0] == seeds[1], seeds)
    check("run: another seed gives another text", seeds[0] != seeds[2], seeds)
    text = skiff("run", "-q", PROMPT)
    check("run: the streamed text is the text of --json", text.stdout.decode().rstrip("\n") == plain["text"].rstrip("\n"), text.stdout)
    check("run: prompt from standard input", answer("-", stdin=PROMPT.encode())["tokens"] == plain["tokens"])
    stats = skiff("run", PROMPT).stderr.decode()
    check("run: statistics on stderr", "tok/s" in stats and "tokens per step" in stats and "steps by reason" in stats, stats)
    bent = [answer("--repeat-penalty", "1.5", "--presence-penalty", "0.5", "--frequency-penalty", "0.5", "--temp", "0", "-n", "60", "--spec", "fixed", "--spec-tokens", k, PROMPT) for k in ("0", "7")]
    check("run: penalties, with and without speculation", bent[0].get("tokens") == bent[1].get("tokens") and bent[0]["tokens"] != plain["tokens"][:60], bent)
    longer = answer("--min-tokens", str(len(plain["tokens"]) + 5), PROMPT)
    check("run: at least so many tokens", len(longer.get("tokens", [])) > len(plain["tokens"]) + 5, longer)
    cut = answer("-n", "5", "--ignore-eos", PROMPT)
    check("run: cut at the limit", len(cut["tokens"]) == 5 and cut["finish_reason"] == "length", cut)
    raw = answer("--raw", "-n", "12", "--temp", "0", "import os\n")
    check("run: raw completion", len(raw["tokens"]) > 0 and raw["stats"]["prompt_tokens"] >= 3, raw)
    empty = skiff("run", "--json", "-q", "")
    check("run: an empty prompt is answered", empty.returncode == 0, empty.stderr)
    nothing = skiff("run", "--raw", "-q", "-n", "3", "")
    check("run: an empty raw prompt starts from the start token", nothing.returncode == 0, nothing.stderr)
    inspect = json.loads(skiff("inspect", "target/demo", "--json").stdout)
    check("inspect: the folder", inspect["target"]["parameters"] == 16277984 and inspect["memory"]["total"] > 0, inspect["target"]["parameters"])
    plan = inspect["memory"]
    parts = ("kv_global", "kv_sliding", "draft_kv", "taps", "cache")
    check("inspect: the memory plan adds up", plan["total"] == sum(plan[k] for k in parts), plan)
    text = skiff("inspect").stdout
    check("inspect: text", b"plain step" in text and b"remembered conversations" in text, text)
    memory = [json.loads(skiff("inspect", "--json", "--kv-dtype", k).stdout)["memory"] for k in ("bf16", "fp8_e4m3")]
    check("inspect: FP8 halves keys and values", all(memory[0][k] == 2 * memory[1][k] > 0 for k in ("kv_global", "kv_sliding")) and memory[0]["draft_kv"] == memory[1]["draft_kv"], memory)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "perplexity.json")
        done = skiff("bench", "perplexity", "README.md", "--tokens", "700", "--ctx-size", "256", "--repeat", "1", "--json", path)
        found = json.load(open(path)) if done.returncode == 0 else {"error": done.stderr}
        check("bench perplexity: both kinds over the same tokens", found.get("tokens") == 700 and found["windows"] == 3 and 0 < abs(found["nll_difference"]) < 0.1 and found["bf16"]["perplexity"] > 1, found)
        path = os.path.join(folder, "model.json")
        done = skiff("bench", "model", "--json", path)
        found = json.load(open(path)) if done.returncode == 0 else {"cards": [], "error": done.stderr}
        plain = {c["name"]: round(c["contexts"][0]["plain_bytes"] / 1e9, 2) for c in found["cards"]}
        check("bench model: four cards", len(plain) == 4 and set(plain.values()) == {10.04} and b"Estimates" in done.stdout, found)
        done = skiff("bench", "model", "target/demo", "draft/demo", "--context", "1000", "--rows", "5", "--kv-dtype", "fp8_e4m3", "--json", path)
        found = json.load(open(path)) if done.returncode == 0 else {"cards": [], "error": done.stderr}
        rows = [[v["rows"] for v in c["verify"]] for card in found["cards"] for c in card["contexts"]]
        check("bench model: a folder", rows == 4 * [[2, 4, 5, 8, 16]], found)
        asked = json.loads(skiff("inspect", "--json", "--ctx-size", "1000", "--kv-dtype", "fp8_e4m3").stdout)["bytes_per_step"]
        check("bench model: the bytes of inspect", {c["contexts"][0]["plain_bytes"] for c in found["cards"]} == {asked["plain"]["total"]}
              and {c["contexts"][0]["draft_bytes"] for c in found["cards"]} == {asked["draft"]["total"]}, (found, asked))
    ids = skiff("tokenize", "--json", "Hello <think>").stdout
    check("tokenize", json.loads(ids)[-1]["text"] == "<think>", ids)
    for command in ("run", "serve", "inspect", "verify", "bench", "tokenize", "detokenize"):
        done = skiff(command, "--help")
        check(f"{command} --help", done.returncode == 0 and done.stdout.startswith(b"usage:") or b"skiff " + command.encode() in done.stdout, done)


def golden_texts():
    """Texts of the golden cases, several joined to one."""
    texts = []
    for name, members in (("tokenizer/tokenizer_cases", ("text",)), ("template/template_cases", ("expected",)), ("parser_cases", ("raw_text",))):
        with open(f"tests/golden/{name}.jsonl", encoding="utf-8") as f:
            texts += [row[m] for row in map(json.loads, f) for m in members if m in row]
    return ["".join(texts[i::24]) for i in range(24)] + [texts[0], "", "\0", "a\r\n\n", "\ufffd\ue000\U0010ffff", "〈|EOS|〉<think>"]


def tokens_and_back():
    bad = []
    for text in golden_texts():
        ids = skiff("tokenize", "--json", "-", stdin=text.encode()).stdout
        back = skiff("detokenize", stdin=ids)
        if back.returncode or back.stdout != text.encode():
            bad.append((text[:80], back.stdout[:80], back.stderr))
    check("detokenize: the golden texts come back", not bad, bad[:2])
    check("tokenize: standard input when there is no argument", json.loads(skiff("tokenize", "--json", stdin=b"H").stdout)[0]["text"] == "H")
    emoji = [t["id"] for t in json.loads(skiff("tokenize", "--json", "🙂").stdout)]
    words = [str(i) for i in emoji]
    forms = [skiff("detokenize", *words), skiff("detokenize", ",".join(words)), skiff("detokenize", json.dumps(emoji)),
             skiff("detokenize", "-", stdin="\n".join(words).encode()), skiff("detokenize", "-m", "target/demo", *words)]
    check("detokenize: all ways to write ids", len(emoji) > 1 and all(f.stdout == "🙂".encode() for f in forms), forms)
    cut = skiff("detokenize", *words[:-1]).stdout
    check("detokenize: an unfinished character is U+FFFD", cut == "\ufffd".encode(), cut)
    found = json.loads(skiff("detokenize", "--json", "18", *words, "2").stdout)
    check("detokenize --json", found["text"] == "<think>🙂〈|EOS|〉" and [t["id"] for t in found["tokens"]] == [18, *emoji, 2]
          and found["tokens"][0]["text"] == "<think>", found)
    for wrong, name in (("4096", "4096"), ("[1,-1]", "-1"), ("18446744073709551616", "18446744073709551616")):
        done = skiff("detokenize", "1", wrong) if wrong[0] != "[" else skiff("detokenize", wrong)
        text = done.stderr.decode()
        check(f"detokenize: {wrong} is no token", done.returncode == 1 and not done.stdout and f"token {name} " in text and "4096 tokens" in text, done)
    none = skiff("detokenize", stdin=b"one two")
    check("detokenize: a word is no id", none.returncode == 1 and b'"one"' in none.stderr, none)
    child = subprocess.Popen([SKIFF, "detokenize"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    errors = child.communicate(b"18 19")[1]
    check("detokenize: a closed pipe is said", child.returncode == 1 and b"standard output" in errors, (child.returncode, errors))


def tools():
    """The demo pair was trained on a handful of tools; what it calls is its own affair, that a call arrives is not."""
    row = prompts_with_tools()[1]
    names = [t["function"]["name"] for t in row["tools"]]
    with tempfile.TemporaryDirectory() as tmp:
        file = os.path.join(tmp, "tools.json")

        def tools_file(text):
            with open(file, "w", encoding="utf-8") as f:
                f.write(text)
            return file

        tools_file(json.dumps(row["tools"], indent=1))
        words = ("--tools", file, "--reasoning", "off", row["messages"][-1]["content"])
        plain = answer("--speculation", "off", *words)
        calls = plain.get("tool_calls")
        check("run --tools: a call", calls and calls[0]["name"] in names and isinstance(json.loads(calls[0]["arguments"]), dict)
              and plain["finish_reason"] == "tool_calls" and 25 in plain["tokens"] and not plain["text"], plain)
        for more in (("--speculation", "fixed", "--spec-tokens", "7"), ("--speculation", "fixed", "--spec-tree", "31"), ()):
            spec = answer(*more, *words)
            check(f"run --tools: the same with {more}", all(spec.get(k) == plain.get(k) for k in ("tokens", "tool_calls", "text")) and
                  (not more or spec["stats"]["drafted"] > 0), spec)
        shown = skiff("run", "-q", *words)
        check("run --tools: calls are printed", shown.returncode == 0 and shown.stdout.decode() ==
              "".join(f"tool call: {c['name']} {c['arguments']}\n" for c in calls or []), shown)
        call = plain["tokens"].index(26)
        for n in range(1, call + 1):
            cut = answer("-n", str(n), *words)
            check(f"run --tools: cut after {n} tokens", cut.get("finish_reason") == "length" and cut.get("tool_calls") == [] and not cut.get("text"), cut)
            shown = skiff("run", "-q", "-n", str(n), *words).stdout.decode()
            told = re.fullmatch(r"tool call: (\S+) (\{.*\}) \(not finished\)\n", shown)
            check(f"run --tools: printed as cut after {n} tokens", shown == "\n" or told and isinstance(json.loads(told.group(2)), dict), shown)
        spelled = answer("--tools", tools_file('[{"type": "function", "function": {"name": "f", "parameters": {"maximum": 1.50}}}]'), "-n", "1", "hi")
        shorter = answer("--tools", tools_file('[{"type": "function", "function": {"name": "f", "parameters": {"maximum": 1.5}}}]'), "-n", "1", "hi")
        check("run --tools: numbers stand in the prompt as in the file", spelled["stats"]["prompt_tokens"] == shorter["stats"]["prompt_tokens"] + 1, (spelled, shorter))
        check("run --tools: no tools are none", answer("--tools", tools_file("[]"), "-n", "1", "hi").get("tool_calls") == [])
        for text, said in (("", "line "), ('{"a"', "not valid JSON: line 1"), ('{"a": 1}', "expected a JSON array of tools"), ("[1]", "tools[0]: expected an object"),
                           ('[{"type": "function"}]', "tools[0].function: expected an object"), ("[" * 100000, "not valid JSON"),
                           ('[{"type": "function", "function": {"name": "f", "parameters": ' + '{"a":' * 1000 + "1" + "}" * 1000 + "}}]", "nested")):
            done = skiff("run", "--tools", tools_file(text), "hi")
            check(f"run --tools: {text[:24]!r} is refused", done.returncode == 1 and not done.stdout and said in done.stderr.decode(), done)
        for path in (tmp, os.path.join(tmp, "none")):
            done = skiff("run", "--tools", path, "hi")
            check("run --tools: no such file", done.returncode == 1 and os.path.basename(path) in done.stderr.decode(), done)
        done = skiff("run", "--tools", tools_file("[]"), "--raw", "hi")
        check("run --tools: not with --raw", done.returncode == 2 and b"--raw" in done.stderr, done)


def text_cases():
    done = skiff("verify", "text", "tests/golden")
    said = done.stdout.decode()
    check("verify text: the golden cases", done.returncode == 0 and said.count("\nok ") == 3 and re.search(r"\n[1-9]\d+ passed, 0 failed, 0 skipped\n$", said)
          and re.search(r"parser_cases.jsonl: 137 passed", said), done)
    done = skiff("verify", "text", "tests/golden/template", "-m", "target/demo")
    check("verify text: a folder of one kind", done.returncode == 0 and done.stdout.count(b"ok ") == 2, done)

    def variant(file, line, change, code, *words):
        """The golden folder with one line of a file changed."""
        with tempfile.TemporaryDirectory() as tmp:
            for name in ("tokenizer", "template"):
                shutil.copytree(f"tests/golden/{name}", os.path.join(tmp, name))
            shutil.copy("tests/golden/parser_cases.jsonl", tmp)
            path = os.path.join(tmp, file)
            with open(path, encoding="utf-8") as f:
                lines = f.read().split("\n")
            lines[line - 1] = change(lines[line - 1])
            with open(path, "w", encoding="utf-8") as f:
                f.write("\n".join(lines))
            done = skiff("verify", "text", tmp)
            said = (done.stdout + done.stderr).decode("utf-8", "replace")
            check(f"verify text: {file}: {words[0]}", done.returncode == code and all(word in said for word in words)
                  and (code == 0 or (", 1 failed, " in said.splitlines()[-1]) != ("skiff: " in said)), (done.returncode, said))

    def member(name, change):
        def edit(line):
            row = json.loads(line)
            row[name] = change(row[name])
            return json.dumps(row)
        return edit

    tokens, renders, jinja, parser = "tokenizer/tokenizer_cases.jsonl", "template/template_cases.jsonl", "template/jinja_cases.jsonl", "parser_cases.jsonl"
    with open(f"tests/golden/{tokens}", encoding="utf-8") as f:
        kinds = [json.loads(line)["kind"] for line in f]
    decode = kinds.index("decode") + 1
    variant(tokens, 4, member("ids", lambda ids: ids[:-1] + [7]), 1, "line 4: ids: at element 0: expected 7, got 329")
    variant(tokens, 4, member("ids", lambda ids: ids + [7]), 1, "line 4: ids: at element 1: expected 7, got the end")
    variant(tokens, 4, member("ids", lambda ids: []), 1, "line 4: ids: at element 0: expected the end, got 329")
    variant(tokens, 4, member("pieces", lambda p: [" ", "  "]), 1, 'line 4: piece 0: at byte 1: expected the end, got "  "')
    variant(tokens, 4, member("pieces", lambda p: []), 1, "line 4: piece 0: expected 0 pieces, got more")
    variant(tokens, 4, member("pieces", lambda p: p + ["x"]), 1, "line 4: pieces: expected 2, got 1")
    variant(tokens, decode, member("text", lambda t: t + "x"), 1, f"line {decode}: text: at byte", 'expected "x", got the end')
    variant(tokens, decode, member("bytes", lambda b: "00" + b), 1, f"line {decode}: bytes: at byte")
    variant(tokens, decode, member("flush", lambda f: "é"), 1, f"line {decode}: flush: at byte 0: expected", "got")
    variant(tokens, decode, member("stream", lambda s: ["?"] + s[1:]), 1, f"line {decode}: stream 0: at byte 0")
    variant(renders, 2, member("expected", lambda t: t[:10] + "é" + t[10:]), 1, "line 2 (v8/hi): text: at byte")
    variant(renders, 3, member("template", lambda t: "v9"), 1, "template_cases.jsonl:3: ", "v9.jinja")
    variant(jinja, 1, member("template", lambda t: "{{"), 1, "line 1: expected a text, got an error: template line 1")
    variant(jinja, 1, lambda line: '{"template": "x", "vars": {}, "expected_error": {"kind": "syntax", "message": "m"}}', 1, "line 1: expected a syntax error (m), got a text of 1 bytes")
    variant(jinja, 1, lambda line: '{"template": "{{ x.y.z }}", "vars": {}, "expected_error": {"kind": "syntax", "message": "m"}}', 1, "got one while rendering")
    variant(jinja, 1, lambda line: """{"template": "{{ raise_exception('a') }}", "vars": {}, "expected_error": {"kind": "runtime", "message": "b"}}""", 1, 'expected the message "b"')
    variant(parser, 5, member("mode", lambda m: "content"), 1, "(think_then_answer): reasoning: at byte 0", "got the end")
    variant(parser, 5, member("expected", lambda e: dict(e, reasoning="easier")), 1, 'reasoning: at byte 3: expected "ier", got "y"')
    with open(f"tests/golden/{parser}", encoding="utf-8") as f:
        names = [json.loads(line)["name"] for line in f]
    one, two, cut, open_name, open_rule = (names.index(n) + 1 for n in ("v8_one", "two_calls", "unclosed_length", "unclosed", "end_inside_value"))

    def calls(change):
        def edit(expected):
            change(expected["tool_calls"])
            return expected
        return member("expected", edit)

    variant(parser, one, calls(lambda c: c[0].update(name="x")), 1, "(v8_one): name of call 0: at byte 0")
    variant(parser, one, calls(lambda c: c[0]["arguments"].update(days="2")), 1, '(v8_one): arguments of call 0: found {"city": "Paris", "days": 2}')
    variant(parser, two, calls(lambda c: c.pop()), 1, "(two_calls): 2 calls, expected 1")
    variant(parser, two, member("tools", lambda t: None), 1, "(two_calls): content: at byte 0")
    variant(parser, cut, member("finish", lambda f: "stop"), 1, "(unclosed_length): content: at byte 6")
    variant(parser, open_name, member("finish", lambda f: "length"), 1, "(unclosed): content: at byte 6")
    variant(parser, open_rule, calls(lambda c: c.pop()), 0, "0 failed")
    variant(parser, two, member("tools", lambda t: [1]), 1, f"{parser}:{two}: tools[0]: expected an object")
    variant(parser, 5, member("mode", lambda m: "neither"), 1, 'parser_cases.jsonl:5: member "mode"')
    for file in (tokens, renders, jinja, parser):
        variant(file, 7, lambda line: line[:-1], 1, f"{file}:7: not valid JSON")
        variant(file, 7, lambda line: "[1]", 1, f"{file}:7: expected a JSON object")
        variant(file, 7, lambda line: "{}", 1, f"{file}:7: member ")
        variant(file, 7, lambda line: "", 0, "0 failed")
    variant(tokens, 7, member("kind", lambda k: "code"), 1, f'{tokens}:7: member "kind"')
    variant("tokenizer/tokenizer.json", 1, lambda line: "[", 1, "tokenizer.json: line ")
    with tempfile.TemporaryDirectory() as tmp:
        nothing = skiff("verify", "text", tmp)
        check("verify text: a folder without cases", nothing.returncode == 2 and b"no text cases here" in nothing.stderr, nothing)
        open(os.path.join(tmp, "jinja_cases.jsonl"), "w").close()
        empty = skiff("verify", "text", tmp)
        check("verify text: a file without cases", empty.returncode == 1 and b"no cases in this file" in empty.stderr, empty)
        shutil.copy(f"tests/golden/{tokens}", tmp)
        alone = skiff("verify", "text", tmp)
        check("verify text: cases without their tokenizer", alone.returncode == 1 and b"tokenizer.json" in alone.stderr, alone)


def bench_spec():
    with tempfile.TemporaryDirectory() as tmp:
        file = os.path.join(tmp, "spec.json")
        done = skiff("bench", "spec", "--prompts", "tests/prompts.jsonl", "--limit", "3", "--predict", "12", "--repeat", "1",
                     "--ignore-eos", "--ctx-size", "1200", "--json", file, "--plots", tmp, timeout=400)
        check("bench spec", done.returncode == 0 and b"together" in done.stdout, (done.returncode, done.stderr, done.stdout))
        results = json.load(open(file))
        names = [s["name"] for s in results["settings"]]
        check("bench spec: the settings", len(names) == 13 and {"plain", "chain 7", "tree 15", "auto lookup", "auto"} <= set(names), names)
        classes = {c["class"]: [s["setting"] for s in c["settings"]] for c in results["classes"]}
        check("bench spec: every setting in every class", len(classes) == 3 and all(c == names for c in classes.values()), classes)
        empty = [(c["class"], s) for c in results["classes"] for s in c["settings"] if s["tokens_per_step"] < 1 or s["ratio_median"] <= 0
                 or sum(s["by_rows"].values()) != s["steps"] or sum(s["reasons"].values()) != s["steps"]]
        check("bench spec: every setting was measured", not empty, empty)
        check("bench spec: cost by rows", [c["context"] for c in results["cost_by_rows"]] == [64, 1024, 1136]
              and all(len(c["pass_us"]) == 10 and len(c["draft_us"]) == 6 for c in results["cost_by_rows"]), results["cost_by_rows"])
        check("bench spec: speed by context", [c["context"] for c in results["speed_by_context"]] == [64, 512, 1024]
              and all(c["pairs"] == 4 for c in results["speed_by_context"]), results["speed_by_context"])
        for name in ("speed-width.svg", "speed-context.svg"):
            root = xml.etree.ElementTree.parse(os.path.join(tmp, name)).getroot()
            check(f"bench spec: {name} is a picture", root.tag.endswith("svg") and len(root) > 20, len(root))
    sampled = skiff("bench", "spec", "--limit", "2", "--predict", "8", "--repeat", "1", "--temp", "1", "--seed", "3", "--ctx-size", "600", timeout=400)
    check("bench spec: sampled, in a short context", sampled.returncode == 0 and b"behind 536 tokens" in sampled.stdout, (sampled.stderr, sampled.stdout))
    alone = skiff("bench", "spec", "--model", "target/demo", "--ctx-size", "600", "--limit", "2", "--predict", "8", "--repeat", "1", timeout=400)
    check("bench spec: without a draft", alone.returncode == 0 and b"auto lookup" in alone.stdout and b"chain" not in alone.stdout.split(b"class ")[0], (alone.stderr, alone.stdout))


def isa_and_threads():
    want = answer("-n", "48", "--temp", "0", PROMPT)["tokens"]
    for isa in ("avx2", "avx512", "avx512bf16"):
        got = answer("-n", "48", "--temp", "0", "--isa", isa, "--threads", "1", "--prefill-chunk", "7", PROMPT)
        if "does not have it" in got.get("error", ""):
            print(f"skip run: {isa}: this processor does not have it")
            continue
        check(f"run: {isa}, 1 thread, chunks of 7 give the same ids", got.get("tokens") == want, got)


def memory_plan():
    """A model that states 2^30 positions: half a terabyte of keys and values is refused before it is asked for, and the
    context that is named instead is one that starts."""
    with tempfile.TemporaryDirectory() as folder:
        big = os.path.join(folder, "big")
        shutil.copytree("tests/golden/tiny_target", big)
        with open(os.path.join(big, "config.json"), "r+", encoding="utf-8") as f:
            config = json.load(f)
            config["max_position_embeddings"] = 1 << 30
            f.seek(0)
            f.truncate()
            json.dump(config, f)
        plan = json.loads(skiff("inspect", big, "--json").stdout)["memory"]
        check("plan: 2^30 positions", plan["context"] == 1 << 30 and plan["kv_global"] == 512 * ((1 << 30) + 256) and plan["cache"] == 0, plan)
        fits = 0
        for args in (("run", "-m", big, "-c", str(1 << 30), "x"), ("serve", "-m", big, "-c", str(1 << 30), "--port", "0")):
            done = skiff(*args)
            text = done.stderr.decode()
            named = re.search(r"a context of 1073741824 tokens needs \d+\.\d MiB.*the largest context that fits is (\d+)\n", text)
            check(f"plan: {args[0]} refuses what does not fit", done.returncode == 4 and named is not None, (done.returncode, text))
            fits = int(named.group(1)) if named else 0
        got = answer("-m", big, "-c", str(fits // 4 * 3), "-n", "3", "--ignore-eos", "x")
        check("plan: three quarters of what was named starts", len(got.get("tokens", [])) == 3, got)


def bad_input():
    cases = [
        (("run", "--no-such-option", "x"), 2, "no-such-option"),
        (("run", "--temp", "hot", "x"), 2, "--temp"),
        (("frobnicate",), 2, "frobnicate"),
        (("run", "--model", "/nonexistent/folder", "x"), 1, "/nonexistent/folder"),
        (("run", "--isa", "mmx", "x"), 2, "mmx"),
        (("run", "--ctx-size", "5000", "x"), 1, "4096"),
        (("run", "-c", "2000000", "x"), 1, "2000000 tokens was asked for; this model goes to 4096"),
        (("serve", "-c", "2000000", "--port", "0"), 1, "2000000 tokens was asked for; this model goes to 4096"),
        (("run", "--spec-tokens", "16", "x"), 2, "15"),
        (("run", "--draft-model", "draft/demo", "x"), 2, "target"),
        (("inspect", "tests"), 1, "config.json"),
        (("inspect", "--draft-model", "tests/golden/tiny_draft", "target/demo"), 1, "hidden"),
        (("verify", "golden", "tests/nowhere"), 2, "nowhere"),
        (("verify", "gold"), 2, "gold"),
        (("verify", "text"), 2, "folder"),
        (("verify", "text", "tests/nowhere"), 2, "nowhere"),
        (("verify", "golden", "--kv-dtype", "fp8_e4m3", "tests/golden"), 2, "bf16"),
        (("run", "--kv-dtype", "fp16", "x"), 2, "fp8_e4m3"),
        (("bench", "nonsense"), 2, "nonsense"),
        (("bench", "perplexity"), 2, "file"),
        (("bench", "perplexity", "/nonexistent/text"), 1, "/nonexistent/text"),
        (("bench", "spec", "x"), 2, "spec"),
        (("bench", "model", "target/demo", "--context", "5000"), 1, "4096"),
        (("bench", "model", "tests"), 1, "config.json"),
        (("bench", "model", "--draft-model", "draft/demo"), 2, "target"),
        (("bench", "model", "a", "b", "c"), 2, "'c'"),
        (("bench", "spec", "--prompts", "tests/nowhere"), 1, "tests/nowhere"),
        (("bench", "spec", "--ctx-size", "200", "--limit", "1", "--predict", "2", "--repeat", "1", "--plots", "tests/nowhere"), 1, "tests/nowhere"),
    ]
    for args, code, word in cases:
        done = skiff(*args)
        text = done.stderr.decode()
        check("bad: " + " ".join(args), done.returncode == code and word in text and len(text) < 1500, (done.returncode, text))
    long = skiff("run", "-", stdin=b"word " * 20000)
    check("bad: a prompt beyond the context", long.returncode == 1 and b"maximum context length is 4096" in long.stderr, long.stderr)
    broken = skiff("run", "-", stdin=b"\xff\xfe broken")
    check("bad: a prompt that is not UTF-8", broken.returncode == 1 and b"UTF-8" in broken.stderr, broken.stderr)


def damaged_models():
    """Copies of the demo target with one thing wrong: one clear line, no crash."""
    def variant(name, change, word):
        with tempfile.TemporaryDirectory() as tmp:
            folder = os.path.join(tmp, "m")
            shutil.copytree("target/demo", folder)
            change(folder)
            done = skiff("run", "-m", folder, "-n", "2", "x")
            text = done.stderr.decode("utf-8", "replace")
            check("damaged: " + name, done.returncode == 1 and word in text, (done.returncode, text))

    def edit(key, value):
        def change(folder):
            path = os.path.join(folder, "config.json")
            config = json.load(open(path))
            config[key] = value
            json.dump(config, open(path, "w"))
        return change

    def cut(file, size):
        return lambda folder: os.truncate(os.path.join(folder, file), size)

    shard = "model-00001-of-00002.safetensors"

    def flip(folder):
        with open(os.path.join(folder, shard), "r+b") as f:
            f.seek(300)
            byte = f.read(1)[0]
            f.seek(300)
            f.write(bytes([byte ^ 0x40]))

    def huge(folder):
        with open(os.path.join(folder, shard), "r+b") as f:
            f.write(b"\xff" * 8)

    variant("a shard cut off", cut(shard, 1000000), shard)
    variant("a shard of seven bytes", cut(shard, 7), shard)
    variant("a header length of 2^64-1", huge, shard)
    variant("a flipped bit in a header", flip, shard)
    variant("a missing shard", lambda f: os.remove(os.path.join(f, shard)), shard)
    variant("no config", lambda f: os.remove(os.path.join(f, "config.json")), "config.json")
    variant("a config that is no JSON", lambda f: open(os.path.join(f, "config.json"), "w").write("{"), "config.json")
    variant("no tokenizer", lambda f: os.remove(os.path.join(f, "tokenizer.json")), "tokenizer.json")
    variant("0 layers", edit("num_hidden_layers", 0), "num_hidden_layers")
    variant("head_dim 0", edit("head_dim", 0), "head_dim")
    variant("fewer experts than top-k", edit("num_experts", 2), "expert")
    variant("another hidden size", edit("hidden_size", 512), "")
    variant("an absurd layer count", edit("num_hidden_layers", 10**9), "num_hidden_layers")
    variant("text for a number", edit("hidden_size", "256"), "hidden_size")


# ---- signals and pipes ----

def interrupts():
    child = subprocess.Popen([SKIFF, "run", "--ignore-eos", "-n", "3000", PROMPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.read(1)
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=20)
    check("run: Ctrl-C ends cleanly", child.returncode == 130 and b"cancelled" in errors, (child.returncode, errors))
    child = subprocess.Popen([SKIFF, "run", "--ignore-eos", "-n", "3000", PROMPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.read(1)
    child.stdout.close()
    code = child.wait(timeout=20)
    child.stderr.close()
    check("run: a closed pipe ends it", code == 1, code)


# ---- server ----

class Server:
    def __init__(self, *args):
        # AddressSanitizer keeps freed memory for a while: little of it, since resident memory is checked
        self.child = subprocess.Popen([SKIFF, "serve", *args], stderr=subprocess.PIPE,
                                      env={**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=8:" + os.environ.get("ASAN_OPTIONS", "")})
        self.lines, self.url = [], None
        for raw in self.child.stderr:
            line = raw.decode()
            self.lines.append(line)
            found = re.match(r"ready: http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            raise RuntimeError("the server did not start: " + "".join(self.lines))
        self.rest = threading.Thread(target=lambda: self.lines.extend(r.decode() for r in self.child.stderr), daemon=True)
        self.rest.start()

    def post(self, body, path="/v1/chat/completions"):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, text

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        c.request("GET", path)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, text

    def rss(self):
        for line in open(f"/proc/{self.child.pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024

    def stop(self, number=signal.SIGINT):
        start = time.monotonic()
        self.child.send_signal(number)
        code, seconds = self.child.wait(timeout=20), time.monotonic() - start
        self.rest.join(timeout=5)
        return code, seconds


def chat(**more):
    return {"messages": [{"role": "user", "content": PROMPT}], "temperature": 0, "max_tokens": 60, **more}


def events(text):
    data = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(d) for d in data if d != "[DONE]"], data[-1:] == ["[DONE]"]


def server():
    s = Server("--port", "0")
    status, text = s.post(chat())
    whole = json.loads(text)
    content = whole["choices"][0]["message"]["content"]
    check("serve: an answer", status == 200 and content and whole["usage"]["completion_tokens"] > 1, text)
    status, text = s.post(chat(stream=True, stream_options={"include_usage": True}, speculation={"mode": "fixed", "max": 7}))
    chunks, done = events(text)
    pieces = [c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"]]
    check("serve: the stream is the same text", "".join(pieces) == content and done, text)
    check("serve: the first chunk has role and text", chunks[0]["choices"][0]["delta"].get("role") == "assistant" and pieces[0] != "", chunks[0])
    check("serve: every delta has content", all("content" in c["choices"][0]["delta"] for c in chunks if c["choices"]))
    check("serve: usage at the end", chunks[-1]["choices"] == [] and all(chunks[-1]["usage"][k] == whole["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")), chunks[-1])
    timings = next(c["timings"] for c in chunks if "timings" in c)
    check("serve: a chunk carries a round", len(pieces) - 2 <= timings["steps"] + 2 < timings["predicted_n"] and timings["draft_n_accepted"] > 0, timings)
    for k in (0, 1, 3, 15):
        mode = {"mode": "fixed", "max": k} if k else {"mode": "off"}
        status, text = s.post(chat(speculation=mode))
        check(f"serve: the same text with {k} proposals", status == 200 and json.loads(text)["choices"][0]["message"]["content"] == content, text)
    for nodes in (4, 31):
        status, text = s.post(chat(speculation={"mode": "fixed", "max": 7, "tree": nodes}))
        check(f"serve: the same text with a tree of {nodes}", status == 200 and json.loads(text)["choices"][0]["message"]["content"] == content, text)
    for mode in ({"mode": "auto"}, {"mode": "auto", "max": 3}, {"mode": "auto", "tree": 0}, {"mode": "fixed", "max": 15, "tree": 31, "min_p": 0.3}, {"min_p": 1}, {"max": 0}):
        whole = json.loads(s.post(chat(speculation=mode))[1])
        spec = whole["timings"]["speculation"]
        check(f"serve: the same text with speculation {mode}", whole["choices"][0]["message"]["content"] == content, whole)
        check(f"serve: counters of speculation {mode}", sum(spec["steps_by_rows"].values()) == sum(spec["steps_by_reason"].values()) == whole["timings"]["steps"]
              and spec["dflash"]["accepted"] <= spec["dflash"]["drafted"], spec)
    behind = []  # tokens of the next prompt behind the answer: result and tags, always the same
    for row in prompts_with_tools()[:3]:
        body = {"messages": row["messages"], "tools": row["tools"], "temperature": 0, "chat_template_kwargs": {"enable_thinking": False}}
        said = [json.loads(s.post({**body, "speculation": m})[1])["choices"][0] for m in ({"mode": "off"}, {"mode": "fixed", "max": 7}, {"mode": "auto"})]
        calls = [[c["function"] for c in x["message"].get("tool_calls", [])] for x in said]
        check("serve: a tool is called, with any speculation", calls[0] and calls.count(calls[0]) == 3 and all(x["finish_reason"] == "tool_calls" for x in said)
              and isinstance(json.loads(calls[0][0]["arguments"]), dict), said)
        forced_calls(s, body, row["tools"])
        none = json.loads(s.post({**body, "tool_choice": "none", "max_tokens": 40})[1])["choices"][0]
        check("serve: tool_choice none, and none is called", "tool_calls" not in none["message"] and "<tool_call>" not in none["message"]["content"], none)
        turn = said[0]["message"]
        follow = body["messages"] + [turn, {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": "done"}] if calls[0] else []
        usage = [json.loads(s.post({**body, "messages": m, "max_tokens": 50})[1])["usage"] for m in (body["messages"], follow)]
        behind.append(usage[1]["prompt_tokens"] - usage[0]["total_tokens"])
    check("serve: a call that comes back takes the tokens that the model wrote", len(set(behind)) == 1 and behind[0] > 0, behind)
    plain, fixed = (json.loads(s.post(chat(speculation=m))[1])["timings"]["speculation"] for m in ({"mode": "off"}, {"mode": "fixed", "max": 7}))
    check("serve: off is off, fixed is fixed", list(plain["steps_by_rows"]) == ["1"] and plain["dflash"]["drafted"] == 0 and set(fixed["steps_by_reason"]) <= {"fixed", "plain"}
          and fixed["dflash"]["drafted"] > 0, (plain, fixed))
    predicted = chat(messages=[{"role": "user", "content": PROMPT}], prediction={"type": "content", "content": content}, speculation={"mode": "fixed", "max": 7})
    whole = json.loads(s.post(predicted)[1])
    check("serve: a prediction is copied from, the text is the same", whole["choices"][0]["message"]["content"] == content
          and whole["timings"]["speculation"]["lookup"]["accepted"] > 20 and whole["timings"]["steps"] < whole["usage"]["completion_tokens"] / 2, whole)
    parts = {**predicted, "prediction": {"type": "content", "content": [{"type": "text", "text": "something"}, {"type": "text", "text": " else"}]}}
    check("serve: a wrong prediction changes nothing", json.loads(s.post(parts)[1])["choices"][0]["message"]["content"] == content)
    for field, bad in (("speculation", {"mode": "sometimes"}), ("speculation", {"max": 16}), ("speculation", {"max": -1}), ("speculation", {"max": "7"}), ("speculation", {"tree": 32}),
                       ("speculation", {"tree": -1}), ("speculation", {"min_p": 1.5}), ("speculation", {"min_p": "x"}), ("speculation", "off"), ("speculation", [1]),
                       ("prediction", "text"), ("prediction", {"type": "content"}), ("prediction", {"type": "audio", "content": "x"}),
                       ("prediction", {"type": "content", "content": [{"type": "text"}]}), ("cache_prompt", 1)):
        status, text = s.post(chat(**{field: bad}))
        check(f"serve: 400 for {field} {bad}", status == 400 and field in text, text)
    forms(s)
    turns(s)
    remembered(s)
    status, text = s.post(chat(speculation={"tree": 32}))
    check("serve: a tree beyond the limit", status == 400 and "tree" in text, text)
    sampled = chat(temperature=1.0, seed=7)
    texts = {json.loads(s.post({**sampled, "speculation": m})[1])["choices"][0]["message"]["content"]
             for m in ({"mode": "off"}, {"mode": "fixed", "max": 7}, {"mode": "fixed", "max": 7})}
    check("serve: sampled with a seed, with and without speculation", len(texts) == 1, texts)
    thinking = json.loads(s.post(chat(chat_template_kwargs={"enable_thinking": True}, max_tokens=400))[1])["choices"][0]["message"]
    check("serve: reasoning is split off", thinking.get("reasoning_content") and "</think>" not in (thinking["content"] or ""), thinking)
    stop = json.loads(s.post(chat(stop=["("]))[1])["choices"][0]
    check("serve: a stop string", stop["finish_reason"] == "stop" and "(" not in stop["message"]["content"]
          and content.startswith(stop["message"]["content"]), stop)
    bent = chat(repetition_penalty=1.3, frequency_penalty=0.5, logit_bias={"777": 2}, min_tokens=20, logprobs=True, top_logprobs=3)
    answers = [json.loads(s.post({**bent, "speculation": m})[1])["choices"][0] for m in ({"mode": "off"}, {"mode": "fixed", "max": 15})]
    check("serve: penalties, bias and log-probabilities, with and without speculation", answers[0]["message"]["content"] != content
          and [a["message"] for a in answers][0] == answers[1]["message"] and answers[0]["logprobs"]["content"] == answers[1]["logprobs"]["content"] != [], answers)
    check("serve: health and models", s.get("/health")[0] == 200 and json.loads(s.get("/v1/models")[1])["data"][0]["id"] == "laguna-demo")
    status, text = s.post({"messages": [{"role": "user", "content": "word " * 20000}]})
    check("serve: too long a prompt", status == 400 and "maximum context length is 4096 tokens" in text and "context_length_exceeded" in text, text)
    for name, body, field in (("no messages", {}, "messages"), ("temperature", chat(temperature="hot"), "temperature"),
                              ("penalties", chat(presence_penalty=3), "presence_penalty")):
        status, text = s.post(body)
        check(f"serve: 400 names the field: {name}", status == 400 and field in text, text)
    check("serve: unknown path", s.get("/nowhere")[0] == 404)
    long = {"messages": [{"role": "user", "content": "alpha beta " * 720}], "max_tokens": 64, "temperature": 0}
    status, text = s.post(long)
    usage = json.loads(text)["usage"] if status == 200 else text
    check("serve: a long prompt", status == 200 and 3400 < usage["prompt_tokens"] < 4033, usage)
    close_frees_the_engine(s)
    plan = json.loads(skiff("inspect", "--json").stdout)
    budget = plan["target"]["bytes"] + plan["draft"]["bytes"] + plan["memory"]["total"] + (64 << 20)
    check(f"serve: resident {s.rss() >> 20} MiB, at most {budget >> 20} MiB", s.rss() <= budget, s.rss())
    code, seconds = s.stop()
    check("serve: one signal ends it", code == 0 and seconds < 8, (code, seconds))


POINT = {"type": "object", "required": ["name", "size"], "properties": {"name": {"type": "string", "maxLength": 12}, "size": {"type": "integer", "minimum": 3, "maximum": 40},
                                                                   "kind": {"enum": ["list", "dict"]}}}
MODES = ({"mode": "off"}, {"mode": "fixed", "max": 7}, {"mode": "fixed", "max": 7, "tree": 31}, {"mode": "auto"})


def is_point(text):
    v = json.loads(text)
    return (isinstance(v, dict) and set(v) <= {"name", "size", "kind"} and isinstance(v["name"], str) and len(v["name"]) <= 12 and isinstance(v["size"], int)
            and 3 <= v["size"] <= 40 and v.get("kind", "list") in ("list", "dict"))


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def streamed(s, body):
    """Content, calls by index, finish_reason."""
    status, text = s.post({**body, "stream": True})
    content, calls, reason = "", {}, None
    for e in events(text)[0]:
        for c in e["choices"]:
            content += c["delta"].get("content") or ""
            reason = c["finish_reason"] or reason
            for d in c["delta"].get("tool_calls") or []:
                f = calls.setdefault(d["index"], {"name": "", "arguments": ""})
                f["name"] += d["function"].get("name") or ""
                f["arguments"] += d["function"].get("arguments") or ""
    return content, [calls[i] for i in sorted(calls)], reason


def forced_calls(s, body, tools):
    required = {t["function"]["name"]: set(t["function"]["parameters"].get("required", [])) for t in tools}
    for choice in ("required", {"type": "function", "function": {"name": list(required)[-1]}}):
        for more in ({"temperature": 0}, {"temperature": 1, "seed": 4}):
            body = {**body, "messages": [{"role": "user", "content": "Hello."}], "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 300, **more}
            said = [json.loads(s.post({**body, "speculation": m})[1])["choices"][0] for m in MODES]
            calls = [[c["function"] for c in x["message"].get("tool_calls", [])] for x in said]
            good = said[0]["finish_reason"] == "length" or (len(calls[0]) == 1 and calls[0][0]["name"] in (required if choice == "required" else list(required)[-1:])
                                                            and required[calls[0][0]["name"]] <= set(json.loads(calls[0][0]["arguments"])) and said[0]["finish_reason"] == "tool_calls")
            check(f"serve: a call is forced by {json.dumps(choice)}, {json.dumps(more)}", good and calls.count(calls[0]) == len(MODES), said)
            check("serve: streamed, the same forced call", said[0]["finish_reason"] == "length" or streamed(s, body) == ("", calls[0], "tool_calls"), streamed(s, body))


def forms(s):
    """Answers that must be JSON: valid, whole and streamed, with reasoning and without, the same with any speculation."""
    asked = {"response_format": schema_format(POINT), "max_tokens": 300}
    with open("tests/prompts.jsonl", encoding="utf-8") as f:
        thinking = next(r["messages"] for r in map(json.loads, f) if r["class"] == "thinking")
    for more in ({"temperature": 0}, {"temperature": 1, "seed": 7, "top_p": 0.9}, {"temperature": 0, "chat_template_kwargs": {"enable_thinking": True}, "messages": thinking}):
        said = [json.loads(s.post(chat(speculation=m, **asked, **more))[1]) for m in MODES]
        first = said[0]["choices"][0]
        check(f"serve: a schema is kept, {json.dumps(more)[:90]}", first["finish_reason"] == "stop" and is_point(first["message"]["content"]), first)
        check(f"serve: the same with any speculation, {json.dumps(more)[:90]}", all(x["choices"][0]["message"] == first["message"] for x in said), said)
        check(f"serve: streamed, the same, {json.dumps(more)[:90]}", streamed(s, chat(**asked, **more)) == (first["message"]["content"], [], "stop"), first)
        check("serve: masks take time", all(0 < x["timings"]["mask_ms"] < x["timings"]["predicted_ms"] + x["timings"]["prompt_ms"] for x in said), said)
        thinks = "chat_template_kwargs" in more
        check(f"serve: reasoning comes first, {json.dumps(more)[:90]}", bool(first["message"].get("reasoning_content")) == thinks, first)
    check("serve: a free answer has no masks", "mask_ms" not in json.loads(s.post(chat())[1])["timings"])
    whole = json.loads(s.post(chat(temperature=0, **asked))[1])["choices"][0]["message"]["content"]
    cut = json.loads(s.post(chat(temperature=0, **{**asked, "max_tokens": 6}))[1])["choices"][0]
    check("serve: cut by max_tokens", cut["finish_reason"] == "length" and whole.startswith(cut["message"]["content"]) and len(cut["message"]["content"]) < len(whole), cut)
    for more in ({"min_tokens": 200}, {"ignore_eos": True}, {"logit_bias": {str(i): -100 for i in range(1000)}}):
        got = json.loads(s.post(chat(temperature=0, **asked, **more))[1])["choices"][0]
        check(f"serve: the schema is kept with {json.dumps(more)[:40]}", got["finish_reason"] == "stop" and is_point(got["message"]["content"]), got)
    got = json.loads(s.post(chat(temperature=0, stop="size", **asked))[1])["choices"][0]
    check("serve: a stop string inside of JSON", got["finish_reason"] == "stop" and got["stop_reason"] == "size" and whole.startswith(got["message"]["content"]), got)
    got = json.loads(s.post(chat(temperature=0, response_format={"type": "json_object"}, max_tokens=400))[1])["choices"][0]
    check("serve: a JSON object", got["message"]["content"].startswith("{") and (got["finish_reason"] == "length" or isinstance(json.loads(got["message"]["content"]), dict)), got)
    for format, words in (({"type": "json_schema"}, ("schema",)), (schema_format({"type": "object", "properties": {"a": {"not": {}}}}), ("not", "/properties/a"))):
        status, text = s.post(chat(response_format=format))
        check(f"serve: {json.dumps(format)[:60]} is refused", status == 400 and json.loads(text)["error"]["param"] == "response_format.json_schema.schema" and all(w in text for w in words), text)


def run_forms():
    """The same from the command line."""
    with tempfile.TemporaryDirectory() as folder:
        def file(name, content):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)
            return path
        schema = file("point.json", json.dumps(POINT))
        tools = file("tools.json", json.dumps(prompts_with_tools()[0]["tools"]))
        for more in ([], ["--temp", "1", "--seed", "3"], ["--reasoning", "on"]):
            said = [answer("--json-schema", schema, "--predict", "300", *more, *spec, PROMPT) for spec in (["--spec", "off"], ["--spec", "fixed"], ["--spec", "fixed", "--spec-tree", "16"], [])]
            check(f"run: a schema is kept, with any speculation {more}", said[0].get("finish_reason") == "stop" and is_point(said[0]["text"]) and all(x["tokens"] == said[0]["tokens"] for x in said)
                  and all(x["stats"]["mask_ms"] > 0 for x in said), said)
        got = answer("--json-object", "--predict", "400", PROMPT)
        check("run: a JSON object", got["text"].startswith("{") and (got["finish_reason"] == "length" or isinstance(json.loads(got["text"]), dict)), got)
        check("run: a free answer has no masks", answer("--predict", "5", PROMPT)["stats"]["mask_ms"] == 0)
        for choice in ("required", "search"):
            said = [answer("--tools", tools, "--tool-choice", choice, "--predict", "300", "--spec", spec, "Hello.") for spec in ("off", "fixed", "auto")]
            calls = said[0].get("tool_calls", [])
            check(f"run: a call is forced: {choice}", calls and (choice == "required" or [c["name"] for c in calls] == ["search"]) and all(isinstance(json.loads(c["arguments"]), dict) for c in calls)
                  and said[0]["finish_reason"] == "tool_calls" and all(x["tokens"] == said[0]["tokens"] for x in said), said)
        done = skiff("run", "--json-schema", schema, PROMPT)
        check("run: the text of the schema is printed", done.returncode == 0 and is_point(done.stdout) and b"masks: " in done.stderr, done)
        wrong = ((["--json-schema", os.path.join(folder, "none.json")], 1, "none.json"), (["--json-schema", file("bad.json", "{")], 1, "not valid JSON"), (["--json-schema", file("list.json", "[]")], 1, "expected an object"),
                 (["--json-schema", file("odd.json", '{"properties": {"a": {"not": {}}}}')], 1, "/properties/a"), (["--json-schema", file("never.json", '{"type": "integer", "minimum": 3, "maximum": 1}')], 1, "never.json"),
                 (["--tool-choice", "required"], 2, "--tools"), (["--tools", tools, "--tool-choice", "nobody"], 1, "nobody"))
        for args, code, word in wrong:
            done = skiff("run", *args, PROMPT)
            check(f"run: {args[0]} {os.path.basename(args[-1])} is refused", done.returncode == code and word in done.stderr.decode(), done)


def turns(s):
    """A conversation computes only what is new; the text is that of a cold run; a side request takes nothing away."""
    def ask(messages, **more):
        a = json.loads(s.post({"messages": messages, "max_tokens": 40, "temperature": 0, **more})[1])
        return a["choices"][0]["message"]["content"], a["usage"]["prompt_tokens"], a["usage"]["prompt_tokens_details"]["cached_tokens"]
    talk, known = [{"role": "user", "content": "alpha beta gamma " * 400 + "Write a function."}], 0
    for turn in range(3):
        text, prompt, cached = ask(talk)
        check(f"serve: turn {turn + 1} reuses the turns before", (cached >= known - 8) if turn else (cached < 64), (prompt, cached))
        cold, _, none = ask(talk, cache_prompt=False)
        check(f"serve: turn {turn + 1} is the text of a cold run", cold == text and none == 0, (cold, text))
        ask([{"role": "user", "content": f"A title for talk {turn}, please."}])
        known = prompt
        talk = talk + [{"role": "assistant", "content": text}, {"role": "user", "content": f"And number {turn}."}]
    again, prompt, cached = ask(talk[:-2])
    check("serve: the last answer again, for one row", again == text and cached == prompt - 1, (prompt, cached))
    other, prompt, cached = ask(talk[:-3] + [{"role": "user", "content": "Something else."}])
    check("serve: a changed last message keeps what stands before", cached >= prompt - 40, (prompt, cached))


def remembered(s):
    """A client that does not send the reasoning back gets the prompt of one that does."""
    think = {"max_tokens": 100, "temperature": 0, "chat_template_kwargs": {"enable_thinking": True}}
    ask = [{"role": "user", "content": "Hello"}]  # an answer with both, and soon
    whole = json.loads(s.post({"messages": ask, **think})[1])["choices"][0]["message"]

    def prompt(**more):
        said = {"role": "assistant", "content": whole["content"], **more}
        return json.loads(s.post({"messages": [*ask, said, {"role": "user", "content": "Go on."}], **think, "max_tokens": 1})[1])["usage"]["prompt_tokens"]

    bare, sent, short = prompt(), prompt(reasoning_content=whole["reasoning_content"]), prompt(reasoning_content="x")
    check("serve: reasoning that a client leaves out is put back", whole["content"] and bare == sent > short, (bare, sent, short, whole))


def close_frees_the_engine(s):
    c = socket.create_connection(("127.0.0.1", s.port))
    body = json.dumps(chat(stream=True, max_tokens=3500, ignore_eos=True)).encode()
    c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    c.recv(4096)
    c.close()
    start = time.monotonic()
    status, _ = s.post(chat(max_tokens=1))
    check("serve: a closed stream frees the engine", status == 200 and time.monotonic() - start < 2, time.monotonic() - start)


def taken_port():
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind(("127.0.0.1", 8000))
        holder.listen()
    except OSError:
        pass  # somebody else has it: just as good
    s = Server()
    said = "".join(s.lines)
    check("serve: the next free port is taken and said", s.port != 8000 and f"using {s.port} instead" in said, said)
    s.stop(signal.SIGTERM)
    port = holder.getsockname()[1] or 8000
    done = skiff("serve", "--port", str(port))
    check("serve: a port that was asked for must be free", done.returncode == 5 and str(port).encode() in done.stderr, (done.returncode, done.stderr))
    holder.close()


def serve_once(folder, *asks):
    """A server over a cache folder, from start to SIGTERM: parsed answers, exit code, all that it said."""
    s = Server("--port", "0", "--cache-dir", folder)
    answers = [json.loads(s.post(a)[1]) for a in asks]
    code, _ = s.stop(signal.SIGTERM)
    return answers, code, "".join(s.lines)


def cache_dir():
    def cached(a):
        return a["usage"]["prompt_tokens_details"]["cached_tokens"]

    def content(a):
        return a["choices"][0]["message"]["content"]

    other = {"messages": [{"role": "user", "content": "alpha beta " * 300}], "max_tokens": 30, "temperature": 0.8, "seed": 3,
             "repetition_penalty": 1.2}
    with tempfile.TemporaryDirectory() as tmp:
        folder = os.path.join(tmp, "cache")
        cold, code, said = serve_once(folder, other, chat())
        files = sorted(os.listdir(folder))
        modes = [os.stat(os.path.join(folder, f)).st_mode & 0o777 for f in files]
        check("cache: a file for each conversation, for its owner only", code == 0 and len(files) == 2 and modes == [0o600] * 2
              and os.stat(folder).st_mode & 0o777 == 0o700 and "warn" not in said, (code, files, modes, said))
        warm, code, said = serve_once(folder, other, chat())
        check("cache: the first requests after a restart are known", code == 0 and all(cached(w) == w["usage"]["prompt_tokens"] - 1
              for w in warm) and max(map(cached, cold)) < 40, [w["usage"] for w in warm])
        check("cache: and get the same text", [content(w) for w in warm] == [content(c) for c in cold], (warm, cold))
        path = os.path.join(folder, max(files, key=lambda f: os.path.getsize(os.path.join(folder, f))))
        with open(path, "r+b") as f:
            f.seek(-100000, os.SEEK_END)
            f.write(b"damage")
        warm, code, said = serve_once(folder, chat(), other)
        check("cache: a damaged file is named, once", said.count("warn") == 1 and os.path.basename(path) in said and "damaged" in said, said)
        check("cache: and costs one conversation", code == 0 and cached(warm[0]) > 40 > cached(warm[1])
              and [content(w) for w in reversed(warm)] == [content(c) for c in cold], warm)
        blocked = os.path.join(tmp, "blocked")
        os.mkdir(blocked, 0o500)
        # rights do not bind root: then a folder in which nobody can write
        for name, bad in (("no rights", "/proc" if os.geteuid() == 0 else blocked), ("a file", path), ("no name", "")):
            got, code, said = serve_once(bad, chat())
            check(f"cache: {name}: one warning, and the server works", code == 0 and content(got[0]) == content(cold[1])
                  and said.count("warn") == 1, (code, said))


def main():
    for part in (commands, tokens_and_back, tools, run_forms, text_cases, bench_spec, isa_and_threads, memory_plan, bad_input, damaged_models, interrupts, server, cache_dir, taken_port):
        try:
            part()
        except Exception as why:  # one broken part must not hide the others
            check(part.__name__, False, repr(why))
    print(f"{TOTALS['passed']} passed, {TOTALS['failed']} failed, 0 skipped")
    sys.exit(1 if TOTALS["failed"] else 0)


main()
