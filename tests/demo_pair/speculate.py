"""Greedy chain speculation as the engine does it, without its speed: no cache, FP32, one text at a time."""
import torch

from configs import MASK_ID, STOP_IDS, TAP_LAYERS
from draft_net import block_mask


def argmax_row(logits):
    return logits.argmax(-1).tolist()


def propose(net, draft, tokens, k):
    """k proposals behind `tokens`, whose last one is the anchor: emitted, but not yet seen by the target."""
    base = len(tokens) - 1
    window = draft.config["sliding_window"]
    _, taps = net(torch.tensor([tokens[:-1]]), taps=TAP_LAYERS)
    context = draft.context([tap.bfloat16().float() for tap in taps], torch.arange(base))
    positions, mask = block_mask(torch.tensor([base]), k, base, window)
    rows = net.model.embed_tokens(torch.tensor([[tokens[-1]] + [MASK_ID] * k]))
    hidden = draft.block(rows, positions, context, mask)
    return argmax_row(net.lm_head(hidden[0, 1:]))


def verify(net, tokens, proposals):
    """(tokens emitted by one round, number of accepted proposals); the round ends behind a stop token."""
    logits, _ = net(torch.tensor([tokens + proposals]))
    choice = argmax_row(logits[0, len(tokens) - 1:])
    accepted = 0
    while accepted < len(proposals) and proposals[accepted] == choice[accepted]:
        accepted += 1
    emitted = proposals[:accepted] + [choice[accepted]]
    for i, token in enumerate(emitted):
        if token in STOP_IDS:
            return emitted[:i + 1], accepted
    return emitted, accepted


@torch.no_grad()
def generate(net, draft, prompt, n, k):
    """(emitted tokens, accepted proposals of every round). The first token comes from the prompt alone and belongs to
    no round; the last round may go beyond n."""
    logits, _ = net(torch.tensor([prompt]))
    tokens = list(prompt) + argmax_row(logits[0, -1:])
    rounds = []
    while len(tokens) - len(prompt) < n and tokens[-1] not in STOP_IDS:
        emitted, accepted = verify(net, tokens, propose(net, draft, tokens, k))
        tokens += emitted
        rounds.append(accepted)
    return tokens[len(prompt):], rounds


def tokens_per_round(answers):
    """Over the (emitted tokens, rounds) of several prompts."""
    n_tokens = sum(len(tokens) - 1 for tokens, _ in answers)
    return n_tokens / max(sum(len(rounds) for _, rounds in answers), 1)
