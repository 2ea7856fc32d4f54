#!/usr/bin/env python3
"""Random schemas: what the engine writes under them is valid for the package jsonschema, and what is valid in the form that
the engine writes is accepted. Tool calls likewise, read back by the rules of their format.

usage: test_constrained.py PROGRAM [--seed N] [--schemas N] [--model DIR]
"""
import argparse
import json
import os
import pathlib
import random
import re
import secrets
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build/venv/bin/python3"
if PYTHON.exists() and pathlib.Path(sys.prefix) != ROOT / "build/venv":
    os.execv(PYTHON, [str(PYTHON)] + sys.argv)
try:
    import jsonschema
except ImportError as why:
    print(f"skip test_constrained: {why}; make venv installs it")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

WORDS = ["name", "id", "a", "ab", "abc", "kind", "größe", "日本", "with space", "quote\"s", "back\\slash", "tab\t", "n", "x" * 40, "😀", "/", "<b>"]
PATTERNS = [
    (r"^[a-z]+$", lambda r: "".join(r.choices("abcxyz", k=r.randint(1, 8)))),
    (r"^\d{4}-\d{2}-\d{2}$", lambda r: f"{r.randint(0, 9999):04}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"),
    (r"^(red|green|blue)$", lambda r: r.choice(["red", "green", "blue"])),
    (r"^(?:[A-Z][a-z]*\s?){1,3}$", lambda r: r.choice(["Ab ", "A", "Abc De F"])),
    (r"foo|^bar", lambda r: r.choice(["xxfoo", "foo", "barré", "bar", "a\"foo\n"])),
    (r"^[^\"\\]*$", lambda r: r.choice(["", "tab\t", "é😀", "plain"])),
    (r"^.{2,5}$", lambda r: r.choice(["ab", "\"\\", "日本語", "😀😀"])),
    (r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$", lambda r: r.choice(["me@home.org", "a.b+c@d-e.info"])),
    (r"^(a|b(c|d)*)?e{0,2}$", lambda r: r.choice(["", "a", "bcdcd", "aee", "be"])),
    (r"^\x41[B-D\u00e9]\/$", lambda r: r.choice(["AB/", "Aé/"])),
]

HINTS = "foobar red green blue 0123-45-67 a@b.cd A\u00e9/ "


class Maker:
    """Makes pairs: a schema, and a function that makes values which are valid and in the order of the schema."""

    def __init__(self, rng):
        self.r = rng
        self.defs = {}

    def schema(self):
        self.defs = {}
        schema, make = self.any_kind(0)
        if self.defs:
            if not isinstance(schema, dict) or "$ref" in schema:
                schema = {"allOf": [schema]}
            schema["$defs"] = {name: s for name, (s, _) in self.defs.items()}
        return schema, make

    def any_kind(self, depth):
        deep = [self.array, self.tuple, self.object, self.object, self.any_of, self.one_of, self.all_of, self.ref, self.recursive]
        flat = [self.null, self.boolean, self.integer, self.number, self.string, self.pattern, self.enum, self.const, self.types, self.free]
        kinds = flat + (deep * 2 if depth < 3 else [])
        schema, make = self.r.choice(kinds)(depth)
        if isinstance(schema, dict) and self.r.random() < 0.2:
            schema = {"title": "T", "description": "anything", **schema, "default": None, "x-note": 1}
        return schema, make

    def null(self, _):
        return {"type": "null"}, lambda: None

    def boolean(self, _):
        return {"type": "boolean"}, lambda: self.r.random() < 0.5

    def integer(self, _):
        r = self.r
        kind = r.randrange(4)
        if kind == 0:
            return {"type": "integer"}, lambda: r.randint(-10 ** r.randint(0, 17), 10 ** r.randint(0, 17))
        lo = r.randint(-10 ** r.randint(0, 12), 10 ** r.randint(0, 12))
        hi = lo + r.randint(0, 10 ** r.randint(0, 12))
        if kind == 1:
            return {"type": "integer", "minimum": lo}, lambda: r.randint(lo, hi)
        if kind == 2:
            return {"type": "integer", "exclusiveMinimum": lo - 1, "maximum": hi}, lambda: r.choice([lo, hi, r.randint(lo, hi)])
        return {"type": "integer", "minimum": lo - 0.5, "exclusiveMaximum": hi + 1}, lambda: r.choice([lo, hi, r.randint(lo, hi)])

    def number(self, _):
        r = self.r
        kind = r.randrange(4)
        if kind == 0:
            return {"type": "number"}, lambda: r.choice([0, -1.5, 1e10, 2.5e-7, 3, r.randint(-1000, 1000) / 8])
        lo = round(r.uniform(-1000, 1000), r.randint(0, 6))
        hi = round(lo + r.uniform(0.01, 10 ** r.randint(0, 5)), r.randint(2, 6))
        if kind == 1:
            return {"type": "number", "minimum": lo}, lambda: lo
        if kind == 2:
            return {"minimum": lo, "maximum": hi}, lambda: r.choice([lo, hi])
        return {"type": "number", "exclusiveMinimum": lo, "exclusiveMaximum": hi}, lambda: round((lo + hi) / 2, 6)

    def text(self, n):
        return "".join(self.r.choice("abc \"\\\n\té日😀/<\u007f\u0001") for _ in range(n))

    def string(self, _):
        r = self.r
        schema = {"type": "string"}
        lo, hi = 0, 12
        if r.random() < 0.5:
            lo = schema["minLength"] = r.randint(0, 6)
        if r.random() < 0.5:
            hi = schema["maxLength"] = lo + r.randint(0, 9)
        if r.random() < 0.2:
            schema["format"] = "date-time"
        return schema, lambda: self.text(r.randint(lo, max(lo, hi)))

    def pattern(self, _):
        pattern, make = self.r.choice(PATTERNS)
        schema = {"type": "string", "pattern": pattern}
        if self.r.random() < 0.3:
            schema["maxLength"] = 20
        return schema, lambda: make(self.r)

    def value(self, depth=0):
        r = self.r
        kind = r.randrange(8 if depth < 3 else 6)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(r.randint(0, 3))]
        if kind == 7:
            return {r.choice("abcdefg") + str(i): self.value(depth + 1) for i in range(r.randint(0, 3))}
        return [None, True, False, r.randint(-99, 99), r.randint(-99, 99) / 4, self.text(r.randint(0, 5))][kind]

    def enum(self, _):
        values = [self.value() for _ in range(self.r.randint(1, 5))]
        return {"enum": values}, lambda: self.r.choice(values)

    def const(self, _):
        value = self.value()
        return {"const": value}, lambda: value

    def types(self, _):
        r = self.r
        schema = {"type": r.sample(["string", "integer", "null", "boolean"], r.randint(1, 3)), "maxLength": 4, "minimum": 0}
        makers = {"string": lambda: self.text(r.randint(0, 4)), "integer": lambda: r.randint(0, 50), "null": lambda: None, "boolean": lambda: True}
        return schema, lambda: makers[r.choice(schema["type"])]()

    def free(self, _):
        return self.r.choice([{}, True]), self.value

    def array(self, depth):
        r = self.r
        item, make = self.any_kind(depth + 1)
        schema = {"type": "array", "items": item}
        lo, hi = 0, 3
        if r.random() < 0.4:
            lo = schema["minItems"] = r.randint(0, 3)
        if r.random() < 0.4:
            hi = schema["maxItems"] = lo + r.randint(0, 3)
        return schema, lambda: [make() for _ in range(r.randint(lo, max(lo, hi)))]

    def tuple(self, depth):
        r = self.r
        parts = [self.any_kind(depth + 1) for _ in range(r.randint(1, 3))]
        rest, make = self.any_kind(depth + 1)
        schema = {"type": "array", "prefixItems": [s for s, _ in parts], "items": r.choice([False, rest])}
        lo = r.randint(0, len(parts))
        schema["minItems"] = lo

        def instance():
            n = r.randint(lo, len(parts))
            values = [m() for _, m in parts[:n]]
            if n == len(parts) and schema["items"] is not False:
                values += [make() for _ in range(r.randint(0, 2))]
            return values
        return schema, instance

    def properties(self, depth, names):
        props = {n: self.any_kind(depth + 1) for n in names}
        required = [n for n in names if self.r.random() < 0.5]
        schema = {"type": "object", "properties": {n: s for n, (s, _) in props.items()}, "required": required}

        def instance():
            return {n: m() for n, (_, m) in props.items() if n in required or self.r.random() < 0.5}
        return schema, instance

    def object(self, depth):
        r = self.r
        schema, make = self.properties(depth, r.sample(WORDS, r.randint(0, 5)))
        if not schema["properties"]:
            del schema["properties"]
        others = r.randrange(3)
        if others == 1:
            schema["additionalProperties"] = False
            return schema, make
        if others == 0 or "properties" not in schema:
            if others == 2:
                return schema, lambda: {"other": self.value()}
            rest, make_rest = self.any_kind(depth + 1)
            schema["additionalProperties"] = rest
            return schema, lambda: {**make(), **{r.choice(["other", "nam", "kinds", "日", "ab c"]): make_rest() for _ in range(r.randint(0, 2))}}
        return schema, make

    def any_of(self, depth):
        parts = [self.any_kind(depth + 1) for _ in range(self.r.randint(1, 3))]
        return {"anyOf": [s for s, _ in parts]}, lambda: self.r.choice(parts)[1]()

    def one_of(self, depth):
        r = self.r
        if r.random() < 0.4:
            parts = [self.string(depth), self.boolean(depth), self.integer(depth), self.array(depth)]
            parts = r.sample(parts, r.randint(1, 4))
        else:
            parts = []
            for i in range(r.randint(1, 3)):
                s, m = self.properties(depth, r.sample([w for w in WORDS if w != "kind"], 2))
                tag = {"const": f"k{i}"} if r.random() < 0.5 else {"enum": [i, f"e{i}"]}
                s["properties"] = {"kind": tag, **s["properties"]}
                s["required"] = ["kind"] + s["required"]
                parts.append((s, lambda m=m, tag=tag: {"kind": tag.get("const", tag.get("enum", [None])[0]), **m()}))
        return {"oneOf": [s for s, _ in parts]}, lambda: r.choice(parts)[1]()

    def all_of(self, depth):
        names = self.r.sample(WORDS, 4)
        a, make_a = self.properties(depth, names[:2])
        b, make_b = self.properties(depth, names[2:])
        return {"allOf": [a, b]}, lambda: {**make_a(), **make_b()}

    def ref(self, depth):
        if not self.defs or self.r.random() < 0.3:
            name = f"d{len(self.defs)}/~%"[:2 + self.r.randint(0, 3)]
            self.defs[name] = (True, None)
            self.defs[name] = self.any_kind(depth + 1)
        name = self.r.choice([n for n, (_, m) in self.defs.items() if m] or [None])
        if name is None:
            return self.boolean(depth)
        pointer = name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
        return {"$ref": "#/$defs/" + pointer}, lambda: self.defs[name][1]()

    def recursive(self, depth):
        name = f"t{len(self.defs)}"
        self.defs[name] = (True, None)
        value, make_value = self.any_kind(depth + 2)
        schema = {"type": "object", "properties": {"v": value, "kids": {"type": "array", "items": {"$ref": "#/$defs/" + name}}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/" + name}]}}, "required": ["v"]}

        def make(deep=0):
            out = {"v": make_value()}
            if self.r.random() < 0.5:
                out["kids"] = [make(deep + 1) for _ in range(self.r.randint(0, 2 - min(deep, 2)))]
            if self.r.random() < 0.5:
                out["next"] = make(deep + 1) if deep < 3 else None
            return out
        self.defs[name] = (schema, make)
        return {"$ref": "#/$defs/" + name}, make


def spell(rng, value):
    """JSON in one of the forms that are written."""
    form = rng.randrange(5)
    if form == 0:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if form == 1:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=[2, 4, "\t"][form - 2])


def mutate(rng, text):
    i = rng.randrange(len(text) + 1)
    piece = rng.choice(["", rng.choice("\"{}[],:0123-.eE truefalsn\\\n\t é"), text[i:i + 3] * 2])
    return text[:i] + piece + text[i + rng.randint(0, 2):]


class Program:
    def __init__(self, path, model):
        self.child = subprocess.Popen([path, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, requests):
        writer = threading.Thread(target=self.send, args=(requests,))
        writer.start()
        answers = []
        for request in requests:
            line = self.child.stdout.readline()
            if not line:
                print(f"FAIL no answer, exit code {self.child.wait()}, to {json.dumps(request)[:3000]}")
                print("0 passed, 1 failed, 0 skipped")
                sys.exit(1)
            answers.append(json.loads(line))
        writer.join()
        return answers

    def send(self, requests):
        try:
            for request in requests:
                self.child.stdin.write(json.dumps(request).encode() + b"\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass


class Checks:
    def __init__(self):
        self.bad = 0
        self.counts = {}

    def check(self, what, good, detail):
        n = self.counts.setdefault(what, [0, 0])
        n[0] += 1
        if not good:
            n[1] += 1
            if n[1] <= 5:
                print(f"  {what}: {detail[:3000]}", flush=True)

    def end(self):
        for what, (n, bad) in self.counts.items():
            print(f"{'FAIL' if bad else 'ok  '} {what}: {n} looked at, {bad} wrong")
        failed = sum(bad > 0 for _, bad in self.counts.values())
        print(f"{len(self.counts) - failed} passed, {failed} failed, 0 skipped")
        return 1 if failed else 0


def reason(schema, text):
    """Why the text is not valid; None: it is."""
    try:
        value = json.loads(text)
    except ValueError as why:
        return f"no JSON: {why}"
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(value))
    return error and error.message


def check_schemas(program, rng, n, checks):
    maker = Maker(rng)
    cases = []
    for _ in range(n):
        schema, make = maker.schema()
        valid = [spell(rng, make()) for _ in range(8)]
        for text in valid:
            assert reason(schema, text) is None, (schema, text, reason(schema, text))
        cases.append((schema, valid, [mutate(rng, t) for t in valid * 3]))
    answers = program.ask([{"schema": s, "count": 6, "tokens": rng.choice([5, 20, 60]), "seed": rng.getrandbits(48), "hints": HINTS, "accept": v + m} for s, v, m in cases])
    for (schema, valid, mutants), answer in zip(cases, answers):
        shown = json.dumps(schema, ensure_ascii=False)
        checks.check("schemas are understood", "error" not in answer, f"{shown}: {answer.get('error')}")
        if "error" in answer:
            continue
        for text in answer["texts"]:
            why = reason(schema, text)
            checks.check("texts are valid", why is None, f"{shown}: {text}: {why}")
        for text, accepted in zip(valid, answer["accepted"]):
            checks.check("valid texts are accepted", accepted, f"{shown}: {text}")
        for text, accepted in zip(mutants, answer["accepted"][len(valid):]):
            why = reason(schema, text) if accepted else None
            checks.check("accepted texts are valid", why is None, f"{shown}: {text}: {why}")


CALL = re.compile(r"<tool_call>([^<\n]*)\n?((?:<arg_key>.*?</arg_key>\n?<arg_value>.*?</arg_value>\n?)*)</tool_call>", re.S)
ARG = re.compile(r"<arg_key>(.*?)</arg_key>\n?<arg_value>(.*?)</arg_value>\n?", re.S)


def read_calls(text, tools):
    """(name, arguments) of each call; the text must be nothing but calls."""
    calls, at = [], 0
    while at < len(text):
        found = CALL.match(text, at)
        if not found:
            raise ValueError(f"no call at {at}")
        name = found.group(1).strip()
        props = tools[name]["properties"]
        args = {}
        for key, value in ARG.findall(found.group(2)):
            is_text = isinstance(props[key], dict) and props[key].get("type") == "string"
            args[key] = value if is_text else json.loads(value.strip())
        calls.append((name, args))
        at = found.end()
        if at < len(text) and text[at] == "\n":
            at += 1
    return calls


def spell_call(rng, name, args, props, lines):
    end = "\n" if lines else ""
    out = f"<tool_call>{name}{end}"
    for key, value in args.items():
        is_text = isinstance(props[key], dict) and props[key].get("type") == "string"
        out += f"<arg_key>{key}</arg_key>{end}<arg_value>{value if is_text else spell(rng, value)}</arg_value>{end}"
    return out + "</tool_call>"


def check_tools(program, rng, n, checks):
    maker = Maker(rng)
    cases = []
    for _ in range(n):
        names = rng.sample(["get", "get_weather", "set", "mcp__a.b", "größe", "x"], rng.randint(1, 3))
        tools = {}
        for name in names:
            maker.defs = {}
            schema, make = maker.properties(2, rng.sample(["city", "cit", "days", "with space", "日本", "opts"], rng.randint(0, 4)))
            if maker.defs:
                schema["$defs"] = {k: s for k, (s, _) in maker.defs.items()}
            tools[name] = (schema, make, dict(maker.defs))
        lines = rng.random() < 0.5
        request = {"tools": [{"name": k, "parameters": s} for k, (s, _, _) in tools.items()], "lines": lines, "several": rng.random() < 0.5,
                   "count": 5, "tokens": rng.choice([10, 40, 100]), "seed": rng.getrandbits(48), "hints": HINTS}
        cases.append((tools, request))
    for (tools, request), answer in zip(cases, program.ask([r for _, r in cases])):
        shown = json.dumps(request["tools"], ensure_ascii=False)
        checks.check("tools are understood", "error" not in answer, f"{shown}: {answer.get('error')}")
        for text in answer.get("texts", []):
            try:
                calls = read_calls(text, {k: s for k, (s, _, _) in tools.items()})
                why = None if calls and (len(calls) == 1 or request["several"]) else "the number of calls"
                for name, args in calls:
                    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(tools[name][0]).iter_errors(args))
                    why = why or (error and f"{name}: {error.message}")
            except (ValueError, KeyError) as e:
                why = str(e)
            checks.check("calls are valid", why is None, f"{shown}: {text}: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2 ** 32))
    parser.add_argument("--schemas", type=int, default=500)
    parser.add_argument("--model", default=str(ROOT / "target/demo"))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    rng, checks = random.Random(args.seed), Checks()
    program = Program(args.program, args.model)
    check_schemas(program, rng, args.schemas, checks)
    check_tools(program, rng, args.schemas // 4, checks)
    sys.exit(checks.end())


if __name__ == "__main__":
    main()
