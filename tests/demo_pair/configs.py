"""The demo pair's config.json files, without the target's quantization_config."""
import math

TARGET = dict(
    architectures=["LagunaForCausalLM"], model_type="laguna",
    vocab_size=4096, hidden_size=256, intermediate_size=1024, num_hidden_layers=8,
    num_attention_heads=4, num_key_value_heads=2, head_dim=64,
    num_attention_heads_per_layer=[4 if layer % 4 == 0 else 6 for layer in range(8)],
    layer_types=["full_attention" if layer % 4 == 0 else "sliding_attention" for layer in range(8)],
    sliding_window=128,
    mlp_layer_types=["dense"] + ["sparse"] * 7,
    num_experts=32, num_experts_per_tok=4, moe_intermediate_size=64, shared_expert_intermediate_size=64,
    norm_topk_prob=True, moe_routed_scaling_factor=2.5, moe_router_logit_softcapping=0.0,
    moe_apply_router_weight_on_input=False, router_aux_loss_coef=0.0, output_router_logits=False,
    gating="per-head", attention_bias=False, attention_dropout=0.0, rms_norm_eps=1e-6, hidden_act="silu",
    tie_word_embeddings=False, bos_token_id=2, eos_token_id=[2, 24], pad_token_id=9, torch_dtype="bfloat16",
    use_cache=True, max_position_embeddings=4096,
    rope_parameters=dict(
        full_attention=dict(
            rope_type="yarn", rope_theta=500000.0, factor=8.0, original_max_position_embeddings=512, beta_fast=32.0,
            beta_slow=1.0, attention_factor=0.1 * math.log(8.0) + 1.0, partial_rotary_factor=0.5),
        sliding_attention=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)))

DRAFT = dict(
    architectures=["DFlashLagunaForCausalLM"], model_type="laguna",
    vocab_size=4096, draft_vocab_size=4096, hidden_size=256, intermediate_size=768, num_hidden_layers=2,
    num_attention_heads=6, num_key_value_heads=2, head_dim=64, hidden_act="silu", rms_norm_eps=1e-6,
    attention_bias=False, layer_types=["sliding_attention"] * 2, sliding_window=128, rope_theta=500000.0,
    gating="per-head", max_position_embeddings=4096, torch_dtype="bfloat16",
    eagle_aux_hidden_state_layer_ids=[2, 5, 8],
    dflash_config=dict(block_size=16, mask_token_id=12, num_target_layers=8, target_layer_ids=[1, 4, 7], causal=True))

STOP_IDS = tuple(TARGET["eos_token_id"])
BOS_ID = TARGET["bos_token_id"]
END_OF_ANSWER = 24
MASK_ID = DRAFT["dflash_config"]["mask_token_id"]
TAP_LAYERS = DRAFT["dflash_config"]["target_layer_ids"]
