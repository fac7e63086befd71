"""read_config (config.json -> ModelFacts) and compact (config.json -> the fields that matter)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rayllm_ctl.catalog.modelconfig.body import Body
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import read_decoder
from rayllm_ctl.catalog.modelconfig.decoders.registry import DecoderRow, known_architectures, row_by_fields, row_of
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec
from rayllm_ctl.catalog.modelconfig.defaults import TEXT_DEFAULTS
from rayllm_ctl.catalog.modelconfig.encoders.registry import ENCODERS
from rayllm_ctl.catalog.modelconfig.fields import Fields, MissingField
from rayllm_ctl.catalog.modelconfig.multimodal import (
    WITHIN,
    encoders,
    known_multimodal,
    text_part,
    unlisted_encoders,
    unlisted_text,
)
from rayllm_ctl.catalog.modelconfig.quantization import read_quantization
from rayllm_ctl.catalog.modelconfig.rope import max_model_len
from rayllm_ctl.model.kube.names import similar
from rayllm_ctl.model.plan.facts import (
    AttentionCache,
    LatentCache,
    Layer,
    ModelFacts,
    MultiModalEncoder,
    StateCache,
)
from rayllm_ctl.model.text.problems import quoted

_SIDE = "hf_quant_config"
"""The key under which a compact form carries hf_quant_config.json."""

_NESTED = {"DbrxForCausalLM": ("attn_config", "ffn_config"), "MPTForCausalLM": ("attn_config",)}
"""Architectures that nest what the others keep at the top."""

_USUAL_PARTS = ("attn_config", "ffn_config", "moe_config", "moe", "attention_config")
"""Objects in which configs of other architectures may do so."""

_SIMILAR = 0.9
"""How similar a name must be to a known one to be named beside it."""

_DTYPES = ("bfloat16", "float16", "float32")


def read_config(config: Mapping[str, Any], *, hf_quant_config: Mapping[str, Any] | None = None) -> ModelFacts:
    """The facts of a config.json.

    `hf_quant_config`: the file of that name beside it, where there is one. UsageError names a field that is missing or
    wrong; UserError a quantization method that vLLM does not have or that cannot be planned. An architecture that is
    not known here is read by the fields that most configs share (trait "generic").
    """
    return _read(Fields(config), hf_quant_config)


def compact(config: Mapping[str, Any], *, hf_quant_config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a config.json that the facts come from: read_config(compact(c)) == read_config(c)."""
    fields = Fields(config)
    _read(fields, hf_quant_config)
    used = dict(fields.used)
    if hf_quant_config:
        used[_SIDE] = dict(hf_quant_config)
    return used


class _Decoder(NamedTuple):
    """A decoder, its part of the config, what was taken for granted of it, and whether it has no row."""

    body: Body
    text: Fields
    assumed: tuple[str, ...] = ()
    by_fields: bool = False


def _read(config: Fields, side: Mapping[str, Any] | None) -> ModelFacts:
    if side is None and config.has(_SIDE):
        side = config.child(_SIDE).entries()
    name = _architecture(config)
    quantizer = read_quantization(config, side)
    builder = Builder(quantizer)
    body, text, assumed, by_fields = _decoder(name, config, builder)
    sizes = body.sizes
    if sizes.kv_heads and sizes.heads % sizes.kv_heads:
        raise text.wrong("num_key_value_heads", sizes.kv_heads, f"a divisor of the {sizes.heads} attention heads")
    found, doubts = _encoders(name, config, sizes.hidden, builder)
    model_type = config.text("model_type", default=text.text("model_type"))
    longest = max_model_len(text, model_type)
    unread = text.unread_sizes() if by_fields else []
    assumed += (*doubts, *((f"not read: {', '.join(unread)}",) if unread else ()))
    head = builder.single().scheme(("lm_head",)) if quantizer and quantizer.head else None
    return ModelFacts(
        architecture=name,
        model_type=model_type,
        dtype=checkpoint_dtype(config, text),
        hidden_size=sizes.hidden,
        intermediate_size=body.intermediate,
        vocab_size=sizes.vocab,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        max_model_len=longest,
        layers=body.layers,
        tied_embeddings=body.tied,
        whole_embedding=body.whole_embedding,
        head_bias=body.head_bias,
        head_float32=body.head_float32,
        head_scheme=head,
        extra=body.extra,
        shared=body.shared,
        rotary=body.rotary,
        encoders=found,
        draft_layers=body.draft_layers or _drafts(text, body, builder),
        token_buffers=body.token_buffers,
        streams=body.streams,
        single_stage=body.single_stage,
        quantization=quantizer.facts() if quantizer else None,
        traits=_traits(
            body,
            multimodal=bool(found),
            generic=bool(assumed),
            part=config.holds(WITHIN),
            **{"whole-images": bool(found) and _sees_whole_images(config, text)},
        ),
        assumed=assumed,
    )


def _decoder(name: str, config: Fields, builder: Builder) -> _Decoder:
    """By the row of the architecture; without one, or without a field that it needs, by the fields that most have."""
    try:
        known = _by_row(name, config, builder)
    except MissingField as lacking:
        why = f"{lacking.message}, by which the layers of {name} are known"
        try:
            return _by_fields(name, config, builder, why)
        except MissingField:
            raise lacking from None
    if known is not None:
        return known
    close = similar(name, known_architectures() + known_multimodal(), 1, _SIMILAR)
    return _by_fields(name, config, builder, _unknown(name) + (f" (the nearest known is {close[0]})" if close else ""))


def _by_row(name: str, config: Fields, builder: Builder) -> _Decoder | None:
    text_name, text = text_part(name, config)
    row = row_of(text_name)
    doubts: tuple[str, ...] = ()
    if row is None:
        text_name, text = unlisted_text(name, config)
        row, doubts = row_of(text_name), (f"{_unknown(name)} and are taken as those of {text_name}",)
    return None if row is None else _built(row, _NESTED.get(text_name, ()), text, config, builder, doubts)


def _by_fields(name: str, config: Fields, builder: Builder, why: str) -> _Decoder:
    _, text = unlisted_text(name, config)
    nested = tuple(part for part in _USUAL_PARTS if text.holds(part))
    found = _built(row_by_fields, nested, text, config, builder, (f"{why}: they are taken by the usual fields",))
    return found._replace(by_fields=True)


def _unknown(name: str) -> str:
    return f"the layers of {quoted(name[:80])} are not known here"


def _built(
    row: DecoderRow, nested: tuple[str, ...], text: Fields, config: Fields, builder: Builder, doubts: tuple[str, ...]
) -> _Decoder:
    text = text.merged(*nested)
    text_type = text.text("model_type", default=config.text("model_type"))
    text = text.with_defaults({**TEXT_DEFAULTS.get(text_type, {}), **_inherited(config)})
    return _Decoder(read_decoder(row if isinstance(row, DecoderSpec) else row(text), text, builder), text, doubts)


def _encoders(
    name: str, config: Fields, hidden: int, builder: Builder
) -> tuple[tuple[MultiModalEncoder, ...], tuple[str, ...]]:
    """The encoders, and what was taken for granted of them."""
    if name in ENCODERS or row_of(name) is not None:
        try:
            return encoders(name, config, hidden, builder), ()
        except MissingField as error:
            doubts = [f"{error.message}, by which an encoder of {name} is known"]
    else:
        doubts = []
    found, lacking = unlisted_encoders(config, hidden, builder)
    if found:
        doubts.append(f"encoders ({', '.join(one.modality for one in found)}) are taken as plain transformers")
    if lacking:
        doubts.append(f"what {' and '.join(lacking)} describes is not counted")
    return found, tuple(doubts)


def _drafts(text: Fields, body: Body, builder: Builder) -> tuple[Layer, ...]:
    """Layers that predict further tokens: each a decoder layer with attention and a projection of two hidden states."""
    count = text.integer("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", default=0, low=0)
    attending = [x for x in body.layers if any(not isinstance(cache, StateCache) for cache in x.caches)]
    if not count or not attending:
        return ()
    joint = builder.single("mtp.")
    joint.linear("eh_proj", 2 * body.sizes.hidden, body.sizes.hidden, "none", quantizable=False)
    joint.norm(body.sizes.hidden, 3)
    return (joint.layer(), attending[-1]) * min(count, MOST_LAYERS)


def _traits(body: Body, **others: bool) -> frozenset[str]:
    """The words that ModelFacts.traits may hold, by what the layers hold."""
    layers = {id(layer): layer for layer in (*body.layers, *body.shared)}.values()
    caches = [cache for layer in layers for cache in layer.caches]
    attention = [cache for cache in caches if isinstance(cache, AttentionCache)]
    latent = {cache.kind for cache in caches if isinstance(cache, LatentCache)}
    states = [cache for cache in caches if isinstance(cache, StateCache)]
    found = {
        "moe": any(layer.experts for layer in layers),
        "mla": not latent.isdisjoint({"mla", "window"}),
        "dsa": "indexer" in latent,
        "hybrid": bool(states) and len(states) < len(caches),
        "sliding": any(cache.window for cache in attention),
        "chunked": any(cache.chunk for cache in attention),
        "attention-free": bool(states) and len(states) == len(caches),
        **others,
    }
    return frozenset(word for word, holds in found.items() if holds)


_WHOLE_IMAGES = frozenset({"bagel", "gemma3", "molmo2", "moondream3", "paligemma"})


def _sees_whole_images(config: Fields, text: Fields) -> bool:
    """Whether the tokens of an image attend to one another in both directions, so that all are in one step (vLLM 0.29,
    transformers_utils/model_arch_config_convertor.py is_mm_prefix_lm)."""
    kind = config.text("model_type")
    if kind.startswith("gemma4"):
        return bool(text.raw("use_bidirectional_attention") == "vision")
    return kind in _WHOLE_IMAGES


def _inherited(config: Fields) -> dict[str, Any]:
    """What a nested text config takes from the file's top level."""
    return {name: value for name in ("tie_word_embeddings",) if (value := config.raw(name)) is not None}


def _architecture(config: Fields) -> str:
    names = config.texts("architectures", longest=16)
    if not names:
        names = (_BY_TYPE.get(config.text("model_type"), ""),)
    if not names[0]:
        raise config.missing("architectures")
    if not names[0].isidentifier():
        raise config.wrong("architectures", [names[0]], "a list of names of classes")
    return names[0]


_BY_TYPE = {"deepseek_vl_v2": "DeepseekVLV2ForCausalLM", "gpt_oss": "GptOssForCausalLM"}
"""For the few checkpoints whose config names a type but no architecture (vLLM has the same exceptions)."""


def checkpoint_dtype(config: Fields, text: Fields) -> str:
    """The data type of the weights; empty if the config states none."""
    for fields in (config, text):
        name = fields.text("dtype", "torch_dtype").removeprefix("torch.")
        if name:
            return name if name in _DTYPES else "bfloat16"
    return ""
