#!/usr/bin/env python3
"""Builds the training text of the demo pair from Python's own standard library (PSF licence).

Five kinds of documents, all in the Laguna v8 chat format or as raw text:

  code   a request (the first lines of a docstring) and the function as the answer, thinking off
  raw    plain source text, for text completion
  tool   a generated dialogue with tools (read_file, list_dir, run, search), thinking on or off
  edit   a request to rename something in a function, or to repeat it: most of the answer stands in the request
  think  a generated arithmetic or text question with a short chain of thought

Writes one JSON object a line: {"kind": ..., "text": ...}. The same Python version gives the same bytes.
"""
import argparse
import ast
import hashlib
import json
import os
import random
import re
import sysconfig

BOS = "\u3008|EOS|\u3009"
SYSTEM = ("You are a helpful, conversationally-fluent assistant made by Poolside. You are here to be helpful to users "
          "through natural language conversations.")
SEED = 7
HELD_OUT = 300      # documents that no training sees
SPLIT_SEED = 0

SKIPPED_FOLDERS = ("__pycache__", "site-packages", "lib2to3", "idlelib", "turtledemo", "encodings", "pydoc_data")
BODY_CHARS = (40, 1800)
EDIT_CHARS = (80, 520)

WORDS = ("parser lexer server client config utils main test_api models views index cache queue worker router schema "
         "token buffer loader writer reader graph kernel engine draft target").split()
FOLDERS = ["src", "lib", "app", "tests", "pkg", "core", "docs", "tools"]
ENDINGS = [".py", ".c", ".h", ".rs", ".go", ".md", ".toml", ".json"]
COMMANDS = ["make test", "make", "python -m pytest", "git status", "cargo test", "go test ./...", "ls -la", "git diff",
            "make lint"]
KEYWORDS = set(
    "self cls True False None and or not in is if else elif for while def return class import from as with try except "
    "finally raise yield lambda pass break continue global nonlocal assert del async await print len range str "
    "int".split())

TOOLS = {
    "read_file": {"description": "Read a file", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
    "list_dir": {"description": "List a folder", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
    "run": {"description": "Run a command", "parameters": {
        "type": "object", "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"]}},
    "search": {"description": "Search the code", "parameters": {
        "type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"]}},
}


# ---- the chat format ----

def chat(user, answer, think=None, system=SYSTEM):
    """One exchange; think None closes the reasoning at once."""
    head = f"{BOS}<system>{system}</system>\n" if system else BOS
    reasoning = f"<think>{think}</think>" if think is not None else "</think>"
    return f"{head}<user>{user}</user>\n<assistant>{reasoning}{answer}</assistant>\n"


def fenced(code):
    return f"```python\n{code}\n```"


def tool_call(name, arguments):
    body = "".join(f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>" for key, value in arguments.items())
    return f"<tool_call>{name}{body}</tool_call>"


def tool_system(text):
    """A system message that offers all tools."""
    lines = [json.dumps({"type": "function", "function": {"name": name, **tool}}, ensure_ascii=False)
             for name, tool in TOOLS.items()]
    return (f"{text}\n\n### Tools\n\nYou may call functions to assist with the user query.\n"
            "All available function signatures are listed below:\n<available_tools>\n" + "\n".join(lines)
            + "\n</available_tools>")


# ---- functions of the library ----

def library_files(roots):
    files = []
    for root in roots:
        for folder, subs, names in os.walk(root):
            subs[:] = [s for s in subs if s not in SKIPPED_FOLDERS]
            files += [os.path.join(folder, n) for n in names if n.endswith(".py")]
    return sorted(files)


def functions(path):
    """(node, docstring or None, source text moved to the left margin) of every function; nothing for files that do not
    parse: the library's tests contain some on purpose."""
    try:
        with open(path, encoding="utf-8") as f:
            source = f.read()
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = source.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        body = "\n".join(lines[node.lineno - 1:node.end_lineno])
        indent = len(body) - len(body.lstrip(" "))
        moved = [line[indent:] if line[:indent].strip() == "" else line for line in body.split("\n")]
        yield node, ast.get_docstring(node), "\n".join(moved)


def request_for(rng, node, docstring):
    """What a user could have asked to get this function, or None."""
    if docstring:
        first = docstring.strip().split("\n\n")[0].replace("\n", " ").strip()
        template = rng.choice(["Write a Python function {n}: {d}", "Implement {n}. {d}", "{d}",
                               "Write {n} in Python. {d}"])
        return template.format(n=node.name, d=first[:240])
    if rng.random() < .5:
        arguments = ", ".join(a.arg for a in node.args.args)
        template = rng.choice(["Write the function {n}({a}).", "Implement {n}({a}) in Python.",
                               "Write a Python function named {n}."])
        return template.format(n=node.name, a=arguments)
    return None


def library_documents(rng, roots):
    """Kinds code and raw. Each function once; of the library's own tests a quarter."""
    seen = set()
    for file in library_files(roots):
        is_test = "/test" in file
        for node, docstring, body in functions(file):
            if not BODY_CHARS[0] <= len(body) <= BODY_CHARS[1]:
                continue
            digest = hashlib.md5(body.encode()).digest()
            if digest in seen:
                continue
            seen.add(digest)
            if is_test and rng.random() < .75:
                continue
            request = request_for(rng, node, docstring)
            if request:
                system = SYSTEM if rng.random() < .7 else ""
                yield {"kind": "code", "text": chat(request, fenced(body), system=system)}
            else:
                yield {"kind": "raw", "text": BOS + body + "\n"}


def short_functions(documents):
    """Answers of the code documents that are short enough to be repeated in an edit."""
    bodies = [d["text"].split("```python\n", 1)[1].rsplit("\n```", 1)[0] for d in documents if d["kind"] == "code"]
    return [b for b in bodies if EDIT_CHARS[0] <= len(b) <= EDIT_CHARS[1] and "```" not in b]


# ---- generated dialogues ----

def file_name(rng):
    folders = rng.sample(FOLDERS, rng.randint(0, 2))
    return "/".join(folders + [rng.choice(WORDS) + rng.choice(ENDINGS)])


def read_file_talk(rng):
    path = file_name(rng)
    user = rng.choice(["Read {}", "Open {}", "Show me {}", "What is in {}?", "Please read the file {}", "Explain {}"])
    think = rng.choice(["I need to read {}.", "The user wants {}. I will read it.", "Let me open {}."])
    result = rng.choice(["import os\n\n\ndef main():\n    return 0\n", "# notes\n", "int main(void) { return 0; }\n"])
    return (user.format(path), think.format(path), tool_call("read_file", {"path": path}), result,
            f"{path} is a small file.")


def list_dir_talk(rng):
    folder = rng.choice(FOLDERS)
    user = rng.choice(["List {}", "What files are in {}?", "Show the folder {}", "ls {}"]).format(folder)
    files = [rng.choice(WORDS) + rng.choice(ENDINGS) for _ in range(rng.randint(1, 4))]
    plural = "s" if len(files) > 1 else ""
    return (user, f"I should list {folder}.", tool_call("list_dir", {"path": folder}), "\n".join(files),
            f"{folder} has {len(files)} file{plural}: " + ", ".join(files) + ".")


def run_talk(rng):
    command = rng.choice(COMMANDS)
    timeout = rng.choice([10, 30, 60, 120, 300])
    user = rng.choice(["Run {}", "Please run {}", "Execute {}", "Can you run {}?"]).format(command)
    arguments = {"command": command}
    if rng.random() < .6:
        user += f" with a timeout of {timeout} seconds"
        arguments["timeout"] = timeout
    result = rng.choice(["ok", "12 passed", "1 failed, 11 passed", "nothing to commit"])
    return user, f"I will run {command}.", tool_call("run", arguments), result, f"The command printed: {result}."


def search_talk(rng):
    query = rng.choice(WORDS)
    limit = rng.choice([5, 10, 20])
    user = rng.choice(["Search for {}", "Find {} in the code", "Where is {} used?", "Look for {}"]).format(query)
    arguments = {"query": query}
    if rng.random() < .5:
        user += f", at most {limit} results"
        arguments["limit"] = limit
    path = file_name(rng)
    result = f"{path}:{rng.randint(1, 400)}: {query}"
    return user, f"I will search for {query}.", tool_call("search", arguments), result, f"{query} is used in {path}."


TALKS = {"read_file": read_file_talk, "list_dir": list_dir_talk, "run": run_talk, "search": search_talk}


def tool_document(rng):
    system = tool_system(SYSTEM if rng.random() < .5 else "You are a coding agent.")
    user, think, call, result, end = TALKS[rng.choice(list(TALKS))](rng)
    thinking = rng.random() < .6

    def reasoning(text):
        return f"<think>{text}</think>" if thinking else "</think>"

    return (f"{BOS}<system>{system}</system>\n<user>{user}</user>\n<assistant>{reasoning(think)}{call}</assistant>\n"
            f"<tool_response>{result}</tool_response>\n"
            f"<assistant>{reasoning('I have the answer.')}{end}</assistant>\n")


def think_document(rng):
    kind = rng.randint(0, 4)
    if kind == 0:
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        user = rng.choice(["What is {} + {}?", "Add {} and {}.", "{} plus {}?"]).format(a, b)
        return chat(user, f"{a} + {b} = {a + b}.", f"{a} + {b} = {a + b}.")
    if kind == 1:
        word = rng.choice(WORDS)
        return chat(f"How many letters are in {word}?", f"{word} has {len(word)} letters.",
                    f"{word} is " + "-".join(word) + f". That is {len(word)}.")
    if kind == 2:
        n = rng.randint(2, 20)
        user = rng.choice(["Count to {}.", "Count from 1 to {}."]).format(n)
        return chat(user, ", ".join(map(str, range(1, n + 1))) + ".", f"I count from 1 to {n}.")
    if kind == 3:
        words = rng.sample(WORDS, rng.randint(2, 5))
        return chat("Sort these words: " + " ".join(words), " ".join(sorted(words)),
                    "In order: " + ", ".join(sorted(words)) + ".")
    word = rng.choice(WORDS)
    return chat(f"Spell {word}.", "-".join(word), f"The letters of {word}.")


def edit_document(rng, body):
    """A rename or a plain repetition."""
    names = sorted({w for w in re.findall(r"\b[a-z_][a-z_0-9]{2,}\b", body) if w not in KEYWORDS})
    if not names or rng.random() < .25:
        request = rng.choice(["Repeat this code:", "Print this function again:", "Show the same code once more:"])
        return chat(f"{request}\n{fenced(body)}", fenced(body))
    old = rng.choice(names)
    new = rng.choice(WORDS) + rng.choice(["", "_" + rng.choice(WORDS), "2"])
    changed = re.sub(rf"\b{re.escape(old)}\b", new, body)
    request = rng.choice(["Rename {a} to {b}:", "In this function, rename {a} to {b}:",
                          "Change the name {a} to {b} everywhere:"])
    return chat(f"{request.format(a=old, b=new)}\n{fenced(body)}", fenced(changed))


# ---- the whole ----

def build(roots):
    """All documents in their final order."""
    rng = random.Random(SEED)
    documents = list(library_documents(rng, roots))
    n = len(documents)
    short = short_functions(documents)
    documents += [{"kind": "edit", "text": edit_document(rng, rng.choice(short))} for _ in range(n // 4)]
    documents += [{"kind": "tool", "text": tool_document(rng)} for _ in range(n // 12)]
    documents += [{"kind": "think", "text": think_document(rng)} for _ in range(n // 5)]
    rng.shuffle(documents)
    return documents


def read_split(path):
    """(held-out documents, training documents) of a written corpus, each in random order."""
    with open(path, encoding="utf-8") as f:
        documents = [json.loads(line) for line in f]
    random.Random(SPLIT_SEED).shuffle(documents)
    return documents[:HELD_OUT], documents[HELD_OUT:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="corpus.jsonl")
    parser.add_argument("roots", nargs="*", default=[sysconfig.get_paths()["stdlib"]],
                        help="folders with Python sources (default: the library of this Python)")
    args = parser.parse_args()
    documents = build(args.roots)
    with open(args.out, "w", encoding="utf-8") as f:
        for document in documents:
            f.write(json.dumps(document) + "\n")
    for kind in sorted({d["kind"] for d in documents}):
        texts = [d["text"] for d in documents if d["kind"] == kind]
        print(f"{kind}: {len(texts)} documents, {sum(map(len, texts))} characters")


if __name__ == "__main__":
    main()
