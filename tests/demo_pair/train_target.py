#!/usr/bin/env python3
"""Trains the demo target for a given time. Repetitions differ: the number of steps depends on the machine."""
import argparse

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from target_net import Target
from training import Clock, Muon, average, others, pack, schedule

LENGTH, BATCH = 512, 8
WARM_UP_STEPS = 30
MATRIX_RATE, MATRIX_DECAY = 5e-3, 0.1
OTHER_RATE = 3e-3
BALANCE_RATE = 0.02
SAVE_EVERY, REPORT_EVERY = 200, 25
HELD_OUT_ROWS = 60


def loss_of(logits, labels):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), labels.reshape(-1))


@torch.no_grad()
def initialize(net):
    for name, p in net.named_parameters():
        if p.ndim == 2 and "gate.weight" not in name:
            is_token_table = "embed" in name or "lm_head" in name
            p.normal_(0, 0.02 if is_token_table else p.shape[1] ** -0.5)
        if name.endswith(("o_proj.weight", "down_proj.weight", "down_proj")):
            p.mul_(0.25)  # what is added to the residual starts small


def optimizers(net):
    named = list(net.named_parameters())
    not_for_muon = ("embed", "lm_head", "gate.weight", "g_proj")
    matrices = [p for name, p in named if p.ndim >= 2 and not any(s in name for s in not_for_muon)]
    rest = others(named, matrices)
    print("parameters", sum(p.numel() for _, p in named), "in matrices", sum(p.numel() for p in matrices), flush=True)
    adam = torch.optim.AdamW(rest, lr=OTHER_RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    return Muon(matrices), adam, rest


def batches(data):
    """Random rows without end; every row once before any row again."""
    order = []
    while True:
        if len(order) < BATCH:
            order = torch.randperm(len(data)).tolist()
        yield data[[order.pop() for _ in range(BATCH)]]


@torch.no_grad()
def balance_experts(net, factor):
    """Moves the selection bias of each expert against its load; no loss term does that."""
    for moe in net.moe_layers():
        load = moe.load.float()
        lack = ((load.mean() - load) / load.mean()).clamp(-1, 1)
        moe.experts.e_score_correction_bias += BALANCE_RATE * max(factor, .2) * lack


def largest_load(net):
    """The busiest expert's share over the mean, worst layer."""
    return max((moe.load.max() / moe.load.float().mean()).item() for moe in net.moe_layers())


def train(net, data, minutes, out):
    muon, adam, rest = optimizers(net)
    clock, rows = Clock(minutes), batches(data)
    step, smooth = 0, None
    while (fraction := clock.fraction()) < 1:
        factor = schedule(step, fraction, WARM_UP_STEPS)
        row = next(rows)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, _ = net(row[:, :-1])
            loss = loss_of(logits, row[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        for group in adam.param_groups:
            group["lr"] = OTHER_RATE * factor
        muon.step(MATRIX_RATE * factor, MATRIX_DECAY)
        adam.step()
        adam.zero_grad(set_to_none=True)
        balance_experts(net, factor)
        smooth = average(smooth, loss.item(), 0.95)
        step += 1
        if step % REPORT_EVERY == 0 or step < 4:
            print(f"step {step} {clock.seconds():.0f}s loss {smooth:.3f} largest load {largest_load(net):.2f}",
                  flush=True)
        if step % SAVE_EVERY == 0:
            torch.save(net.state_dict(), out)
    torch.save(net.state_dict(), out)


@torch.no_grad()
def held_out_loss(net, rows):
    """Nats per token."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = [loss_of(net(row[None, :-1])[0], row[1:]).item() for row in rows]
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="corpus.jsonl")
    parser.add_argument("tokenizer", help="tokenizer.json")
    parser.add_argument("out", help="target.pt: the state dict in FP32")
    parser.add_argument("minutes", type=float)
    args = parser.parse_args()
    torch.manual_seed(1)
    data, held_out = pack(args.corpus, Tokenizer.from_file(args.tokenizer), LENGTH)
    print("rows", len(data), "held out", len(held_out), flush=True)
    net = Target().train()
    initialize(net)
    for layer in net.model.layers:
        layer.self_attn.compile(dynamic=False)
    train(net, data, args.minutes, args.out)
    print("held-out loss", held_out_loss(net.eval(), held_out[:HELD_OUT_ROWS]))


if __name__ == "__main__":
    main()
