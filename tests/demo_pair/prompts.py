#!/usr/bin/env python3
"""Writes the prompt mix: requests that were held out of training, and random tokens.

One JSON object a line, sorted by class: {"class": ..., "messages": [...]} for chat, with "enable_thinking" and perhaps
"tools"; {"class": "completion", "prompt": text}; {"class": "random", "prompt_ids": [...]}."""
import argparse
import json
import random
import re

from configs import BOS_ID, TARGET
from corpus import BOS, SYSTEM, read_split

PER_CLASS = 24
COMPLETION_CHARS = 90
RANDOM_SEED = 9
FIRST_ORDINARY_ID = 70
CLASS_OF_KIND = {"think": "thinking", "tool": "tools"}

CHAT = re.compile(re.escape(BOS) + "(?:<system>(.*?)</system>\n)?<user>(.*?)</user>\n<assistant>(<think>|</think>)",
                  re.S)


def tool_messages(system, user):
    """(messages, tool definitions) of a document whose system message offers tools."""
    head, offer = system.split("\n\n### Tools", 1)
    lines = offer.split("<available_tools>\n")[1].split("\n</available_tools>")[0].split("\n")
    return [{"role": "system", "content": head}, user], [json.loads(line) for line in lines]


def chat_row(kind, text):
    """The request of a chat document, or None when it is not one."""
    found = CHAT.match(text)
    if not found:
        return None
    system, content, mark = found.groups()
    user = {"role": "user", "content": content}
    thinking = {"enable_thinking": mark == "<think>"}
    if kind == "tool":
        messages, tools = tool_messages(system, user)
        return {"messages": messages, "tools": tools, **thinking}
    if system == SYSTEM:  # the template's own default
        return {"messages": [user], **thinking}
    return {"messages": [{"role": "system", "content": system or ""}, user], **thinking}


def held_out_rows(documents):
    for document in documents:
        kind, text = document["kind"], document["text"]
        if kind == "raw":
            yield "completion", {"prompt": text[len(BOS):][:COMPLETION_CHARS]}
            continue
        row = chat_row(kind, text)
        if row:
            yield CLASS_OF_KIND.get(kind, kind), row


def random_rows():
    rng = random.Random(RANDOM_SEED)
    for _ in range(PER_CLASS):
        length = rng.randrange(20, 200)
        yield "random", {"prompt_ids": [BOS_ID] + [rng.randrange(FIRST_ORDINARY_ID, TARGET["vocab_size"])
                                                   for _ in range(length)]}


def build(documents):
    counts, rows = {}, []
    for name, row in [*held_out_rows(documents), *random_rows()]:
        if counts.get(name, 0) < PER_CLASS:
            counts[name] = counts.get(name, 0) + 1
            rows.append({"class": name, **row})
    return sorted(rows, key=lambda row: row["class"]), counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="corpus.jsonl")
    parser.add_argument("out", help="prompts.jsonl")
    args = parser.parse_args()
    held_out, _ = read_split(args.corpus)
    rows, counts = build(held_out)
    with open(args.out, "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(counts)


if __name__ == "__main__":
    main()
