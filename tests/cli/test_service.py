"""A spec file with flags above it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cli import app
from rayllm_ctl.cli.service import resolve_service
from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.service import Replicas, Toleration, Volume

SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: qwen, namespace: llm}
spec:
  model: {id: Qwen/Qwen3-8B}
  engine: {maxModelLen: 8192, args: {max_loras: 2}}
  parallelism: {tensor: 2}
  replicas: {min: 1, max: 4}
  storage: {volumes: [{name: models, mountPath: /models, persistentVolumeClaim: {claimName: models}}]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "qwen.yaml"
    path.write_text(SPEC)
    return path


def test_flags_alone_make_a_service_named_after_its_model() -> None:
    service = resolve_service(None, {"model.id": "Qwen/Qwen3-32B", "parallelism.tensor": 4})
    assert (service.name, service.model.id, service.parallelism.tensor) == ("qwen3-32b", "Qwen/Qwen3-32B", 4)


def test_nothing_named_is_refused() -> None:
    with pytest.raises(UsageError, match="a model is required") as caught:
        resolve_service(None, {})
    assert caught.value.hints == ("rayllm-ctl deploy Qwen/Qwen3-32B", "rayllm-ctl deploy -f qwen.yaml")


def test_flags_go_above_the_file(spec: Path) -> None:
    service = resolve_service(spec, {"engine.max_model_len": 4096, "parallelism.pipeline": 2}, namespace="other")
    assert service.engine.max_model_len == 4096
    assert (service.parallelism.tensor, service.parallelism.pipeline) == (2, 2)
    assert (service.name, service.namespace) == ("qwen", "other")


def test_mappings_and_lists_extend_those_of_the_file(spec: Path) -> None:
    more = Volume(name="data", mount_path="/data", config_map="data")
    overrides = {
        "engine.args": (("max_loras", 4), ("seed", 1)),
        "storage.volumes": (more,),
        "scheduling.tolerations": (Toleration("gpu"),),
    }
    service = resolve_service(spec, overrides)
    assert service.engine.args == {"max_loras": 4, "seed": 1}
    assert [volume.name for volume in service.storage.volumes] == ["models", "data"]
    assert service.scheduling.tolerations == (Toleration("gpu"),)


@pytest.mark.parametrize(
    ("overrides", "bounds"),
    [
        ({}, (1, 4)),
        ({"replicas.fixed": 3}, (3, 3)),
        ({"replicas.min": 2}, (2, 4)),
        ({"replicas.min": 6}, (6, 6)),
        ({"replicas.max": 8}, (1, 8)),
        ({"replicas.max": 1}, (1, 1)),
        ({"replicas.min": 0, "replicas.max": 2}, (0, 2)),
    ],
)
def test_replicas(spec: Path, overrides: dict[str, Any], bounds: tuple[int, int]) -> None:
    replicas = resolve_service(spec, overrides).replicas
    assert (replicas.min, replicas.max) == bounds


def test_autoscaling_settings() -> None:
    overrides = {
        "model.id": "m",
        "replicas.max": 2,
        "replicas.upscale_delay": 2.0,
        "replicas.target_ongoing_requests": 3,
    }
    assert resolve_service(None, overrides).replicas == Replicas(
        min=1, max=2, target_ongoing_requests=3, upscale_delay=2.0
    )


def test_a_fixed_number_excludes_bounds() -> None:
    with pytest.raises(UsageError, match="cannot be combined"):
        resolve_service(None, {"model.id": "m", "replicas.fixed": 2, "replicas.max": 3})


@pytest.mark.parametrize(
    ("overrides", "flag"),
    [
        ({"parallelism.tensor": 0}, "--tp"),
        ({"name": "Not_DNS"}, "--name"),
        ({"replicas.max": -1}, "--max-replicas"),
        ({"engine.gpu_memory_utilization": 1.5}, "--gpu-memory-utilization"),
        ({"engine.env": (("A", "1"), ("DB_PASS", "hunter2"))}, "--env DB_PASS"),
        ({"scheduling.node_selector": (("a/b/c", "x"),)}, "--node-selector a/b/c"),
        ({"storage.volumes": (Volume("A", "/m", config_map="d"),)}, "--volume"),
    ],
)
def test_a_problem_names_the_flag_that_set_it(overrides: dict[str, Any], flag: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_service(None, {"model.id": "Qwen/Qwen3-8B", **overrides}, flags=FLAGS)
    assert caught.value.message.startswith(f"{flag}: ")


def test_all_problems_are_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        resolve_service(None, {"model.id": "m", "parallelism.tensor": 0, "parallelism.pipeline": 0}, flags=FLAGS)
    assert "--tp" in caught.value.message
    assert "--pp" in caught.value.message


@pytest.mark.parametrize("flag", ["auto", "-1"])
def test_auto_takes_back_the_context_of_a_file(spec: Path, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "-f", str(spec), "--offline", "--gpu", "L4", "-o", "json"]
    assert app.run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["engine"]["maxModelLen"] == 8192
    assert app.run([*arguments, "--max-model-len", flag]) == 0
    assert json.loads(capsys.readouterr().out)["engine"]["maxModelLen"] == 40960


@pytest.mark.parametrize("command", ["plan", "render", "init"])
def test_the_hint_for_a_flag_above_a_file(spec: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([command, "-f", str(spec), "--tp", "0", "--offline"]) == 2
    assert capsys.readouterr().err == f"✗ --tp: must be at least 1, not 0\n\nhint: rayllm-ctl {command} --help\n"


@pytest.mark.parametrize("words", [(), ("-f", "{spec}")])
@pytest.mark.parametrize("command", ["render", "init"])
def test_a_namespace_of_a_flag(
    spec: Path, command: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(spec=spec) for word in words] or ["Qwen/Qwen3-8B"]
    assert app.run([command, *given, "-n", "A_B", "--offline"]) == 2
    err = capsys.readouterr().err
    assert err.startswith('✗ --namespace: "A_B" is not a valid namespace')
    assert err.endswith(f"\n\nhint: rayllm-ctl {command} --help\n")


@pytest.mark.parametrize("command", [("plan",), ("render",), ("batch", "submit", "--dry-run=client")])
def test_the_hint_for_a_flag_above_a_batch_job(
    tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "apiVersion: rayllm.io/v1alpha1\nkind: BatchJob\nmetadata: {name: sums}\nspec: {model: {id: Qwen/Qwen3-8B}, "
        "input: {paths: [s3://b/i.jsonl]}, output: {path: s3://b/o}, prompt: {column: text}}\n"
    )
    assert app.run([*command, "-f", str(job), "--tp", "0", "--offline"]) == 2
    name = " ".join(word for word in command if word[:1] != "-")
    assert capsys.readouterr().err == f"✗ --tp: must be at least 1, not 0\n\nhint: rayllm-ctl {name} --help\n"
