#!/usr/bin/env python3
"""Trains the byte-level BPE of the demo pair, with Laguna's pre-tokenizer and its special-token ids."""
import argparse
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 4096
N_SPECIAL = 70
NAMED = {0: "〈|UNK|〉", 1: "〈|CODE_START|〉", 2: "〈|EOS|〉", 3: "〈|CODE_END|〉",
         8: "〈|SEP|〉", 9: "〈|PAD|〉", 12: "〈|MASK|〉", 18: "<think>", 19: "</think>", 23: "<assistant>", 24: "</assistant>", 25: "<tool_call>",
         26: "</tool_call>"}
NOT_SPECIAL = {18, 19, 25, 26}  # added tokens that decoding shows

LINE_BREAKS = r"(?:\r?\n)+(?!\r?\n)"
PIECES = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def special_texts():
    return [NAMED.get(i, f"〈|RESERVED_{i}|〉") for i in range(N_SPECIAL)]


def untrained():
    tokenizer = Tokenizer(models.BPE(unk_token=None, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LINE_BREAKS), behavior="merged_with_next"),
        pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def corpus_texts(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)["text"]


def train(corpus, vocabulary):
    specials = special_texts()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[AddedToken(text, special=i not in NOT_SPECIAL, normalized=False)
                        for i, text in enumerate(specials)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False)
    tokenizer = untrained()
    tokenizer.train_from_iterator(corpus_texts(corpus), trainer=trainer)
    assert [tokenizer.token_to_id(text) for text in specials] == list(range(N_SPECIAL))
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="corpus.jsonl")
    parser.add_argument("out", help="folder that takes tokenizer.json")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    args = parser.parse_args()
    tokenizer = train(args.corpus, args.vocabulary)
    os.makedirs(args.out, exist_ok=True)
    tokenizer.save(os.path.join(args.out, "tokenizer.json"))
    print("vocabulary", tokenizer.get_vocab_size())


if __name__ == "__main__":
    main()
