"""What `plan` shows of the ways to the weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rayllm_ctl.cli import app

QWEN = ("plan", "--offline", "--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--tp", "4")
SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: qwen}
spec:
  model: {id: Qwen/Qwen3-32B}
  accelerator: {gpu: H100-80GB}
  parallelism: {tensor: 4}
  replicas: {min: 2, max: 4}
  storage:
"""
MIRROR = "    model: {mirror: {to: {claim: {name: weights}}}}\n"
COMPILE = "    caches: {compile: graphs, startupPlan: true}\n"


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert app.run(list(args)) == 0
    return " ".join(capsys.readouterr().out.split())


def planned(capsys: pytest.CaptureFixture[str], folder: Path, storage: str, *args: str) -> str:
    (folder / "qwen.yaml").write_text(SPEC + storage)
    return printed(capsys, "plan", "--offline", "-f", str(folder / "qwen.yaml"), *args)


def test_several_replicas_are_recommended_one_download(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, *QWEN, "--replicas", "4")
    assert "weights 4 replicas download 244 GiB; with --mirror claim/NAME they download 61 GiB once" in text
    assert "bucket-stream" not in text


@pytest.mark.parametrize("flag", [("-o", "wide"), ("--explain",)])
def test_the_table_has_every_way(capsys: pytest.CaptureFixture[str], flag: tuple[str, ...]) -> None:
    text = printed(capsys, *QWEN, "--replicas", "4", *flag)
    assert "bytes read by 4 replicas (* chosen, + recommended)" in text
    assert "* hub 4 min 4 min 244 GiB - the Hub at each start" in text
    assert "+ claim 5 min 3 min 61 GiB 244 GiB RWX claim" in text
    assert "image 18 min 18 min - 244 GiB model image, Kubernetes 1.35" in text


def test_small_models_have_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    small = ("plan", "--offline", "--model", "Qwen/Qwen3-0.6B", "--gpu", "L4", "--replicas", "2")
    assert "weights " not in printed(capsys, *small).partition("holds")[2]
    assert "each start" in printed(capsys, *small, "-o", "wide")


def test_a_mirror_loads_from_the_claim_after_its_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = planned(capsys, tmp_path, MIRROR)
    assert "weights 61 GiB downloaded once by a Job in about 2 min, read from the claim by each pod" in text
    assert "after the download of about 2 min" in text
    data = json.loads(planned(capsys, tmp_path, MIRROR, "-o", "json"))
    start, storage = data["startup"], data["storage"]
    assert (start["way"], start["downloadSeconds"]["high"]) == ("claim", 0)
    assert start["modelDownloadSeconds"]["typical"] == pytest.approx(131, rel=0.01)
    assert (storage["way"], storage["recommended"], storage["replicas"]) == ("claim", "claim", 4)
    assert storage["filesBytes"] == pytest.approx(65.5e9, rel=0.01)
    assert len(storage["ways"]) == 7


def test_a_compile_cache_is_seen_in_later_replicas(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "later replicas about" not in planned(capsys, tmp_path, MIRROR)
    assert "later replicas about 2 min" in planned(capsys, tmp_path, MIRROR + COMPILE)


def test_a_folder_of_the_pods_needs_no_way(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, *QWEN, "--model-path", "/models/qwen", "--replicas", "4", "-o", "json"))
    assert (data["startup"]["way"], data["storage"]["ways"]) == ("path", [])
    assert "recommended" in data["storage"]
    assert "--mirror" not in printed(capsys, *QWEN, "--model-path", "/models/qwen", "--replicas", "4")
