"""What transformers' config classes assume where config.json is silent, for the classes whose files often are.

A nested text_config or vision_config is saved as the difference from its class's defaults, so these are part of the
format (transformers, configuration_*.py of each model type).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LLAMA = {
    "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
    "vocab_size": 32000, "max_position_embeddings": 2048,
}  # fmt: skip
_QWEN2 = {
    "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "vocab_size": 151936, "max_position_embeddings": 32768,
}  # fmt: skip
_GEMMA3 = {
    "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
    "sliding_window": 4096, "sliding_window_pattern": 6, "rope_local_base_freq": 10000.0,
}  # fmt: skip
_DELTA_NET = {
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "head_dim": 256, "partial_rotary_factor": 0.25,
}  # fmt: skip
_DELTA_NET_MIXTURE = {
    **_DELTA_NET, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 256,
    "num_experts_per_tok": 8,
}  # fmt: skip
_MUSE = {
    "vocab_size": 202048, "hidden_size": 6656, "intermediate_size": 19968, "num_hidden_layers": 52,
    "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 16384,
    "sliding_window": 2048, "use_attn_output_gate": True,
}  # fmt: skip

TEXT_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "mistral": {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 131072,
    },
    "qwen2": _QWEN2,
    "qwen2_vl_text": {
        **_QWEN2, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "vocab_size": 152064,
    },
    "aria_text": {
        **_LLAMA, "intermediate_size": 4096, "moe_num_experts": 8, "moe_topk": 2, "moe_num_shared_experts": 2,
    },
    "molmo2_text": {
        "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 48, "num_attention_heads": 28,
        "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 152064, "additional_vocab_size": 128, "qkv_bias": True,
        "max_position_embeddings": 4096,
    },
    "moondream3": {
        "dim": 2048, "ff_dim": 8192, "n_layers": 24, "n_heads": 32, "n_kv_heads": 32, "vocab_size": 51200,
        "max_context": 4096,
    },
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "sliding_window": 4096},
    "gemma3_text": _GEMMA3,
    "granite": _LLAMA,
    "qwen3_next": {**_DELTA_NET_MIXTURE, "num_experts": 512, "num_experts_per_tok": 10},
    "qwen4_exp_text": {**_DELTA_NET_MIXTURE, "num_experts": 512, "num_experts_per_tok": 10},
    "qwen3_5_text": _DELTA_NET,
    "qwen3_5_moe_text": _DELTA_NET_MIXTURE,
    "deepseek_v2": {"v_head_dim": 128, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "kv_lora_rank": 512},
    "muse_glimmer_text": _MUSE,
    "muse_glimmer": _MUSE,
    "persimmon": {"qk_layernorm": True, "partial_rotary_factor": 0.5},
    "phimoe": {"sliding_window": 4096},
    "olmo3": {"sliding_window": 4096},
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "gpt_oss": {"sliding_window": 128},
    "mllama_text_model": {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 40, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    },
    "llama4_text": {
        "attention_chunk_size": 8192, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 202048, "num_local_experts": 16,
    },
}  # fmt: skip
"""By the text config's model_type."""
