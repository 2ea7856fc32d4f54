#!/usr/bin/env python3
"""Trains the demo draft on the quantized target's own answers and taps.

First the target answers prompts of the corpus for some minutes (kept in a file and reused when it is there), then the
draft learns from a mix of those answers and the corpus. Repetitions differ: both parts run by time."""
import argparse
import os
import random

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from checkpoint import load_draft, load_target, write_draft
from configs import BOS_ID, END_OF_ANSWER, MASK_ID, TAP_LAYERS
from corpus import read_split
from draft_net import Draft, block_mask
from speculate import generate, tokens_per_round
from training import Clock, Muon, average, others, pack, schedule

LENGTH, BATCH = 512, 6
PROPOSALS, ANCHORS = 15, 40         # per row of the batch: 40 blocks of 15 proposals
ANSWER_BATCH, ANSWER_TOKENS = 256, 180
PROMPT_MAX, RAW_PROMPT = 300, 24
WARM_UP_STEPS = 20
MATRIX_RATE, MATRIX_DECAY = 5e-3, 0.05
OTHER_RATE = 2e-3
OWN_TEXT_SHARE = .75
REPORT_EVERY = 20
CHECK_PROMPTS, CHECK_TOKENS = 20, 80


# ---- the target's own answers ----

class Cache:
    """Keys and values of one layer, with room for n tokens."""

    def __init__(self, batch, kv_heads, n, head_dim):
        self.k = torch.zeros(batch, kv_heads, n, head_dim)
        self.v = torch.zeros(batch, kv_heads, n, head_dim)
        self.n = 0

    def __call__(self, k, v):
        end = self.n + k.shape[2]
        self.k[:, :, self.n:end] = k.float()
        self.v[:, :, self.n:end] = v.float()
        self.n = end
        return self.k[:, :, :end].to(k.dtype), self.v[:, :, :end].to(v.dtype)


def choose(logits, temperature):
    """One token per row: Gumbel noise where the temperature is above 0, else the largest logit."""
    noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-9, 1 - 1e-7)))
    sampled = logits / temperature.clamp(min=.01)[:, None] + noise
    return torch.where((temperature > 0)[:, None], sampled, logits).argmax(-1)


@torch.no_grad()
def answer(net, prompts, n, temperature):
    """prompts [B, P] -> [B, P + up to n]; behind the end of an answer there are only BOS tokens."""
    config = net.config
    batch, length = prompts.shape
    caches = [Cache(batch, config["num_key_value_heads"], length + n, config["head_dim"])
              for _ in range(config["num_hidden_layers"])]
    tokens = new = prompts
    done = torch.zeros(batch, dtype=torch.bool)
    for i in range(n):
        position = torch.arange(tokens.shape[1] - new.shape[1], tokens.shape[1])
        distance = position[:, None] - torch.arange(tokens.shape[1])[None]
        visible = distance >= 0
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, _ = net(new, position, caches, visible, visible & (distance < config["sliding_window"]))
        chosen = choose(logits[:, -1].float(), temperature)
        if i:
            done |= new[:, -1] == END_OF_ANSWER
        chosen = torch.where(done, torch.full_like(chosen, BOS_ID), chosen)
        new = chosen[:, None]
        tokens = torch.cat([tokens, new], 1)
        if done.all():
            break
    return tokens


def trimmed(tokens):
    """Without the BOS tokens that pad the end, but one."""
    end = len(tokens)
    while end > 1 and tokens[end - 2] == BOS_ID and tokens[end - 1] == BOS_ID:
        end -= 1
    return tokens[:end]


def prompt_of(document, tokenizer):
    text = document["text"]
    if document["kind"] == "raw":
        return tokenizer.encode(text, add_special_tokens=False).ids[:RAW_PROMPT]
    cut = text.index("<assistant>") + len("<assistant>")
    mark = "<think>" if text[cut:].startswith("<think>") else "</think>"
    return tokenizer.encode(text[:cut + len(mark)], add_special_tokens=False).ids


def prompts_by_length(documents, tokenizer):
    """Prompts of equal length make a batch without padding."""
    by_length = {}
    for document in documents:
        ids = prompt_of(document, tokenizer)
        if len(ids) < PROMPT_MAX:
            by_length.setdefault(len(ids), []).append(ids)
    return by_length


def own_answers(net, by_length, rng, minutes):
    lengths = [n for n, prompts in by_length.items() if len(prompts) >= 8]
    weights = [len(by_length[n]) for n in lengths]
    clock, answers = Clock(minutes), []
    while clock.fraction() < 1:
        same = by_length[rng.choices(lengths, weights)[0]]
        prompts = rng.sample(same, min(ANSWER_BATCH, len(same)))
        temperature = torch.tensor([0.0 if rng.random() < .6 else 0.7 for _ in prompts])
        answers += [trimmed(row) for row in answer(net, torch.tensor(prompts), ANSWER_TOKENS, temperature).tolist()]
        print(f"answers {len(answers)} tokens {sum(map(len, answers))} {clock.seconds():.0f}s", flush=True)
    return answers


# ---- training ----

@torch.no_grad()
def initialize(draft):
    for name, p in draft.named_parameters():
        if p.ndim == 2:
            into_residual = "o_proj" in name or "down_proj" in name
            p.normal_(0, p.shape[1] ** -.5 * (0.3 if into_residual else 1))


def optimizers(draft):
    named = list(draft.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "g_proj" not in name]
    rest = others(named, matrices)
    adam = torch.optim.AdamW(rest, lr=OTHER_RATE, weight_decay=0.0, betas=(.9, .95))
    return Muon(matrices), adam, rest


def mixed_rows(rng, own, corpus):
    def pick():
        if rng.random() < OWN_TEXT_SHARE:
            return own[rng.randrange(len(own))]
        return corpus[rng.randrange(len(corpus)), :LENGTH]

    return torch.stack([pick() for _ in range(BATCH)])


def block_logits(net, draft, rows, anchors):
    """[BATCH, ANCHORS, PROPOSALS, V]: what the draft says behind each anchor, all blocks in one call."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            _, taps = net(rows, taps=TAP_LAYERS)
            blocks = torch.full((BATCH, ANCHORS, 1 + PROPOSALS), MASK_ID)
            blocks[:, :, 0] = rows[:, anchors]
            embedded = net.model.embed_tokens(blocks.view(BATCH, -1))
        positions, mask = block_mask(anchors, PROPOSALS, LENGTH, draft.config["sliding_window"])
        hidden = draft.block(embedded, positions, draft.context(taps, torch.arange(LENGTH)), mask)
        hidden = hidden.view(BATCH, ANCHORS, 1 + PROPOSALS, -1)[:, :, 1:]
        return net.lm_head(hidden).float()


def survival(logits, labels):
    """Share of blocks whose first 1, 2, ... proposals are all right."""
    return (logits.argmax(-1) == labels).float().cumprod(-1).mean((0, 1))


def train(net, draft, own, corpus, rng, minutes):
    muon, adam, rest = optimizers(draft)
    weight = torch.exp(-torch.arange(PROPOSALS) / 5.0)  # an early proposal decides about all behind it
    clock = Clock(minutes)
    step, smooth, right = 0, None, None
    while (fraction := clock.fraction()) < 1:
        factor = schedule(step, fraction, WARM_UP_STEPS)
        rows = mixed_rows(rng, own, corpus)
        anchors = torch.sort(torch.randperm(LENGTH - PROPOSALS - 2)[:ANCHORS] + 1).values
        labels = rows[:, anchors[:, None] + torch.arange(1, PROPOSALS + 1)]
        logits = block_logits(net, draft, rows, anchors)
        each = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), reduction="none")
        loss = (each.view(BATCH, ANCHORS, PROPOSALS) * weight).sum() / (weight.sum() * BATCH * ANCHORS)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        for group in adam.param_groups:
            group["lr"] = OTHER_RATE * factor
        muon.step(MATRIX_RATE * factor, MATRIX_DECAY)
        adam.step()
        adam.zero_grad(set_to_none=True)
        step += 1
        right = average(right, survival(logits, labels), .9)
        smooth = average(smooth, loss.item(), .95)
        if step % REPORT_EVERY == 0:
            places = " ".join(f"{right[i]:.2f}" for i in (0, 1, 3, 6))
            print(f"step {step} {clock.seconds():.0f}s loss {smooth:.3f} right up to 1, 2, 4, 7: {places} "
                  f"tokens per round of 7 about {1 + right[:7].sum():.2f}", flush=True)


def report(net, draft, documents, tokenizer, rng):
    prompts = [ids for same in prompts_by_length(documents, tokenizer).values() for ids in same]
    rng.shuffle(prompts)
    for k in (3, 7):
        answers = [generate(net, draft, ids, CHECK_TOKENS, k) for ids in prompts[:CHECK_PROMPTS]]
        print(f"held out, greedy: {tokens_per_round(answers):.3f} tokens per round of {k}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="corpus.jsonl")
    parser.add_argument("target", help="target folder")
    parser.add_argument("out", help="draft folder")
    parser.add_argument("answers", help="file for the target's answers; used as it is when it exists")
    parser.add_argument("answer_minutes", type=float)
    parser.add_argument("train_minutes", type=float)
    args = parser.parse_args()
    torch.manual_seed(3)
    rng = random.Random(5)
    tokenizer = Tokenizer.from_file(os.path.join(args.target, "tokenizer.json"))
    net = load_target(args.target)
    held_out, documents = read_split(args.corpus)
    if not os.path.exists(args.answers):
        by_length = prompts_by_length(documents, tokenizer)
        torch.save(own_answers(net, by_length, rng, args.answer_minutes), args.answers)
    answers = torch.load(args.answers)
    rng.shuffle(answers)
    flat = [token for tokens in answers for token in tokens]
    own = torch.tensor(flat[:len(flat) // LENGTH * LENGTH]).view(-1, LENGTH)
    corpus, _ = pack(args.corpus, tokenizer, LENGTH)
    draft = Draft()
    initialize(draft)
    train(net, draft, own, corpus, rng, args.train_minutes)
    write_draft(args.out, draft.state_dict())
    report(net, load_draft(args.out), held_out, tokenizer, rng)


if __name__ == "__main__":
    main()
