"""The published on-disk layout: a trained state dict to a model folder, and back."""
import json
import os
import shutil

import torch
from safetensors.torch import load_file, save_file

import mxfp4
from configs import DRAFT, TARGET
from draft_net import Draft
from target_net import Target

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
LAYERS_OF_SECOND_SHARD = (4, 5, 6, 7)

QUANTIZATION = dict(
    quant_method="compressed-tensors", format="mxfp4-pack-quantized", quantization_status="compressed",
    config_groups=dict(group_0=dict(
        format="mxfp4-pack-quantized", targets=["re:.*mlp\\.experts\\.\\d+\\.(gate|up|down)_proj$"],
        input_activations=None, output_activations=None,
        weights=dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True, dynamic=False,
                     scale_dtype="torch.uint8"))),
    ignore=["lm_head", "re:.*self_attn.*", "re:.*shared_expert.*", "re:.*mlp.gate$", "re:model.layers.0.mlp.*"])

GENERATION = dict(
    bos_token_id=2, eos_token_id=[2, 24], pad_token_id=9, do_sample=True, temperature=1.0, top_p=1.0, top_k=20,
    default_chat_template_kwargs=dict(enable_thinking=False), tool_call_parser="poolside_v1",
    reasoning_parser="poolside_v1")

TOKENIZER = dict(
    tokenizer_class="PreTrainedTokenizerFast", bos_token="〈|EOS|〉", eos_token="〈|EOS|〉", pad_token="〈|PAD|〉",
    unk_token="〈|UNK|〉", clean_up_tokenization_spaces=False, model_max_length=4096)


def write_json(path, value, **options):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1, **options)


def is_quantized(name):
    return name.endswith(("experts.gate_up_proj", "experts.down_proj"))


def projections(name, rows):
    """How a fused expert tensor is cut along its rows on disk: {projection: slice}."""
    if name.endswith("down_proj"):
        return {"down_proj": slice(None)}
    return {"gate_proj": slice(0, rows // 2), "up_proj": slice(rows // 2, None)}


def tensors_on_disk(state):
    """State dict -> (tensors under their published names, signal to noise in dB of every quantized tensor)."""
    tensors, quality = {}, []
    for name, t in state.items():
        if not is_quantized(name):
            tensors[name] = t.to(torch.bfloat16)
            continue
        packed, scale, value = mxfp4.quantize(t)
        quality.append(mxfp4.signal_to_noise(t, value))
        folder = name.rsplit(".", 1)[0]
        for expert in range(t.shape[0]):
            for projection, rows in projections(name, t.shape[1]).items():
                path = f"{folder}.{expert}.{projection}"
                tensors[path + ".weight_packed"] = packed[expert, rows].contiguous()
                tensors[path + ".weight_scale"] = scale[expert, rows].contiguous()
    return tensors, quality


def shard_of(name):
    second = any(f".layers.{layer}." in name for layer in LAYERS_OF_SECOND_SHARD)
    return SHARDS[second]


def write_target(folder, state, tokenizer_file):
    """Everything but the chat template. Returns the signal to noise of the quantized tensors in dB."""
    os.makedirs(folder, exist_ok=True)
    tensors, quality = tensors_on_disk(state)
    weight_map = {name: shard_of(name) for name in sorted(tensors)}
    for shard in SHARDS:
        own = {name: tensors[name] for name, place in weight_map.items() if place == shard}
        save_file(own, os.path.join(folder, shard), metadata={"format": "pt"})
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(os.path.join(folder, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": weight_map})
    write_json(os.path.join(folder, "config.json"), dict(TARGET, quantization_config=QUANTIZATION))
    write_json(os.path.join(folder, "generation_config.json"), GENERATION)
    write_json(os.path.join(folder, "tokenizer_config.json"), TOKENIZER, ensure_ascii=False)
    shutil.copyfile(tokenizer_file, os.path.join(folder, "tokenizer.json"))
    return quality


def write_draft(folder, state):
    os.makedirs(folder, exist_ok=True)
    tensors = {name: t.to(torch.bfloat16).contiguous() for name, t in state.items()}
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    write_json(os.path.join(folder, "config.json"), DRAFT)


def load_target(folder):
    """The network with the values that the engine sees: packed experts decoded, the rest from BF16."""
    tensors = {}
    for shard in SHARDS:
        tensors.update(load_file(os.path.join(folder, shard)))
    net = Target()
    state = {}
    for name, t in net.state_dict().items():
        if not is_quantized(name):
            state[name] = tensors[name].float()
            continue
        value = torch.empty_like(t)
        prefix = name.rsplit(".", 1)[0]
        for expert in range(t.shape[0]):
            for projection, rows in projections(name, t.shape[1]).items():
                path = f"{prefix}.{expert}.{projection}"
                packed, scale = tensors[path + ".weight_packed"], tensors[path + ".weight_scale"]
                value[expert, rows] = mxfp4.dequantize(packed, scale)
        state[name] = value
    net.load_state_dict(state)
    return net.eval().requires_grad_(False)


def load_draft(folder):
    draft = Draft()
    draft.load_state_dict({name: t.float() for name, t in load_file(os.path.join(folder, "model.safetensors")).items()})
    return draft.eval().requires_grad_(False)
