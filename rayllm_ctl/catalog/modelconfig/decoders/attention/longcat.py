"""LongCat Flash: two latent attentions and two dense blocks per layer around one MoE with idle experts.

LongCat Flash Lite adds embeddings of runs of tokens (longcat_flash_ngram.py of vLLM 0.29).
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, Body, Sizes
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder
from rayllm_ctl.catalog.modelconfig.decoders.latent import LATENT, body_sizes, latent_attention
from rayllm_ctl.catalog.modelconfig.decoders.spec import LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Vector


def _two_attentions(context: LayerContext) -> None:
    for half in ("0", "1"):
        latent_attention(context._replace(spec=context.spec._replace(attention=f"self_attn.{half}.")))


def _two_blocks_and_experts(context: LayerContext) -> None:
    fields, layer, hidden = context.fields, context.layer, context.sizes.hidden
    for half in ("0", "1"):
        layer.mlp(hidden, context.intermediate, prefix=f"mlps.{half}.")
    count = fields.integer("n_routed_experts", "num_experts", high=MOST_EXPERTS)
    scored = count + fields.integer("zero_expert_num", default=0, low=0, high=MOST_EXPERTS)
    layer.linear("mlp.router.classifier", hidden, scored, "none", quantizable=False, float32=True)
    layer.vectors.append(Vector(scored, float32=True))
    width = fields.integer("expert_ffn_hidden_size", "moe_intermediate_size")
    top_k = fields.integer("moe_topk", "num_experts_per_tok", default=1, high=MOST_EXPERTS)
    layer.experts(hidden, width, count, top_k)


def _ngram_sizes(fields: Fields) -> Sizes:
    """`num_layers` are vLLM's layers; num_hidden_layers counts their two halves."""
    return body_sizes(fields)._replace(layers=fields.integer("num_layers", "num_hidden_layers", high=MOST_LAYERS))


def _ngram_embeddings(body: Body, fields: Fields, builder: Builder) -> Body:
    ratio = fields.integer("ngram_vocab_size_ratio", default=0, low=0)
    if not ratio:
        return body
    longest = fields.integer("emb_neighbor_num", low=2, high=64)
    tables = fields.integer("emb_split_num", high=64) * (longest - 1)
    width = body.sizes.hidden // tables
    rows = tables * ratio * body.sizes.vocab + tables * tables
    table = builder.single("ngram_embeddings.")
    table.linear("oe_embedder", width, -(-rows // 64) * 64, quantizable=False)
    table.passes = 0
    ends = builder.single("ngram_embeddings.")
    ends.linear("oe_projection", tables * width, body.sizes.hidden, "none", quantizable=False)
    return body._replace(extra=(*body.extra, table.layer(), ends.layer()))


_LONGCAT = LATENT._replace(
    mixer=_two_attentions, feed_forward=_two_blocks_and_experts, intermediate=("ffn_hidden_size", "intermediate_size"),
    norms=4,
)  # fmt: skip

ROWS = {
    "LongcatFlashForCausalLM": _LONGCAT,
    "LongcatFlashNgramForCausalLM": _LONGCAT._replace(sizes=_ngram_sizes, finish=_ngram_embeddings),
}
