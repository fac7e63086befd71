"""Models and GPUs of the catalog, as a list or one in full."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.catalog import gpus, models
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.catalog.prices import read_prices
from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.plan.catalog import ModelDetails, ModelSummary
from rayllm_ctl.model.plan.facts import AttentionCache, Cache, Layer
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.problems import quoted

if TYPE_CHECKING:
    from rayllm_ctl.catalog.models import CatalogModel


def list_models(text: str = "") -> list[ModelSummary]:
    """The models whose name or architecture contains `text`, case-insensitively; all if it is empty. By name first."""
    wanted = text.lower()
    every = map(_summary, models.models())
    summaries = [one for one in every if wanted in one.id.lower() or wanted in one.architecture.lower()]
    return sorted(summaries, key=lambda summary: wanted not in summary.id.lower())


def show_model(name: str) -> ModelDetails | None:
    """The model of that name, case-insensitively; None if there is none."""
    model = models.find_model(name)
    if model is None:
        return None
    facts = read_config(model.config)
    experts = next((layer.experts[0] for layer in facts.all_layers() if layer.experts), None)
    return ModelDetails(
        summary=_summary(model),
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


def check_hardware_and_release(service: LLMService) -> None:
    """Raise UsageError if the GPU and the node selector of a service, or its releases and its image, contradict each
    other."""
    resolve_release(service.engine)
    named = service.accelerator.gpu
    selected = gpus.find_gpu(named) if named is not None else None
    gpus.selected(service.scheduling.node_selector, selected, gpus.load_gpus())


def is_gpu(name: str) -> bool:
    """Whether `name` names one GPU, by its own name or an alias."""
    try:
        gpus.canonical(name)
    except UsageError:
        return False
    return True


def _summary(model: CatalogModel) -> ModelSummary:
    stored = model.summary
    return ModelSummary(
        id=model.id,
        architecture=stored["architecture"],
        parameters=stored["parameters"],
        active_parameters=stored["activeParameters"],
        context_length=stored["contextLength"],
        weights=stored["weights"],
        weight_bits=stored["weightBits"],
        kinds=tuple(stored["kinds"]),
        same_as=model.same_as,
        source=model.source,
    )


def _cache_words(layer: Layer) -> str:
    return " + ".join(sorted({_cache_word(cache) for cache in layer.caches})) or "no cache"


def _cache_word(cache: Cache) -> str:
    if isinstance(cache, AttentionCache):
        if cache.chunk:
            return f"attention in chunks of {cache.chunk:,}"
        return f"attention to the last {cache.window:,}" if cache.window else "full attention"
    return cache.kind
