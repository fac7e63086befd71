"""Which Ray, vLLM and image belong together, and what a user may combine."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rayllm_ctl.catalog import engines
from rayllm_ctl.catalog.releases import DEFAULT, RELEASES, require_release, resolve_release
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan.deployment import Runtime
from rayllm_ctl.model.spec.checks.ray_features import (
    BATCH,
    INGRESS,
    OLDEST_RAY,
    ONE_MODEL,
    TRANSFORMERS,
    needed_features,
)
from rayllm_ctl.model.spec.gateway import Gateway
from rayllm_ctl.model.spec.service import Adapter, Engine, LLMService, Model
from rayllm_ctl.model.spec.several_models import has_ingress

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
PLANNING = Path(__file__).parents[2] / "docs" / "concepts" / "planning.md"
PUBLIC = "rayproject/ray-llm:2.58.0-py312-cu130"


def test_every_release_is_one_that_can_be_planned_and_rendered() -> None:
    for release in RELEASES:
        assert engines.engine(release.vllm).version == release.vllm
        assert tuple(int(part) for part in release.ray.split(".")[:2]) >= OLDEST_RAY
    assert len({release.ray for release in RELEASES}) == len({release.vllm for release in RELEASES}) == len(RELEASES)


@pytest.mark.parametrize(
    ("engine", "runtime"),
    [
        (Engine(), Runtime(DEFAULT.ray, DEFAULT.vllm, DEFAULT.image, "tag not verified", public=True)),
        (Engine(vllm_version="0.26.0"), Runtime("2.58.0", "0.26.0", PUBLIC, public=True)),
        (Engine(vllm_version="v0.26"), Runtime("2.58.0", "0.26.0", PUBLIC, public=True)),
        (Engine(ray_version="2.58"), Runtime("2.58.0", "0.26.0", PUBLIC, public=True)),
        (Engine(ray_version="2.58.0", vllm_version="0.26.0"), Runtime("2.58.0", "0.26.0", PUBLIC, public=True)),
        (Engine(image=PUBLIC), Runtime("2.58.0", "0.26.0", PUBLIC, public=True)),
        (
            Engine(image="mirror:5000/rayproject/ray-llm:2.58.0-py311-cu128"),
            Runtime("2.58.0", "0.26.0", "mirror:5000/rayproject/ray-llm:2.58.0-py311-cu128", public=True),
        ),
        (
            Engine(image="mirror:5000/rayproject/ray-llm:2.58.0-py311-cu128-gateway"),
            Runtime("2.58.0", "0.26.0", "mirror:5000/rayproject/ray-llm:2.58.0-py311-cu128-gateway"),
        ),
        (
            Engine(image="rayproject/ray-llm:2.58.1-py312-cu130"),
            Runtime("2.58.1", "0.26.0", "rayproject/ray-llm:2.58.1-py312-cu130", "", ("vLLM 0.26.0",)),
        ),
        (
            Engine(vllm_version="0.32.0"),
            Runtime(DEFAULT.ray, "0.32.0", None, "vLLM 0.32.0 has no known image", (f"Ray {DEFAULT.ray}",)),
        ),
        (
            Engine(ray_version="2.61.0"),
            Runtime("2.61.0", DEFAULT.vllm, None, "Ray 2.61.0 has no known image", (f"vLLM {DEFAULT.vllm}",)),
        ),
        (
            Engine(image="r/own:1"),
            Runtime(DEFAULT.ray, DEFAULT.vllm, "r/own:1", "", (f"Ray {DEFAULT.ray}", f"vLLM {DEFAULT.vllm}")),
        ),
        (
            Engine(image="r/ray-llm-gateway:2.58.0"),
            Runtime("2.58.0", "0.26.0", "r/ray-llm-gateway:2.58.0", "", ("vLLM 0.26.0",)),
        ),
        (
            Engine(image="vllm/vllm-openai:v0.27.0"),
            Runtime("2.59.0", "0.27.0", "vllm/vllm-openai:v0.27.0", "", ("Ray 2.59.0",)),
        ),
        (
            Engine(image="r/serving:ray2.61.0-vllm0.32.0"),
            Runtime("2.61.0", "0.32.0", "r/serving:ray2.61.0-vllm0.32.0"),
        ),
        (Engine(image="r/own:1", vllm_version="0.27.0"), Runtime("2.59.0", "0.27.0", "r/own:1", "", ("Ray 2.59.0",))),
        (Engine(image="r/own:1", ray_version="2.60.0", vllm_version="0.32.0"), Runtime("2.60.0", "0.32.0", "r/own:1")),
    ],
)
def test_what_is_not_stated_comes_from_the_release(engine: Engine, runtime: Runtime) -> None:
    assert resolve_release(engine) == runtime


@pytest.mark.parametrize(
    ("engine", "message", "hint"),
    [
        (
            Engine(ray_version="2.60.0", vllm_version="0.32.0"),
            "no known image contains Ray 2.60.0 and vLLM 0.32.0: Ray 2.60.0 comes with vLLM 0.29.0",
            "--vllm-version 0.29.0",
        ),
        (
            Engine(ray_version="2.61.0", vllm_version="0.29.0"),
            "Ray 2.60.0 comes with vLLM 0.29.0",
            "rayVersion: 2.60.0",
        ),
        (Engine(image=PUBLIC, vllm_version="0.29.0"), "contains vLLM 0.26.0, not vLLM 0.29.0", "leave out"),
        (Engine(image=PUBLIC, ray_version="2.60.0"), "contains Ray 2.58.0, not Ray 2.60.0", "leave out"),
        (
            Engine(image="rayproject/ray-llm:2.58.1-py312-cu130", ray_version="2.60.0"),
            "contains Ray 2.58.1, not Ray 2.60.0",
            "leave out",
        ),
        (
            Engine(image="vllm/vllm-openai:v0.19.0", vllm_version="0.29.0"),
            "contains vLLM 0.19.0, not vLLM 0.29.0",
            "leave out",
        ),
        (
            Engine(image="r/ray-llm-gateway:2.52.0"),
            "image r/ray-llm-gateway:2.52.0 contains Ray 2.52.0, which is not supported",
            f"--image {DEFAULT.image}",
        ),
        (
            Engine(image="r/own:1", ray_version="2.40.0"),
            "spec.engine.rayVersion is 2.40.0, which is not supported (requires 2.56 or newer)",
            f"spec.engine.rayVersion: {DEFAULT.ray}",
        ),
        (
            Engine(image="rayproject/ray-llm:2.55.1-py312-cu130"),
            "contains Ray 2.55.1, which is not supported (requires 2.56 or newer)",
            f"--image {DEFAULT.image}",
        ),
    ],
)
def test_contradictions_are_rejected(engine: Engine, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_release(engine)
    assert message in caught.value.message
    assert hint in "\n".join(caught.value.hints)


@pytest.mark.parametrize(
    ("engine", "source", "hint"),
    [
        (Engine(ray_version="2.58.0"), "spec.engine.rayVersion is 2.58.0", "spec.engine.rayVersion: 2.60.0"),
        (Engine(image=PUBLIC), f"image {PUBLIC} contains Ray 2.58.0", f"--image {DEFAULT.image}"),
        (Engine(vllm_version="0.26.0"), "vLLM 0.26.0 comes with Ray 2.58.0", "--vllm-version 0.29.0"),
        (
            Engine(image="r/own:1", vllm_version="0.26.0"),
            "vLLM 0.26.0 comes with Ray 2.58.0",
            "spec.engine.rayVersion: the version of Ray in r/own:1",
        ),
    ],
)
def test_a_feature_that_ray_is_too_old_for_is_rejected(engine: Engine, source: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_release([("spec.gateway", INGRESS)], resolve_release(engine), engine)
    assert caught.value.message == (
        f"{source}, and spec.gateway requires Ray 2.59 or newer: "
        "Ray 2.58.0 has no ray.llm._internal.common.errors.VLLM_CLIENT_ERRORS"
    )
    assert hint in caught.value.hints[0]


@pytest.mark.parametrize("version", ["2.59.0", "2.60.0", "2.59", "2.61.0"])
def test_a_feature_is_accepted_from_its_release_on(version: str) -> None:
    engine = Engine(ray_version=version)
    runtime = resolve_release(engine)
    assert runtime.ray_version.startswith(version)
    require_release([("spec.gateway", INGRESS)], runtime, engine)  # raises nothing


def test_the_documented_features_require_the_releases_of_the_table() -> None:
    text = PLANNING.read_text(encoding="utf-8")
    rows = {"one model": ONE_MODEL, "batch jobs": BATCH, "`spec.gateway`": INGRESS, "engine kind": TRANSFORMERS}
    for words, feature in rows.items():
        (row,) = (line for line in text.splitlines() if line.startswith("|") and words in line)
        assert row.endswith(f"| {'.'.join(map(str, feature.least))} or newer |")


@pytest.mark.parametrize(
    ("service", "names"),
    [
        (LLMService("qwen", Model("Qwen/Qwen3-32B")), []),
        (LLMService("qwen", Model("Qwen/Qwen3-32B"), gateway=Gateway()), ["spec.gateway"]),
        (
            LLMService("qwen", Model("Qwen/Qwen3-32B", adapters=(Adapter("legal", "/legal"),))),
            ["spec.model.adapters"],
        ),
        (
            LLMService("qwen", Model("Qwen/Qwen3-32B"), engine=Engine(kind="transformers")),
            ["engine kind transformers"],
        ),
    ],
)
def test_what_a_service_uses_beside_one_model(service: LLMService, names: list[str]) -> None:
    assert [name for name, _ in needed_features(service)] == names
    assert has_ingress(service) == bool(names)


def test_the_documented_table_is_the_catalogs() -> None:
    text = PLANNING.read_text(encoding="utf-8")
    for release in RELEASES:
        name = f"{release.ray} (default)" if release is DEFAULT else release.ray
        seen = "yes" if release.verified else "no"
        assert f"| {name} | {release.vllm} | `{release.image}` | {seen} |" in text


def test_the_extra_for_the_pods_has_their_versions() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    pinned = [line.partition(";")[0] for line in project["optional-dependencies"]["serving"] if "==" in line]
    assert pinned == [f"ray[llm]=={DEFAULT.ray}", f"vllm=={DEFAULT.vllm}"]
