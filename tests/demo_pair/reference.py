#!/usr/bin/env python3
"""End-to-end reference of the demo target with the engine's rounding points: BF16 operands in every product.

For the first prompt of four classes, p0 to p3: ids; argmax and margin of every row; last_logits; router_margin
[sparse layer, row]; greedy_ids and greedy_margin; and fp32_last_logits, without the rounding. Sums are PyTorch's, in
FP32: the engine differs in the order of additions and in values that lie at a rounding border."""
import argparse
import os
import types

import torch
import torch.nn.functional as F

from configs import STOP_IDS
from rendering import PROMPTS, TARGET_FOLDER, Renderer, read_prompts  # makes the golden generators importable

import laguna_plain
from common import dequantized, read_checkpoint, read_json, write_tensors

CLASSES = ("code", "tools", "thinking", "completion")
NEW_TOKENS = 48


def rounded(x):
    return x.bfloat16().float()


def round_operands():
    """From here on laguna_plain rounds where the engine does: the input of every product, rotated q and k, and v."""
    rotate, attend = laguna_plain.rotate, laguna_plain.attend
    laguna_plain.F = types.SimpleNamespace(silu=F.silu, softplus=F.softplus,
                                           linear=lambda x, w: F.linear(rounded(x), w))
    laguna_plain.rotate = lambda x, table: rounded(rotate(x, table))
    laguna_plain.attend = lambda q, k, v, visible: attend(q, k, rounded(v), visible)


def first_prompts(path, renderer):
    rows = read_prompts(path)
    return [renderer.ids(next(row for row in rows if row["class"] == name)) for name in CLASSES]


def margin_of(logits):
    """Distance of the two largest logits of every row."""
    top = logits.topk(2, -1).values
    return top[..., 0] - top[..., 1]


def prompt_reference(net, ids):
    """What the whole prompt gives, by name."""
    result = net.forward(ids)
    logits = result["logits"]
    return {
        "last_logits": logits[-1],
        "argmax": logits.argmax(-1).int(),
        "margin": margin_of(logits),
        "router_margin": torch.stack([l["router_margin"] for l in result["layers"] if "router_margin" in l]),
    }


def greedy_reference(net, ids):
    text, margins = list(ids), []
    for _ in range(NEW_TOKENS):
        logits = net.forward(text)["logits"][-1]
        margins.append(float(margin_of(logits)))
        text.append(int(logits.argmax()))
        if text[-1] in STOP_IDS:
            break
    return {"greedy_ids": torch.tensor(text[len(ids):], dtype=torch.int32), "greedy_margin": torch.tensor(margins)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="demo_ref_bf16in.safetensors")
    parser.add_argument("--target", default=TARGET_FOLDER, help="target folder")
    parser.add_argument("--prompts", default=PROMPTS, help="prompts.jsonl")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    config = read_json(os.path.join(args.target, "config.json"))
    tensors = dequantized(read_checkpoint(args.target))
    renderer = Renderer(args.target)
    prompts = first_prompts(args.prompts, renderer)
    net = laguna_plain.PlainLaguna(config, tensors)
    fp32 = [net.forward(ids)["logits"][-1] for ids in prompts]
    round_operands()
    reference = {}
    for i, ids in enumerate(prompts):
        found = {**prompt_reference(net, ids), **greedy_reference(net, ids)}
        found.update(ids=torch.tensor(ids, dtype=torch.int32), fp32_last_logits=fp32[i])
        reference.update({f"p{i}.{name}": t for name, t in found.items()})
        distance = float((fp32[i] - found["last_logits"]).abs().max())
        answer = renderer.decode(found["greedy_ids"].tolist())
        print(f"p{i}: {len(ids)} tokens, rounding moves a logit by at most {distance:.4f}: {answer[:120]!r}",
              flush=True)
    write_tensors(args.out, reference)


if __name__ == "__main__":
    main()
