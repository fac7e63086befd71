"""Intern-S2 Mobius: Qwen3.5's layers, which take banks of routed experts in turn (vLLM 0.29's interns2_mobius.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, TOP_K, Body
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, feed_forward
from rayllm_ctl.catalog.modelconfig.decoders.hybrid import QWEN_MOE, QWEN_NEXT
from rayllm_ctl.catalog.modelconfig.decoders.spec import LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Layer


def _shared_expert(context: LayerContext) -> None:
    """Each layer has a shared expert of its own; layer i uses bank i modulo `num_blocks`."""
    hidden, layer = context.sizes.hidden, context.layer
    layer.linear("mlp.shared_expert_gate", hidden, 1, "none", quantizable=False)
    layer.mlp(hidden, context.fields.integer("shared_expert_intermediate_size"), prefix="mlp.shared_expert.")


def _banks_and_drafts(body: Body, fields: Fields, builder: Builder) -> Body:
    return body._replace(shared=_banks(body, fields, builder), draft_layers=_drafts(body, fields, builder))


def _banks(body: Body, fields: Fields, builder: Builder) -> tuple[Layer, ...]:
    """Each bank with how many layers use it."""
    count = fields.integer("num_blocks", high=MOST_LAYERS)
    banks = []
    for index in range(count):
        bank = builder.single(f"meta_mlp.{index}.")
        width = fields.integer("moe_intermediate_size")
        experts = fields.integer("num_experts", high=MOST_EXPERTS)
        top_k = fields.integer(*TOP_K, high=MOST_EXPERTS)
        bank.linear("gate", body.sizes.hidden, experts, "none", quantizable=False)
        bank.experts(body.sizes.hidden, width, experts, top_k, name="experts")
        bank.passes = len(range(index, body.sizes.layers, count))
        banks.append(bank.layer())
    return tuple(banks)


def _drafts(body: Body, fields: Fields, builder: Builder) -> tuple[Layer, ...]:
    """Layers that predict further tokens: Qwen3.5's, each with experts of its own."""
    count = fields.integer("mtp_num_hidden_layers", default=0, low=0, high=MOST_LAYERS)
    hidden = body.sizes.hidden
    joint, layer = builder.single("mtp."), builder.single("mtp.")
    joint.linear("fc", 2 * hidden, hidden, "none", quantizable=False)
    joint.norm(hidden, 3)
    spec = QWEN_NEXT._replace(moe=QWEN_MOE)
    context = LayerContext(spec, fields, body.sizes, 0, 0, True, 0, 0, False, layer)
    attention(context)
    feed_forward(context)
    layer.norm(hidden, 2)
    return (joint.layer(), layer.layer()) * count


ROWS = {
    "InternS2MobiusForCausalLM": QWEN_NEXT._replace(
        feed_forward=_shared_expert, intermediate=("moe_intermediate_size",), moe=None,
        norms=lambda fields: 4 if fields.flag("layer_scale") else 2, finish=_banks_and_drafts,
    ),
}  # fmt: skip
