"""The rendered examples in manifests/, byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rayllm_ctl.model.plan import Plan
from rayllm_ctl.model.service import LLMService
from rayllm_ctl.render import dump, render
from rayllm_ctl.specfile import load_file
from tests.conftest import Golden
from tests.render.plans import A100, H100, L4, RTX_4090, plan, tiny

MANIFESTS = Path(__file__).parents[2] / "manifests"

PLANS: dict[str, Callable[[LLMService], Plan]] = {
    "tiny-cpu": tiny,
    "qwen3-32b": lambda service: plan(service, H100, tensor=4, max_model_len=40960),
    "llama-70b": lambda service: plan(service, A100, tensor=4, pipeline=2, wait_seconds=5400),
    "qwen3-8b-fixed": lambda service: plan(service, L4, quantization="fp8", kv_cache_dtype="fp8"),
    "private-model": lambda service: plan(service, RTX_4090),
    "scale-to-zero": lambda service: plan(service, L4),
}


@pytest.mark.parametrize("name", PLANS)
def test_example(name: str, request: pytest.FixtureRequest) -> None:
    service = load_file(MANIFESTS / name / "llmservice.yaml")
    text = dump(render(service, PLANS[name](service)))
    Golden(MANIFESTS / name, request.config.getoption("--update")).check("rayservice.yaml", text)


def test_every_example_is_tested() -> None:
    assert {path.parent.name for path in MANIFESTS.glob("*/llmservice.yaml")} == set(PLANS)
