"""Random conversations as clients send them: roles, forms of content, reasoning, tools, calls, deep JSON, odd numbers and letters."""
import json

import random_text

NAMES = ("get_weather", "write_file", "list", "tool.call", "naïve_名", "f")
TYPES = ("string", "integer", "number", "boolean", "array", "object", ["string", "null"])
TEMPLATE_LIKE = ("{{ x }}", "{% if %}", "{#", "%}", "}}", "</think>", "<think>", "</assistant>\n", "<user>", "</arg_value>", "{{ '{{' }}", "\n  {%- x -%}  \n")


def number(rng):
    return rng.choice((0, 1, -1, 7, 10**6, 2**53, 2**63 - 1, -2**63, 2**64, 10**30, 0.5, -0.0, 1.0, 1e16, 1e22, 1e-7, 123456.789, 1.5e300, 5e-324, 0.1 + 0.2, rng.randrange(10**9), rng.uniform(-1e6, 1e6)))


def text(rng):
    s = random_text.text(rng, TEMPLATE_LIKE)
    return s.replace("\r", rng.choice(("\r", "\n"))) if rng.random() < 0.5 else s


def value(rng, depth=0):
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind == 0:
        return number(rng)
    if kind == 1:
        return rng.choice((None, True, False))
    if kind <= 4:
        return text(rng) if rng.random() < 0.6 else rng.choice(("", "a", "items", "é", "\u2028", "\x7f", "\x01", "a < b & c's \"x\" / é — 雪", "\\"))
    if kind == 5:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {key(rng): value(rng, depth + 1) for _ in range(rng.randint(0, 5))}


def key(rng):
    return rng.choice(("type", "zeta", "alpha", "items", "keys", "get", "é", "a b", "0", "", "\"q\"", "\n", "name", "content", random_text.letters(rng)))


def tool(rng):
    properties = {key(rng): {"type": rng.choice(TYPES), "description": text(rng)} for _ in range(rng.randint(0, 4))}
    function = {"name": rng.choice(NAMES), "description": text(rng), "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]}}
    if rng.random() < 0.2:
        function["strict"] = rng.choice((True, False, None))
    if rng.random() < 0.2:
        function["extra"] = value(rng)
    return {"type": "function", "function": function}


def call(rng):
    arguments = {key(rng): value(rng) for _ in range(rng.randint(0, 4))}
    function = {"name": rng.choice(NAMES)}
    form = rng.randrange(6)
    if form == 0:
        function["arguments"] = arguments
    elif form == 1:
        function["arguments"] = rng.choice((None, "", " \n ", "{}"))
    elif form < 5:
        function["arguments"] = rng.choice(("", " ", "\n")) + json.dumps(arguments, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2))) + rng.choice(("", " ", "\n"))
    return function if rng.random() < 0.1 else {"id": "call_" + random_text.letters(rng), "type": "function", "function": function}


def content(rng):
    form = rng.randrange(8)
    if form == 0:
        return None
    if form == 1:
        return [{"type": kind, ("refusal" if kind == "refusal" else "text"): text(rng)} for kind in (rng.choice(("text", "input_text", "output_text", "refusal")) for _ in range(rng.randint(0, 3)))]
    return rng.choice(("", " ", "\n\n", "S\n\n")) if form == 2 else text(rng)


def message(rng, first):
    role = rng.choice(("system", "developer", "user")) if first else rng.choice(("user", "user", "assistant", "assistant", "tool", "function", "system"))
    out = {"role": role, "content": content(rng)}
    if rng.random() < 0.1:
        del out["content"]
    if role == "assistant":
        for name in ("reasoning", "reasoning_content"):
            if rng.random() < 0.4:
                out[name] = rng.choice((None, "", text(rng), text(rng)))
        if rng.random() < 0.5:
            out["tool_calls"] = rng.choice((None, [])) if rng.random() < 0.1 else [call(rng) for _ in range(rng.randint(1, 3))]
    if role in ("tool", "function"):
        out["tool_call_id"] = "call_" + random_text.letters(rng)
    if rng.random() < 0.1:
        out["name"] = rng.choice(NAMES)
    if rng.random() < 0.05:
        out[key(rng) + "x"] = value(rng)
    return out


def conversation(rng):
    out = {"messages": [message(rng, i == 0 and rng.random() < 0.8) for i in range(rng.choice((0, 1, 1, 2, 3, 5, 9)))]}
    if rng.random() < 0.6:
        out["tools"] = [tool(rng) for _ in range(rng.randint(0, 4))] if rng.random() < 0.95 else None
    out["add_generation_prompt"] = rng.random() < 0.7
    kwargs = {}
    for name in ("enable_thinking", "preserve_thinking", "render_assistant_messages_raw"):
        if rng.random() < 0.5:
            kwargs[name] = rng.random() < 0.5
    if rng.random() < 0.1:
        kwargs["custom"] = value(rng)
    if kwargs or rng.random() < 0.5:
        out["chat_template_kwargs"] = kwargs
    return out
