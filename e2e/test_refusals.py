"""Input that cannot work, clusters that cannot be used: one clear error each, its exit code, and nothing applied."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.harness import Bench
from e2e.oneprocess import OneProcess, one_process

pytestmark = pytest.mark.xdist_group("refusals")


@pytest.fixture(scope="module")
def commands(shared: Bench) -> Iterator[OneProcess]:
    with one_process(shared.target.environment) as made:
        yield made


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--tp", "0"], "tp"),
        (["--gpu", "H1000"], "H100"),
        (["--name", "a" * 48], "47"),
        (["--name", "Not_DNS"], "DNS-1035"),
        (["--dry-run", "maybe"], "maybe"),
        (["--max-model-len", "many"], "many"),
        (["--engine-arg", "max_num_seq=8"], "max_num_seqs"),
        (["--timeout", "5 minutes"], "5 minutes"),
    ],
)
def test_flags(shared: Bench, commands: OneProcess, flags: list[str], said: str) -> None:
    gpu = [] if "--gpu" in flags else ["--gpu", "H100-80GB"]
    args = ["deploy", "--model", "Qwen/Qwen3-8B", *gpu, "--offline", "-n", shared.namespace, *flags]
    result = commands.run(*args, code=None)
    assert result.code in (1, 2), str(result)
    assert said.lower() in result.err.lower(), str(result)
    assert "hint" in result.err, str(result)
    assert not shared.items("rayservices")


def test_tp_3_for_32_heads(shared: Bench, commands: OneProcess) -> None:
    result = commands.run("deploy", "--model", "Qwen/Qwen3-8B", "--gpu", "H100-80GB", "--tp", "3", "--offline",
                          "-n", shared.namespace, code=1)  # fmt: skip
    assert "32" in result.err
    assert "--tp" in result.err
    assert not shared.items("rayservices")


def test_a_spec_with_a_misspelled_and_a_duplicate_key(shared: Bench, commands: OneProcess, tmp_path: Path) -> None:
    head = (
        "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: x}\nspec:\n  model: {id: Qwen/Qwen3-8B}\n"
    )
    (tmp_path / "misspelled.yaml").write_text(head + "  engine:\n    maxModelLenght: 4096\n")
    result = commands.run("deploy", "-f", str(tmp_path / "misspelled.yaml"), "-n", shared.namespace, code=2)
    assert "misspelled.yaml:7" in result.err
    assert "maxModelLen" in result.err
    (tmp_path / "duplicate.yaml").write_text(head + "  model: {id: Qwen/Qwen3-4B}\n")
    result = commands.run("apply", "-f", str(tmp_path / "duplicate.yaml"), "-n", shared.namespace, code=2)
    assert "duplicate.yaml:6" in result.err
    assert not shared.items("rayservices")


def test_a_kubeconfig_that_is_missing(commands: OneProcess, tmp_path: Path) -> None:
    result = commands.run("status", "--kubeconfig", str(tmp_path / "none"), code=2)
    assert str(tmp_path / "none") in result.err


def test_a_cluster_that_does_not_answer(shared: Bench, commands: OneProcess, tmp_path: Path) -> None:
    config = yaml.safe_load(shared.target.kubeconfig.read_text())
    for entry in config["clusters"]:
        entry["cluster"]["server"] = "https://127.0.0.1:9"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    result = commands.run("status", "--kubeconfig", str(tmp_path / "config"), code=5)
    assert "127.0.0.1:9" in result.err


def test_check_says_what_a_service_lacks(shared: Bench, tmp_path: Path) -> None:
    token = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}}
    spec = {
        "apiVersion": "rayllm.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "lacking", "namespace": shared.namespace},
        "spec": {
            "model": {"id": "tiny", "path": "/models/tiny"},
            "engine": {"image": shared.target.image, "maxModelLen": 1024},
            "accelerator": {"kind": "cpu"},
            "pods": {"worker": {"env": [token]}},
        },
    }
    (tmp_path / "lacking.yaml").write_text(yaml.safe_dump(spec))
    found = shared.run("check", "-f", str(tmp_path / "lacking.yaml"), "--offline", "-o", "json", code=1).json()
    failed = [check["name"] for check in found["checks"] if check["ok"] is False]
    assert failed == ["Secret api"], found
    admitted = [check["name"] for check in found["checks"] if check["name"].startswith("admission of ") and check["ok"]]
    assert len(admitted) == 2, "the namespace enforces Pod Security restricted"
    assert not shared.items("pods")


def test_a_token_that_has_expired(shared: Bench, tmp_path: Path) -> None:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, {"exp": 10**9})]
    token = ".".join([*parts, "signature"])
    result = shared.with_token(token, tmp_path).run("status", "-n", shared.namespace, code=5)
    assert token not in result.err
    assert "rejected the credentials" in result.err
    assert "expired" in result.err, str(result)


def test_rights_that_are_lacking(shared: Bench, tmp_path: Path) -> None:
    shared.kubectl("create", "serviceaccount", "reader", "-n", shared.namespace)
    token = shared.kubectl("create", "token", "reader", "-n", shared.namespace).strip()
    result = shared.with_token(token, tmp_path).run(
        "deploy", "--model", "Qwen/Qwen3-8B", "--gpu", "H100-80GB", "--offline", "-n", shared.namespace, code=5
    )
    assert "rayservices" in result.err
    assert "kubectl auth can-i" in result.err
    assert token not in result.err
    assert not shared.items("rayservices")


def test_a_namespace_that_does_not_exist(commands: OneProcess) -> None:
    result = commands.run(
        "deploy", "--model", "Qwen/Qwen3-8B", "--gpu", "H100-80GB", "--offline", "-n", "nowhere", code=None
    )
    assert result.code != 0
    assert "kubectl create namespace nowhere" in result.err, str(result)
