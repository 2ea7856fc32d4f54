"""The target in plain PyTorch, with the tensor names of the published checkpoints."""
import torch
import torch.nn.functional as F
from torch import nn

from configs import TARGET
from layers import MLP, RMSNorm, gated_merge, linear, rope_table, rotate, to_heads


class Router(nn.Module):
    def __init__(self, n_experts, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_experts, hidden).normal_(0, 0.02))


class Experts(nn.Module):
    def __init__(self, n_experts, hidden, width):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(n_experts, 2 * width, hidden).normal_(0, hidden ** -0.5))
        self.down_proj = nn.Parameter(torch.empty(n_experts, hidden, width).normal_(0, width ** -0.5))
        self.register_buffer("e_score_correction_bias", torch.zeros(n_experts))


class MoE(nn.Module):
    """Routed and shared experts. While training, `load` is the number of tokens that each expert got last."""

    def __init__(self, config):
        super().__init__()
        hidden = config["hidden_size"]
        self.n_experts, self.per_token = config["num_experts"], config["num_experts_per_tok"]
        self.scaling = config["moe_routed_scaling_factor"]
        self.gate = Router(self.n_experts, hidden)
        self.experts = Experts(self.n_experts, hidden, config["moe_intermediate_size"])
        self.shared_expert = MLP(hidden, config["shared_expert_intermediate_size"])
        self.load = None

    def route(self, x):
        """(expert ids, weights), each [tokens, per_token], in FP32 whatever surrounds it."""
        with torch.autocast("cpu", enabled=False):
            score = torch.sigmoid(F.linear(x.float(), self.gate.weight.float()))
            ids = torch.topk(score + self.experts.e_score_correction_bias, self.per_token, -1).indices
            weights = score.gather(-1, ids)
            return ids, weights / weights.sum(-1, keepdim=True)

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        ids, weights = self.route(x)
        chosen = ids.reshape(-1)
        order = torch.argsort(chosen, stable=True)  # places of (token, choice) grouped by expert
        counts = torch.bincount(chosen, minlength=self.n_experts)
        if self.training:
            self.load = counts
        token = order // self.per_token
        rows = x[token].split(counts.tolist())
        gate_up = self.experts.gate_up_proj.to(x.dtype).unbind(0)
        down = self.experts.down_proj.to(x.dtype).unbind(0)
        outs = []
        for e in range(self.n_experts):
            if len(rows[e]):
                gate, up = F.linear(rows[e], gate_up[e]).chunk(2, -1)
                outs.append(F.linear(F.silu(gate) * up, down[e]))
        weighted = torch.cat(outs) * weights.reshape(-1)[order, None].to(x.dtype)
        routed = torch.zeros_like(x).index_add(0, token, weighted)
        return (routed * self.scaling + self.shared_expert(x)).view(shape)


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        hidden = config["hidden_size"]
        self.heads = config["num_attention_heads_per_layer"][layer]
        self.kv_heads, self.head_dim = config["num_key_value_heads"], config["head_dim"]
        self.q_proj = linear(hidden, self.heads * self.head_dim)
        self.k_proj = linear(hidden, self.kv_heads * self.head_dim)
        self.v_proj = linear(hidden, self.kv_heads * self.head_dim)
        self.o_proj = linear(self.heads * self.head_dim, hidden)
        self.g_proj = linear(hidden, self.heads)
        self.q_norm = RMSNorm(self.head_dim)
        self.k_norm = RMSNorm(self.head_dim)

    def forward(self, x, table, mask, cache=None):
        """mask None: every key up to the row's own. `cache` takes (k, v) of the rows and gives those of all."""
        q = to_heads(self.q_proj(x), self.heads, self.head_dim)
        k = to_heads(self.k_proj(x), self.kv_heads, self.head_dim)
        v = to_heads(self.v_proj(x), self.kv_heads, self.head_dim)
        q, k = rotate(self.q_norm(q), table), rotate(self.k_norm(k), table)
        if cache is not None:
            k, v = cache(k, v)
        group = self.heads // self.kv_heads
        if group > 1:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        is_causal = mask is None and x.shape[1] > 1
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
        return self.o_proj(gated_merge(attended, self.g_proj(x)))


class Layer(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        hidden = config["hidden_size"]
        self.self_attn = Attention(config, layer)
        self.mlp = (MoE(config) if config["mlp_layer_types"][layer] == "sparse"
                    else MLP(hidden, config["intermediate_size"]))
        self.input_layernorm = RMSNorm(hidden)
        self.post_attention_layernorm = RMSNorm(hidden)

    def forward(self, x, table, mask, cache=None):
        x = x + self.self_attn(self.input_layernorm(x), table, mask, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"])


class Target(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = config or TARGET
        self.model = Body(self.config)
        self.lm_head = linear(self.config["hidden_size"], self.config["vocab_size"])

    def moe_layers(self):
        return [layer.mlp for layer in self.model.layers if isinstance(layer.mlp, MoE)]

    def forward(self, ids, positions=None, caches=None, mask_full=None, mask_sliding=None, taps=()):
        """ids [B, T] -> (logits [B, T, V], residual after each layer of `taps`). Without positions: a whole text from
        its beginning. With caches the masks must be given: rows are these tokens, columns all tokens so far."""
        config = self.config
        if positions is None:
            positions = torch.arange(ids.shape[1])
        if mask_sliding is None:
            distance = positions[:, None] - positions[None]
            mask_sliding = (distance >= 0) & (distance < config["sliding_window"])
        masks = {"full_attention": mask_full, "sliding_attention": mask_sliding}
        tables = {kind: rope_table(config["rope_parameters"][kind], config["head_dim"], positions) for kind in masks}
        x = self.model.embed_tokens(ids)
        tapped = []
        for i, layer in enumerate(self.model.layers):
            kind = config["layer_types"][i]
            x = layer(x, tables[kind], masks[kind], caches[i] if caches else None)
            if i in taps:
                tapped.append(x)
        return self.lm_head(self.model.norm(x)), tapped
