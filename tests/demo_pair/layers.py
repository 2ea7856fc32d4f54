"""Parts that both networks are made of."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def inverse_frequencies(rope, head_dim):
    """(frequencies, attention factor) of one rope_parameters entry, plain or YaRN."""
    dim = int(head_dim * rope.get("partial_rotary_factor", 1.0))
    theta = rope["rope_theta"]
    plain = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if rope["rope_type"] == "default":
        return plain.float(), 1.0

    def correction(rotations):
        length = rope["original_max_position_embeddings"]
        return dim * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(correction(rope["beta_fast"])), 0)
    high = min(math.ceil(correction(rope["beta_slow"])), dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    return (plain / rope["factor"] * ramp + plain * (1 - ramp)).float(), rope["attention_factor"]


def rope_table(rope, head_dim, positions):
    """(cosines, sines), each [T, dim/2]."""
    frequencies, factor = inverse_frequencies(rope, head_dim)
    angle = positions.float()[:, None] * frequencies[None]
    return torch.cos(angle) * factor, torch.sin(angle) * factor


def rotate(x, table):
    """x [B, heads, T, head_dim]: pairs (i, i + dim/2) of the first dim columns; the others pass."""
    cos, sin = (t.to(x.dtype) for t in table)
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


def to_heads(x, n_heads, head_dim):
    """[B, T, n_heads * head_dim] -> [B, n_heads, T, head_dim]"""
    return x.view(x.shape[0], x.shape[1], n_heads, head_dim).transpose(1, 2)


def gated_merge(attended, gate):
    """[B, heads, T, head_dim] times softplus of the gate [B, T, heads] -> [B, T, heads * head_dim]"""
    factor = F.softplus(gate.float()).to(attended.dtype)
    return (attended.transpose(1, 2) * factor[..., None]).flatten(2)


class RMSNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x.float(), x.shape[-1:], None, self.eps).to(x.dtype) * self.weight.to(x.dtype)


class MLP(nn.Module):
    def __init__(self, hidden, width):
        super().__init__()
        self.gate_proj = linear(hidden, width)
        self.up_proj = linear(hidden, width)
        self.down_proj = linear(width, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
