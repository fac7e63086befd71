"""PLaMo 2: Mamba with heads in most layers, attention in the others (plamo2.py of vLLM 0.20)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Body, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.recurrent import hybrid_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Part, StateCache, Vector

_LEAST_RANK = 64
"""The time step passes through hidden / 16 features, but through no fewer."""


def read_plamo2(fields: Fields, builder: Builder) -> Body:
    """One layer of each `mamba_step` attends, that in the middle; of a very short model the last one."""
    sizes = read_sizes(fields)
    step = fields.integer("mamba_step", default=2, low=2)
    short = sizes.layers <= step // 2
    attends = [i == sizes.layers - 1 if short else i % step == step // 2 for i in range(sizes.layers)]
    intermediate = fields.integer("intermediate_size")

    def make(index: int, pieces: LayerBuilder) -> None:
        if attends[index]:
            pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, norm="full", prefix="mixer.")
        else:
            _scan(fields, sizes.hidden, sizes.head_dim, pieces)
        pieces.mlp(sizes.hidden, intermediate)
        pieces.norm(sizes.hidden, 4)

    return hybrid_body(
        fields, builder, make, lambda index: attends[index], intermediate=intermediate, traits={"hybrid"}, tied=True
    )


def _scan(fields: Fields, hidden: int, head_dim: int, pieces: LayerBuilder) -> None:
    """Mamba 2's state with Mamba 1's projections: one B and C for all heads, from the convolved input."""
    heads = fields.integer("mamba_num_heads", high=MOST_HEADS)
    state = fields.integer("mamba_d_state", default=64)
    taps = fields.integer("mamba_d_conv", default=4, low=2, high=64)
    rank = max(_LEAST_RANK, hidden // 16)
    inner = Part(heads, head_dim)
    pieces.linear("mixer.conv1d", taps, (inner,), quantizable=False)
    pieces.linear("mixer.in_proj", hidden, (inner, inner))
    pieces.linear("mixer.bcdt_proj", inner.size, rank + 2 * state, "row", input_units=heads)
    pieces.linear("mixer.dt_proj", rank, (Part(heads),))
    pieces.vectors += [Vector(heads, heads, float32=True), Vector(heads, heads), Vector(heads, heads)]
    pieces.linear("mixer.out_proj", inner.size, hidden, "row", input_units=heads)
    pieces.vectors += [Vector(rank), Vector(state), Vector(state)]
    pieces.caches.append(StateCache("mamba2", conv=(inner.size, taps - 1), ssm=(heads, head_dim, state)))
