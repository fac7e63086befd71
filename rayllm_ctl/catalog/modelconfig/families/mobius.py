"""Intern-S2 Mobius: Qwen3.5's layers, which take banks of routed experts in turn (vLLM 0.29's interns2_mobius.py)."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, TOP_K, Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.recurrent import attending, hybrid_body, qwen_mixer, qwen_next_mixture
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer


def read_mobius(fields: Fields, builder: Builder) -> Body:
    """The body of Mobius: each layer has a shared expert of its own; layer i uses bank i modulo `num_blocks`."""
    sizes = read_sizes(fields)
    full = attending(fields, sizes.layers)
    shared = fields.integer("shared_expert_intermediate_size")
    scaled = fields.flag("layer_scale")

    def make(index: int, pieces: LayerBuilder) -> None:
        qwen_mixer(fields, sizes, pieces, full=full[index])
        pieces.linear("mlp.shared_expert_gate", sizes.hidden, 1, "none", quantizable=False)
        pieces.mlp(sizes.hidden, shared, prefix="mlp.shared_expert.")
        pieces.norm(sizes.hidden, 4 if scaled else 2)

    body = hybrid_body(
        fields,
        builder,
        make,
        lambda index: full[index],
        intermediate=fields.integer("moe_intermediate_size"),
        traits={"hybrid", "moe"},
    )
    return replace(
        body,
        shared=_banks(fields, builder, sizes.hidden, sizes.layers),
        draft_layers=_drafts(fields, builder, sizes),
    )


def _drafts(fields: Fields, builder: Builder, sizes: Sizes) -> tuple[Layer, ...]:
    """Layers that predict further tokens: Qwen3.5's, each with experts of its own."""
    count = fields.integer("mtp_num_hidden_layers", default=0, low=0, high=MOST_LAYERS)
    joint, layer = builder.single("mtp."), builder.single("mtp.")
    joint.linear("fc", 2 * sizes.hidden, sizes.hidden, "none", quantizable=False)
    joint.norm(sizes.hidden, 3)
    qwen_mixer(fields, sizes, layer, full=True)
    qwen_next_mixture(fields, layer, sizes.hidden)
    layer.norm(sizes.hidden, 2)
    return (joint.layer(), layer.layer()) * count


def _banks(fields: Fields, builder: Builder, hidden: int, layers: int) -> tuple[Layer, ...]:
    """Each bank with how many layers use it."""
    count = fields.integer("num_blocks", high=MOST_LAYERS)
    found = []
    for index in range(count):
        pieces = builder.single(f"meta_mlp.{index}.")
        pieces.experts(
            hidden,
            fields.integer("moe_intermediate_size"),
            fields.integer("num_experts", high=MOST_EXPERTS),
            fields.integer(*TOP_K, high=MOST_EXPERTS),
            name="experts",
            router="gate",
        )
        pieces.passes = len(range(index, layers, count))
        found.append(pieces.layer())
    return tuple(found)
