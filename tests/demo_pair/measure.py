#!/usr/bin/env python3
"""Tokens per round of the pair by class of prompt: greedy chains of 7 proposals, FP32, no cache."""
import argparse
import json

from checkpoint import load_draft, load_target
from rendering import DRAFT_FOLDER, PROMPTS, TARGET_FOLDER, Renderer, read_prompts
from speculate import generate, tokens_per_round

PROPOSALS = 7


def first_of_each_class(rows, per_class):
    counts = {}
    for row in rows:
        counts[row["class"]] = counts.get(row["class"], 0) + 1
        if counts[row["class"]] <= per_class:
            yield row


def survival(answers):
    """Share of rounds that accepted at least 1, 2, ... proposals."""
    rounds = [accepted for _, rounds in answers for accepted in rounds]
    return [round(sum(accepted >= n for accepted in rounds) / max(len(rounds), 1), 3) for n in range(1, PROPOSALS + 1)]


def summary(by_class, per_class, new_tokens):
    return {
        "k": PROPOSALS,
        "prompts_per_class": per_class,
        "new_tokens": new_tokens,
        "tokens_per_round": {name: round(tokens_per_round(answers), 3) for name, answers in by_class.items()},
        "survival": {name: survival(answers) for name, answers in by_class.items()},
        "k7_code_edit": round(tokens_per_round(by_class["code"] + by_class["edit"]), 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="acceptance.json")
    parser.add_argument("--target", default=TARGET_FOLDER, help="target folder")
    parser.add_argument("--draft", default=DRAFT_FOLDER, help="draft folder")
    parser.add_argument("--prompts", default=PROMPTS, help="prompts.jsonl")
    parser.add_argument("--per-class", type=int, default=10, help="prompts of each class")
    parser.add_argument("--new-tokens", type=int, default=100, help="tokens per answer")
    parser.add_argument("--samples", help="file for the answers themselves")
    args = parser.parse_args()
    net, draft, renderer = load_target(args.target), load_draft(args.draft), Renderer(args.target)
    by_class, samples = {}, []
    for row in first_of_each_class(read_prompts(args.prompts), args.per_class):
        tokens, rounds = generate(net, draft, renderer.ids(row), args.new_tokens, PROPOSALS)
        by_class.setdefault(row["class"], []).append((tokens, rounds))
        samples.append({"class": row["class"], "prompt": row, "text": renderer.decode(tokens), "accepted": rounds})
    result = summary(by_class, args.per_class, args.new_tokens)
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
    if args.samples:
        with open(args.samples, "w", encoding="utf-8") as f:
            json.dump(samples, f, indent=1, ensure_ascii=False)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
