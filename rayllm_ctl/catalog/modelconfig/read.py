"""read_config (config.json -> ModelFacts) and compact (config.json -> the fields that matter)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.catalog.modelconfig.body import Body
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import read_decoder
from rayllm_ctl.catalog.modelconfig.decoders.registry import DecoderRow, known_architectures, row_of
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec
from rayllm_ctl.catalog.modelconfig.defaults import TEXT_DEFAULTS
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.multimodal import encoders, known_multimodal, text_part
from rayllm_ctl.catalog.modelconfig.quantization import read_quantization
from rayllm_ctl.catalog.modelconfig.rope import max_model_len
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.plan.facts import AttentionCache, LatentCache, Layer, ModelFacts, StateCache
from rayllm_ctl.model.text.problems import quoted

_SIDE = "hf_quant_config"
"""The key under which a compact form carries hf_quant_config.json."""

_NESTED = {"DbrxForCausalLM": ("attn_config", "ffn_config"), "MPTForCausalLM": ("attn_config",)}
"""Architectures that nest what the others keep at the top."""

_DTYPES = ("bfloat16", "float16", "float32")


def read_config(config: Mapping[str, Any], *, hf_quant_config: Mapping[str, Any] | None = None) -> ModelFacts:
    """The facts of a config.json.

    `hf_quant_config`: the file of that name beside it, where there is one. UsageError names a field that is missing or
    wrong; UserError an architecture or quantization method that vLLM does not have or that cannot be planned.
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


def _read(config: Fields, side: Mapping[str, Any] | None) -> ModelFacts:
    if side is None and config.has(_SIDE):
        side = config.child(_SIDE).entries()
    name = _architecture(config)
    text_name, text = text_part(name, config)
    row = _row(text_name, name)
    text = text.merged(*_NESTED.get(text_name, ()))
    text_type = text.text("model_type", default=config.text("model_type"))
    text = text.with_defaults({**TEXT_DEFAULTS.get(text_type, {}), **_inherited(config)})
    quantizer = read_quantization(config, side)
    builder = Builder(quantizer)
    body = read_decoder(row if isinstance(row, DecoderSpec) else row(text), text, builder)
    sizes = body.sizes
    found = encoders(name, config, sizes.hidden, builder)
    model_type = config.text("model_type", default=text_type)
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
        max_model_len=max_model_len(text, model_type),
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
        traits=_traits(body, multimodal=bool(found)),
    )


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


def _traits(body: Body, *, multimodal: bool) -> frozenset[str]:
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
        "multimodal": multimodal,
    }
    return frozenset(word for word, holds in found.items() if holds)


def _inherited(config: Fields) -> dict[str, Any]:
    """What a nested text config takes from the file's top level."""
    return {name: value for name in ("tie_word_embeddings",) if (value := config.raw(name)) is not None}


def _architecture(config: Fields) -> str:
    names = config.texts("architectures", longest=16)
    if not names:
        names = (_BY_TYPE.get(config.text("model_type"), ""),)
    if not names[0]:
        raise config.missing("architectures")
    return names[0]


_BY_TYPE = {"deepseek_vl_v2": "DeepseekVLV2ForCausalLM", "gpt_oss": "GptOssForCausalLM"}
"""For the few checkpoints whose config names a type but no architecture (vLLM has the same exceptions)."""


def _row(text_name: str, name: str) -> DecoderRow:
    row = row_of(text_name)
    if row is None:
        close = nearest(name, known_architectures() + known_multimodal())
        raise UserError(
            f"unknown architecture {quoted(name[:80])}: its tensors and caches are not known here"
            + (f" (as text model {quoted(text_name[:80])})" if text_name != name else ""),
            hint=(
                f"The nearest known one is {close}." if close else "vLLM may run it through its Transformers backend."
            ),
        )
    return row


def checkpoint_dtype(config: Fields, text: Fields) -> str:
    """The data type of the weights; empty if the config states none."""
    for fields in (config, text):
        name = fields.text("dtype", "torch_dtype").removeprefix("torch.")
        if name:
            return name if name in _DTYPES else "bfloat16"
    return ""
