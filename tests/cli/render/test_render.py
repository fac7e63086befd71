"""`render` as a user runs it: which versions and image it writes, and that it says what the plan says."""

from __future__ import annotations

import json

import pytest
import yaml

from rayllm_ctl.cli import app

QWEN = ("--offline", "--model", "Qwen/Qwen3-8B", "--gpu", "L4")
TINY = ("--offline", "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--image", "r/i:1")


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = app.run(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_image_contains_the_version_that_was_planned(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "render", *QWEN, "--vllm-version", "0.26.0")
    cluster = yaml.safe_load(out)["spec"]["rayClusterConfig"]
    assert (code, cluster["rayVersion"]) == (0, "2.58.0")
    assert "image: rayproject/ray-llm:2.58.0-py312-cu130" in out
    assert "app.kubernetes.io/version: '0.26.0'" in out


def test_a_version_without_a_known_image_asks_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "render", *QWEN, "--vllm-version", "0.32.0")
    assert (code, out) == (2, "")
    assert "vLLM 0.32.0 has no known image" in err
    assert "--image REGISTRY/IMAGE:TAG" in err
    code, out, _ = run(capsys, "plan", *QWEN, "--vllm-version", "0.32.0")
    assert code == 0
    assert "deploy requires --image" in out
    code, out, _ = run(capsys, "render", *QWEN, "--vllm-version", "0.32.0", "--image", "r/own:1")
    assert (code, out.count("image: r/own:1")) == (0, 2)


def test_what_is_assumed_or_unverified_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "plan", *QWEN)
    assert "rayproject/ray-llm:2.60.0-py312-cu130 (tag not verified)" in out
    _, out, _ = run(capsys, "plan", *QWEN, "--image", "r/own:1")
    assert "Ray 2.60.0 and vLLM 0.29.0 assumed" in out


@pytest.mark.parametrize(
    "size",
    [
        ("--env", "VLLM_CPU_KVCACHE_SPACE=2"),
        ("--engine-arg", "kv_cache_memory_bytes=536870912"),
        ("--engine-arg", "kv_cache_memory_bytes=2147483648", "--env", "VLLM_CPU_KVCACHE_SPACE=2"),
    ],
)
def test_the_manifest_has_the_engine_arguments_of_the_plan(
    size: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    _, planned, _ = run(capsys, "plan", *TINY, *size, "-o", "json")
    _, rendered, _ = run(capsys, "render", *TINY, *size)
    [application] = yaml.safe_load(yaml.safe_load(rendered)["spec"]["serveConfigV2"])["applications"]
    arguments = application["args"]["llm_configs"][0]["engine_kwargs"]
    args = json.loads(planned)["engine"]["args"]
    assert args["kv_cache_memory_bytes"] == arguments["kv_cache_memory_bytes"]


def test_two_sizes_of_the_kv_cache_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--env", "VLLM_CPU_KVCACHE_SPACE=2", "--engine-arg", "kv_cache_memory_bytes=536870912")
    code, out, err = run(capsys, "render", *TINY, *both)
    assert (code, out) == (1, "")
    assert "VLLM_CPU_KVCACHE_SPACE=2 (2147483648 bytes) contradicts kv_cache_memory_bytes=536870912" in err
