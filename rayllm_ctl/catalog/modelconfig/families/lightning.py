"""MiniMax Text 01 and M1: lightning attention, every so many layers softmax attention, and experts.

Layout from vLLM's minimax_text_01.py (0.22, the last release that has it).
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, TOP_K, Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.mixers import linear_state
from rayllm_ctl.catalog.modelconfig.families.recurrent import hybrid_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import Part, Vector


def read_minimax_text(fields: Fields, builder: Builder) -> Body:
    """The body of MiniMax Text 01, MiniMax M1 and transformers' MiniMax. The output head is kept in float32."""
    sizes = read_sizes(fields)
    linear = _linear_layers(fields, sizes.layers)
    intermediate = fields.integer("intermediate_size")
    experts = [fields.integer_at(i, "num_local_experts", default=1) for i in range(sizes.layers)]
    if max(experts) > MOST_EXPERTS:
        raise fields.wrong("num_local_experts", max(experts), f"at most {MOST_EXPERTS}")

    def shared_width(index: int) -> int:
        listed = fields.raw("shared_intermediate_size")
        if isinstance(listed, list) and index >= len(listed):
            return 0
        return fields.integer_at(index, "shared_intermediate_size", default=0, low=0)

    def make(index: int, pieces: LayerBuilder) -> None:
        if linear[index]:
            _lightning(sizes, pieces)
        else:
            pieces.attention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
        if experts[index] == 1:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            pieces.experts(
                sizes.hidden,
                intermediate,
                experts[index],
                fields.integer(*TOP_K, high=MOST_EXPERTS),
                name="block_sparse_moe.experts",
                router="block_sparse_moe.gate",
                router_float32=True,
            )
        shared = shared_width(index)
        if shared:
            pieces.mlp(sizes.hidden, shared, prefix="shared_mlp.")
            pieces.linear("coefficient", sizes.hidden, 1, "none", quantizable=False, float32=True)
        pieces.norm(sizes.hidden, 2)

    body = hybrid_body(
        fields,
        builder,
        make,
        lambda index: (linear[index], experts[index], shared_width(index)),
        intermediate=intermediate,
        traits={"hybrid"} | ({"moe"} if max(experts) > 1 else set()),
        rotary=rotary_caches(fields, sizes.head_dim, float32=True) if not all(linear) else (),
    )
    return replace(body, tied=False, head_float32=True)


def _linear_layers(fields: Fields, count: int) -> list[bool]:
    """0 stands for lightning in MiniMax's own lists, "linear_attention" in transformers'; softmax where none is."""
    kinds = fields.integers("attn_type_list", "decoder_attention_types")
    if kinds:
        return [kinds[min(i, len(kinds) - 1)] == 0 for i in range(count)]
    words = fields.texts("layer_types")
    return [bool(words) and words[min(i, len(words) - 1)] == "linear_attention" for i in range(count)]


def _lightning(sizes: Sizes, pieces: LayerBuilder) -> None:
    heads = Part(sizes.heads, sizes.head_dim)
    pieces.linear("self_attn.qkv_proj", sizes.hidden, (heads, heads, heads))
    pieces.linear("self_attn.output_gate", sizes.hidden, (heads,))
    pieces.linear("self_attn.out_proj", heads.size, sizes.hidden, "row", input_units=sizes.heads)
    pieces.vectors.append(Vector(heads.size, sizes.heads))
    pieces.caches.append(linear_state(sizes.heads, sizes.head_dim))
