"""Names in the catalog, without what is known of them."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.catalog import engines, gpus, models


def model_names() -> Sequence[str]:
    """The models that can be planned offline."""
    return models.names()


def gpu_names() -> Sequence[str]:
    """The kinds of GPU."""
    return tuple(gpus.load_gpus())


def vllm_versions() -> Sequence[str]:
    """The releases of vLLM whose facts are known, newest first."""
    return tuple(reversed(engines.engine_versions()))
