"""Messages brought to the form that templates expect, and chat templates rendered by jinja2: the rules of the text contract once more, in
Python. The environment is the one of tests/golden/generate/render.py with the clock of transformers."""
import datetime
import json
import sys

from checks import ROOT

sys.path.insert(0, str(ROOT / "tests/golden/generate"))
import render as golden  # noqa: E402

ENVIRONMENT = golden.environment()
ENVIRONMENT.globals["strftime_now"] = lambda text: datetime.datetime.now().strftime(text)
ROLES = {"developer": "system", "function": "tool"}


def compile_template(source):
    return ENVIRONMENT.from_string(source)


def read_arguments(arguments):
    if isinstance(arguments, str):
        return json.loads(arguments) if arguments.strip(" \t\r\n") else {}
    return {} if arguments is None else arguments


def read_call(call):
    if call.get("function") is not None:
        return {**call, "function": {**call["function"], "arguments": read_arguments(call["function"].get("arguments"))}}
    return {**call, "arguments": read_arguments(call.get("arguments"))}


def read_content(content):
    if isinstance(content, list):
        return "".join(part["refusal" if part["type"] == "refusal" else "text"] for part in content)
    return "" if content is None else content


def read_message(message):
    out = {**message, "role": ROLES.get(message["role"], message["role"]), "content": read_content(message.get("content"))}
    if out["role"] != "assistant":
        return out
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")
    if reasoning is not None:
        out["reasoning"] = out["reasoning_content"] = reasoning
    if "tool_calls" in message:
        out["tool_calls"] = [read_call(c) for c in message["tool_calls"] or []]
    return out


def variables(request, tokens=None):
    messages = [read_message(m) for m in request["messages"]]
    return {**(tokens or {}), "documents": None, **request.get("chat_template_kwargs", {}), "messages": messages, "tools": request.get("tools") or None,
            "add_generation_prompt": request.get("add_generation_prompt", False)}


def render(template, request):
    """What the answer of text_lines should be; failures of the template are all the same."""
    try:
        return {"text": template.render(**variables(request))}
    except Exception as why:  # whatever Python calls it
        return {"error": str(why)}
