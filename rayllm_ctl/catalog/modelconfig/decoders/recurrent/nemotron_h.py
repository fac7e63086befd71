"""Nemotron-H and Nemotron 3: each layer is one mixer, one dense block or one MoE, by a pattern of letters.

Layout from vLLM 0.29's nemotron_h.py. The experts of Nemotron 3 Super work in a smaller latent space.
"""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.catalog.modelconfig.body import Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, dense, feed_forward, nothing
from rayllm_ctl.catalog.modelconfig.decoders.mixers import Mamba2
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields

_LETTERS = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "moe": "E", "mlp": "-"}
"""A layer's letter by its name in layers_block_type, before and since transformers 5."""


def _nemotron_pattern(fields: Fields) -> str:
    pattern = fields.text("hybrid_override_pattern").replace("|", "")
    if not pattern:
        pattern = "".join(_LETTERS.get(word, "?") for word in fields.texts("layers_block_type"))
    if not pattern:
        raise fields.missing("hybrid_override_pattern", "layers_block_type")
    return pattern


def _nemotron_layers(fields: Fields, sizes: Sizes) -> Sequence[str]:
    pattern = _nemotron_pattern(fields)
    if len(pattern) < sizes.layers or set(pattern[: sizes.layers]) - set("M*E-"):
        raise fields.wrong("hybrid_override_pattern", pattern, f"{sizes.layers} letters out of M, *, E and -")
    return pattern


_MAMBA = Mamba2(
    heads=("mamba_num_heads", 1), groups=("n_groups", 8), state=("ssm_state_size", 128), taps="conv_kernel",
    bias="use_bias", conv_bias="use_conv_bias", head_dim=lambda fields: fields.integer("mamba_head_dim", default=64),
    float32_state=lambda fields: fields.text("mamba_ssm_cache_dtype", default="float32") == "float32",
)  # fmt: skip


def _nemotron_block(context: LayerContext) -> None:
    """A layer is one mixer, one dense block or one MoE, by its letter."""
    if context.kind == "E":
        feed_forward(context)
    elif context.kind == "-":
        dense(context, context.fields.integer_at(context.layer_index, "intermediate_size"))


_NEMOTRON = DecoderSpec(
    attention="mixer.", mixers={"M": _MAMBA.add, "*": attention, "E": nothing, "-": nothing},
    sizes=lambda fields: read_sizes(fields, default_layers=len(_nemotron_pattern(fields))),
    kinds=_nemotron_layers, windowed=False, gated=False, mlp_bias=("mlp_bias",), mlp="mixer.",
    mlp_names=("up_proj", "down_proj"), feed_forward=_nemotron_block,
    intermediate=lambda fields: fields.integer_at(0, "intermediate_size", "moe_intermediate_size"), norms=1,
    rotary=False,
    moe=MoESpec(
        intermediate=("moe_intermediate_size",), top_k_default=None, name="mixer.experts", gated=False,
        router="mixer.gate", correction=True, latent=("moe_latent_size",),
        latent_projections=("mixer.fc1_latent_proj", "mixer.fc2_latent_proj"), shared_count=("n_shared_experts",),
        shared_width=("moe_shared_expert_intermediate_size",), shared_name="mixer.shared_experts",
        shared_projections=("up_proj", "down_proj"),
    ),
)  # fmt: skip

ROWS = {"NemotronHForCausalLM": _NEMOTRON, "NemotronHPuzzleForCausalLM": _NEMOTRON}
