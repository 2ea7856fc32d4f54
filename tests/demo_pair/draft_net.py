"""The DFlash draft in plain PyTorch, with the tensor names of the published checkpoints."""
import torch
import torch.nn.functional as F
from torch import nn

from configs import DRAFT
from layers import MLP, RMSNorm, gated_merge, linear, rope_table, rotate, to_heads


class DraftAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = config["hidden_size"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = config["head_dim"]
        self.qkv_proj = linear(hidden, (self.heads + 2 * self.kv_heads) * self.head_dim)
        self.o_proj = linear(self.heads * self.head_dim, hidden)
        self.g_proj = linear(hidden, self.heads)
        self.q_norm = RMSNorm(self.head_dim)
        self.k_norm = RMSNorm(self.head_dim)

    def project(self, x):
        """(q, k, v), each [B, heads, T, head_dim], before norms and rotation."""
        heads = (self.heads, self.kv_heads, self.kv_heads)
        parts = self.qkv_proj(x).split([n * self.head_dim for n in heads], -1)
        return tuple(to_heads(part, n, self.head_dim) for part, n in zip(parts, heads))

    def context(self, x, table):
        """(k, v) of context rows."""
        _, k, v = self.project(x)
        return rotate(self.k_norm(k), table), v

    def forward(self, x, table, context, mask):
        q, k, v = self.project(x)
        q, k = rotate(self.q_norm(q), table), rotate(self.k_norm(k), table)
        group = self.heads // self.kv_heads
        k = torch.cat([context[0], k], 2).repeat_interleave(group, 1)
        v = torch.cat([context[1], v], 2).repeat_interleave(group, 1)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(gated_merge(attended, self.g_proj(x)))


class DraftLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = config["hidden_size"]
        self.self_attn = DraftAttention(config)
        self.mlp = MLP(hidden, config["intermediate_size"])
        self.input_layernorm = RMSNorm(hidden)
        self.post_attention_layernorm = RMSNorm(hidden)


class Draft(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = config or DRAFT
        hidden = self.config["hidden_size"]
        n_taps = len(self.config["dflash_config"]["target_layer_ids"])
        self.fc = linear(n_taps * hidden, hidden)
        self.hidden_norm = RMSNorm(hidden)
        self.norm = RMSNorm(hidden)
        self.aux_hidden_norms = nn.ModuleList(RMSNorm(hidden) for _ in range(n_taps))
        self.layers = nn.ModuleList(DraftLayer(self.config) for _ in range(self.config["num_hidden_layers"]))
        self.rope = dict(rope_type="default", rope_theta=self.config["rope_theta"])

    def context(self, taps, positions):
        """(k, v) of every layer for the tokens whose target residuals are `taps`, one tensor [B, T, hidden] per tap."""
        normed = [norm(tap) for norm, tap in zip(self.aux_hidden_norms, taps)]
        x = self.hidden_norm(self.fc(torch.cat(normed, -1)))
        table = rope_table(self.rope, self.config["head_dim"], positions)
        return [layer.self_attn.context(layer.input_layernorm(x), table) for layer in self.layers]

    def block(self, x, positions, context, mask):
        """Embedded rows of one or more blocks -> hidden rows for the target's head."""
        table = rope_table(self.rope, self.config["head_dim"], positions)
        for layer, kv in zip(self.layers, context):
            x = x + layer.self_attn(layer.input_layernorm(x), table, kv, mask)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x)


def block_mask(anchors, k, n_context, window):
    """Positions and mask of one block of 1 + k rows per anchor position, all blocks in one call.

    Columns are the context rows followed by the blocks' own rows. A row sees the context in front of its anchor as far
    as its window reaches, and the rows of its own block up to itself."""
    in_block = torch.arange(1 + k)
    positions = (anchors[:, None] + in_block).reshape(-1)
    anchor = anchors.repeat_interleave(1 + k)
    column = torch.arange(n_context)
    sees_context = (column[None] < anchor[:, None]) & (column[None] > positions[:, None] - window)
    block = torch.arange(len(anchors)).repeat_interleave(1 + k)
    place = in_block.repeat(len(anchors))
    sees_block = (block[:, None] == block[None]) & (place[None] <= place[:, None])
    return positions, torch.cat([sees_context, sees_block], 1)
