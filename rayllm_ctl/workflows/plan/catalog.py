"""Models and GPUs of the catalog, as a list or one in full."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.catalog import gpus, models
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.catalog.prices import read_prices
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.plan.catalog import ModelDetails, ModelSummary
from rayllm_ctl.model.plan.facts import AttentionCache, Cache, LatentCache, Layer, ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.text.problems import quoted

if TYPE_CHECKING:
    from rayllm_ctl.catalog.models import CatalogModel


def list_models(text: str = "") -> list[ModelSummary]:
    """The models whose name or architecture contains `text`, case-insensitively; all if it is empty. By name first."""
    wanted = text.lower()
    summaries = []
    for model in models.models():
        facts = _facts(model)
        if wanted in model.id.lower() or wanted in facts.architecture.lower():
            summaries.append(_summary(model, facts))
    return sorted(summaries, key=lambda summary: wanted not in summary.id.lower())


def show_model(name: str) -> ModelDetails | None:
    """The model of that name, case-insensitively; None if there is none."""
    model = models.find_model(name)
    if model is None:
        return None
    facts = _facts(model)
    experts = next((layer.experts[0] for layer in facts.all_layers() if layer.experts), None)
    return ModelDetails(
        summary=_summary(model, facts),
        layers=Counter(_cache_words(layer) for layer in facts.layers),
        heads=facts.heads,
        kv_heads=facts.kv_heads,
        head_dim=facts.head_dim,
        hidden_size=facts.hidden_size,
        vocab_size=facts.vocab_size,
        experts=experts.count if experts else 0,
        experts_per_token=experts.top_k if experts else 0,
        config=model.config,
    )


def unknown_model(name: str) -> UserError:
    """The error for a name, or part of a name, that matches no model."""
    near = models.nearest_models(name)
    meant = f"did you mean {' or '.join(near)}?" if near else "rayllm-ctl models    # lists all known models"
    hint = (meant, "plan and deploy take any model of the hub, and the config.json of any other")
    return UserError(f"the catalog has no model {quoted(name)}", hint=hint)


def list_gpus(text: str = "", prices: Path | None = None) -> list[GPU]:
    """The GPUs whose name, alias or architecture contains `text`, case-insensitively."""
    wanted = text.lower()
    known = gpus.load_gpus(read_prices(prices)).values()
    return [gpu for gpu in known if any(wanted in word.lower() for word in (gpu.name, gpu.architecture, *gpu.aliases))]


def show_gpu(name: str, prices: Path | None = None) -> GPU:
    """The GPU with the name or alias `name`. UsageError, with the nearest names, if there is none."""
    return gpus.find_gpu(name, read_prices(prices))


def is_gpu(name: str) -> bool:
    """Whether `name` names one GPU, by its own name or an alias."""
    try:
        gpus.canonical(name)
    except UsageError:
        return False
    return True


_FACTS: dict[str, ModelFacts] = {}
"""Cache of the catalog, which does not change while a command runs. Several names share a config."""


def _facts(model: CatalogModel) -> ModelFacts:
    key = model.same_as or model.id
    if key not in _FACTS:
        _FACTS[key] = read_config(model.config)
    return _FACTS[key]


def _summary(model: CatalogModel, facts: ModelFacts) -> ModelSummary:
    return ModelSummary(
        id=model.id,
        architecture=facts.architecture,
        parameters=facts.parameters,
        active_parameters=facts.active_parameters if facts.moe else facts.parameters,
        context_length=facts.max_model_len,
        weights=facts.quantization.description if facts.quantization else facts.dtype or "not stated",
        weight_bits=_bits(facts),
        kinds=_kinds(facts),
        same_as=model.same_as,
        source=model.source,
    )


def _bits(facts: ModelFacts) -> int:
    if facts.quantization is not None:
        return facts.quantization.weight_bits
    return 32 if facts.dtype == "float32" else 16


def _kinds(facts: ModelFacts) -> tuple[str, ...]:
    caches = [cache for layer in facts.layers for cache in layer.caches]
    attention = [cache for cache in caches if isinstance(cache, AttentionCache)]
    kinds = {
        "MoE": facts.moe,
        "MLA": any(isinstance(cache, LatentCache) for cache in caches),
        "sliding window": any(cache.window for cache in attention),
        "chunked": any(cache.chunk for cache in attention),
        "recurrent": any(not isinstance(cache, (AttentionCache, LatentCache)) for cache in caches),
        "multimodal": facts.multimodal,
    }
    return tuple(kind for kind, holds in kinds.items() if holds) or ("dense",)


def _cache_words(layer: Layer) -> str:
    return " + ".join(sorted({_cache_word(cache) for cache in layer.caches})) or "no cache"


def _cache_word(cache: Cache) -> str:
    if isinstance(cache, AttentionCache):
        if cache.chunk:
            return f"attention in chunks of {cache.chunk:,}"
        return f"attention to the last {cache.window:,}" if cache.window else "full attention"
    return cache.kind
