"""The first release of Ray with which each feature runs.

tests/contract compares this table with the wheels of all releases in catalog/releases.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.spec.several_models import each_model


@dataclass(frozen=True)
class RayFeature:
    """The requirements of a feature on Ray.

    least: the first release that has it. lacking: a name that the release before does not have. loaded: the modules of
    rayllm_ctl.serving that Ray loads in the pods. rendered: names that stand in manifests.
    """

    least: tuple[int, int]
    lacking: str
    loaded: tuple[str, ...] = ()
    rendered: tuple[str, ...] = ()


ONE_MODEL: Final = RayFeature(
    least=(2, 56),
    lacking="ray.serve.llm.LLMConfig.accelerator_config",
    rendered=(
        "ray.serve.llm.build_openai_app",
        "ray.serve.llm.LLMConfig.accelerator_config",
        "ray.serve.llm.LLMConfig.accelerator_type",
        "ray.serve.llm.LLMConfig.deployment_config",
        "ray.serve.llm.LLMConfig.engine_kwargs",
        "ray.serve.llm.LLMConfig.model_loading_config",
        "ray.serve.llm.LLMConfig.placement_group_config",
    ),
)
"""A model of vLLM by itself, behind Ray's own ingress."""

BATCH: Final = RayFeature(
    least=(2, 56), lacking="ray.serve.llm.LLMConfig.accelerator_config", loaded=("batch.__main__",)
)
"""Batch jobs. Their plan is that of a service of the model."""

INGRESS: Final = RayFeature(
    least=(2, 59),
    lacking="ray.llm._internal.common.errors.VLLM_CLIENT_ERRORS",
    loaded=("ingress", "proxy", "model"),
    rendered=ONE_MODEL.rendered[1:],
)
"""What has our ingress in front of its models. Without that name it cannot tell errors of vLLM that a client caused."""

TRANSFORMERS: Final = RayFeature(
    least=INGRESS.least, lacking=INGRESS.lacking, loaded=("ingress", "proxy", "model", "transformers_engine")
)
"""The Transformers engine, whose models are always behind our ingress."""

FEATURES: Final = (ONE_MODEL, BATCH, INGRESS, TRANSFORMERS)

OLDEST_RAY: Final = min(feature.least for feature in FEATURES)


def needed_features(service: LLMService) -> Iterator[tuple[str, RayFeature]]:
    """The features that a service uses in addition to ONE_MODEL, each with the field that asks for it."""
    if any(alone.engine.kind == "transformers" for alone in each_model(service).values()):
        yield "engine kind transformers", TRANSFORMERS
    if service.gateway is not None:
        yield "spec.gateway", INGRESS
    if service.models:
        yield "spec.models", INGRESS
    if service.applications:
        yield "spec.applications", INGRESS
    if service.model.adapters:
        yield "spec.model.adapters", INGRESS
