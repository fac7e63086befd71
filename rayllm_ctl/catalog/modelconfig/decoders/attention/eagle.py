"""Heads of EAGLE 3: a few decoder layers that guess ahead from the hidden states of another model.

Read from vllm/model_executor/models/llama_eagle3.py (0.29).
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import Body
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder
from rayllm_ctl.catalog.modelconfig.decoders.dense import LLAMA, QWEN3
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Layer, Vector

_STATES = 3
"""Layers of the other model whose states are joined, where the config does not list them."""


def _joined(body: Body, fields: Fields, builder: Builder) -> Body:
    """`body` with what joins it to the model: its first layer reads the token's embedding and the joined states.

    The embedding is the model's own, so the only table is the output head over the draft vocabulary: tied, by its size.
    """
    eagle, hidden = fields.child("eagle_config"), body.sizes.hidden
    joint = builder.single()
    if eagle.flag("use_aux_hidden_state", default=True):
        listed = eagle.integers("eagle_aux_hidden_state_layer_ids")
        states = fields.integer("num_aux_hidden_states", default=len(listed) or _STATES, high=MOST_LAYERS)
        inputs = states * fields.integer("target_hidden_size", default=hidden)
        joint.linear("fc", inputs, hidden, "none")
        if eagle.flag("norm_before_fc", default=fields.flag("norm_before_fc")):
            joint.norm(inputs)
        if fields.flag("fc_norm"):
            joint.norm(inputs)
    first, *others = (_with_norm(layer, hidden) for layer in body.layers)
    return body._replace(
        layers=(_doubled(first), *others),
        sizes=body.sizes._replace(vocab=fields.integer("draft_vocab_size", default=body.sizes.vocab)),
        tied=True,
        extra=(*body.extra, joint.layer()),
    )


def _with_norm(layer: Layer, hidden: int) -> Layer:
    """`layer` with the norm of the states that it is handed."""
    return replace(layer, vectors=(*layer.vectors, Vector(hidden)))


def _doubled(layer: Layer) -> Layer:
    """`layer` with queries, keys and values of the embedding and the states side by side."""
    fused, *others = layer.linears
    return replace(layer, linears=(replace(fused, inputs=2 * fused.inputs), *others))


_EAGLE3 = LLAMA._replace(finish=_joined)

ROWS = {
    **dict.fromkeys(
        ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM"),
        _EAGLE3,
    ),
    "Eagle3Qwen3ForCausalLM": QWEN3._replace(finish=_joined),
}
