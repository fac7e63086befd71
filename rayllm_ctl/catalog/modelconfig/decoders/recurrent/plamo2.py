"""PLaMo 2: Mamba with heads in most layers, attention in the others (plamo2.py of vLLM 0.20)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Part, StateCache, Vector

_LEAST_RANK = 64
"""The time step passes through hidden / 16 features, but through no fewer."""


def _attention_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    """One layer of each `mamba_step` attends, that in the middle; of a very short model the last one."""
    step, count = fields.integer("mamba_step", default=2, low=2), sizes.layers
    return [i == count - 1 if count <= step // 2 else i % step == step // 2 for i in range(count)]


def _mamba(context: LayerContext) -> None:
    """Mamba 2's state with Mamba 1's projections: one B and C for all heads, from the convolved input."""
    fields, layer, hidden, head_dim = context.fields, context.layer, context.sizes.hidden, context.sizes.head_dim
    heads = fields.integer("mamba_num_heads", high=MOST_HEADS)
    state = fields.integer("mamba_d_state", default=64)
    taps = fields.integer("mamba_d_conv", default=4, low=2, high=64)
    rank = max(_LEAST_RANK, hidden // 16)
    inner = Part(heads, head_dim)
    layer.linear("mixer.conv1d", taps, (inner,), quantizable=False)
    layer.linear("mixer.in_proj", hidden, (inner, inner))
    layer.linear("mixer.bcdt_proj", inner.size, rank + 2 * state, "row", input_units=heads)
    layer.linear("mixer.dt_proj", rank, (Part(heads),))
    layer.vectors += [Vector(heads, heads, float32=True), Vector(heads, heads), Vector(heads, heads)]
    layer.linear("mixer.out_proj", inner.size, hidden, "row", input_units=heads)
    layer.vectors += [Vector(rank), Vector(state), Vector(state)]
    layer.caches.append(StateCache("mamba2", conv=(inner.size, taps - 1), ssm=(heads, head_dim, state)))


ROWS = {
    "Plamo2ForCausalLM": DecoderSpec(
        qk_norm="full", attention="mixer.", mixers={True: attention, False: _mamba}, kinds=_attention_layers,
        windowed=False, norms=4, intermediate=("intermediate_size",), tied=True,
    ),
}  # fmt: skip
