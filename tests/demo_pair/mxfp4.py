"""MXFP4: E2M1 values with one E8M0 scale per 32 input columns. The scale's exponent is chosen by squared error."""
import torch

GROUP = 32
GRID = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6])
MIDDLES = (GRID[1:] + GRID[:-1]) / 2
EXPONENT_BIAS = 127
SIGN = 8


def nearest_code(w, scale):
    """Index of the nearest grid value to |w / scale|; ties go to the even code."""
    a = (w / scale).abs().contiguous()
    middles = MIDDLES.to(a)
    code = torch.bucketize(a, middles)  # a tie goes down here
    odd_tie = torch.isin(a, middles) & (code % 2 == 1)
    return torch.where(odd_tie, code + 1, code).clamp(max=len(GRID) - 1)


def quantize(w, search=(-1, 0, 1)):
    """w [..., out, in] float32 -> (packed uint8 [..., out, in/2], scale uint8 [..., out, in/32], dequantized float32).

    `search`: what is added to the exponent that just fits the largest value of a group; the best one is kept, an
    earlier one at equal error."""
    groups = w.float().unflatten(-1, (-1, GROUP))
    largest = groups.abs().amax(-1, keepdim=True).clamp(min=2.0 ** -120)
    fitting = torch.floor(torch.log2(largest)) - 2
    best = None
    for offset in search:
        exponent = (fitting + offset).clamp(-EXPONENT_BIAS, EXPONENT_BIAS)
        scale = torch.exp2(exponent)
        code = nearest_code(groups, scale)
        value = GRID[code] * scale * torch.sign(groups)
        error = (value - groups).pow(2).sum(-1, keepdim=True)
        found = (error, exponent, code, value)
        if best is None:
            best = found
        else:
            better = error < best[0]
            best = tuple(torch.where(better, new, old) for new, old in zip(found, best))
    _, exponent, code, value = best
    nibbles = (code + SIGN * (groups < 0)).to(torch.uint8).flatten(-2)
    packed = nibbles[..., 0::2] | (nibbles[..., 1::2] << 4)
    return packed, (exponent.squeeze(-1) + EXPONENT_BIAS).to(torch.uint8), value.flatten(-2)


def dequantize(packed, scale):
    """The float32 values of packed [..., in/2] and scale [..., in/32]."""
    nibbles = torch.stack([packed & 15, packed >> 4], -1).flatten(-2).long()
    value = GRID[nibbles % SIGN] * torch.where(nibbles >= SIGN, -1.0, 1.0)
    return (value.unflatten(-1, (-1, GROUP)) * torch.exp2(scale.float() - EXPONENT_BIAS)[..., None]).flatten(-2)


def signal_to_noise(w, dequantized):
    """In dB."""
    noise = (w.double() - dequantized).pow(2).sum()
    return (10 * torch.log10(w.double().pow(2).sum() / noise)).item()
