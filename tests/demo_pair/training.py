"""Training tools for both networks: packed rows, the Muon optimizer, the schedule, the clock."""
import time

import torch

from corpus import read_split


def pack(corpus, tokenizer, length):
    """(training rows, held-out rows), each [n, length + 1]: documents behind one another, cut into equal pieces."""
    def rows(documents):
        encoded = tokenizer.encode_batch([d["text"] for d in documents])
        ids = [i for e in encoded for i in e.ids]
        return torch.tensor(ids[:len(ids) // (length + 1) * (length + 1)]).view(-1, length + 1)

    held_out, training = read_split(corpus)
    return rows(training), rows(held_out)


def newton_schulz(gradient):
    """Five steps towards the nearest matrix with orthogonal rows or columns."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = gradient.bfloat16()
    is_tall = x.shape[-2] > x.shape[-1]
    if is_tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if is_tall else x).float()


class Muon:
    """Momentum, then orthogonalised steps; for matrices. Gradients are dropped by `step`."""

    def __init__(self, parameters, momentum=0.95):
        self.parameters = parameters
        self.velocity = [torch.zeros_like(p) for p in parameters]
        self.momentum = momentum

    @torch.no_grad()
    def step(self, rate, decay=0.0):
        for p, velocity in zip(self.parameters, self.velocity):
            if p.grad is None:
                continue
            velocity.mul_(self.momentum).add_(p.grad)
            direction = newton_schulz(p.grad + self.momentum * velocity)
            p.mul_(1 - rate * decay).add_(direction, alpha=-rate * 0.2 * max(p.shape[-2:]) ** 0.5)
            p.grad = None


def others(named, matrices):
    """The parameters that are not among `matrices`: they go to AdamW."""
    taken = {id(p) for p in matrices}
    return [p for _, p in named if id(p) not in taken]


class Clock:
    """Training runs by time: `fraction` is how much of it is over."""

    def __init__(self, minutes):
        self.start, self.total = time.time(), minutes * 60

    def seconds(self):
        return time.time() - self.start

    def fraction(self):
        return self.seconds() / self.total


def schedule(step, fraction, warm_up):
    """Factor of the learning rate: a ramp over the first steps, flat, then a line down to 3 % over the last 60 %."""
    falling = 1.0 if fraction < 0.4 else max(0.03, (1 - fraction) / 0.6)
    return min(1.0, step / warm_up) * falling


def average(old, new, keep):
    """Running average; old None: the first value."""
    return new if old is None else keep * old + (1 - keep) * new
