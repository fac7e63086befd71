"""The flags of model storage, alone and above a spec file."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.cli.settings.names import setting_fields

FILE = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: qwen}
spec:
  model: {id: Qwen/Qwen3-8B}
  accelerator: {gpu: L4}
  engine: {image: 'own/ray-llm-streamer:1'}
  storage:
"""
BATCH = """\
apiVersion: rayllm.io/v1alpha1
kind: BatchJob
metadata: {name: qwen}
spec:
  model: {id: Qwen/Qwen3-8B}
  accelerator: {gpu: L4}
  engine: {image: 'own/ray-llm-streamer:1'}
  input: {paths: ['s3://bucket/in.txt']}
  output: {path: 's3://bucket/out'}
  storage:
"""
MIRROR = "mirror: {from: 's3://source/qwen', secret: a, to: {claim: {name: c, create: {}}}}"
TO_BUCKET = "mirror: {to: {objectStore: {uri: 's3://own/qwen', region: r, load: stream}}}"
STORE = "objectStore: {uri: 's3://own/qwen', secret: a}"


def storage(
    flags: Sequence[str], model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str = FILE
) -> dict[str, Any]:
    """spec.storage of the file that `init` writes for flags above a file with this storage.model."""
    path = tmp_path / "q.yaml"
    path.write_text(f"{file}    model: {{{model}}}\n" if model else file)
    command = ("batch", "init") if file == BATCH else ("init",)
    assert app.run([*command, "--offline", "-f", str(path), *flags]) == 0, capsys.readouterr().err
    found: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)["spec"].get("storage", {})
    return found


@pytest.mark.parametrize("file", [FILE, BATCH], ids=["service", "batch"])
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--model-claim", "models"], {"claim": {"name": "models"}}),
        (["--model-claim", "models/Qwen/Qwen3-8B"], {"claim": {"name": "models", "path": "Qwen/Qwen3-8B"}}),
        (["--model-uri", "gs://own/qwen"], {"objectStore": {"uri": "gs://own/qwen"}}),
        (
            ["--model-uri", "s3://own/qwen", "--model-load", "stream", "--storage-secret", "s"],
            {"objectStore": {"uri": "s3://own/qwen", "secret": "s", "load": "stream"}},
        ),
        (["--mirror", "claim/models"], {"mirror": {"to": {"claim": {"name": "models"}}}}),
        (["--mirror", "claim/models/a/b"], {"mirror": {"to": {"claim": {"name": "models", "path": "a/b"}}}}),
        (
            ["--mirror", "s3://own/qwen", "--storage-endpoint", "http://minio:9000", "--model-load", "stream"],
            {
                "mirror": {
                    "to": {"objectStore": {"uri": "s3://own/qwen", "endpoint": "http://minio:9000", "load": "stream"}}
                }
            },
        ),
    ],
)
def test_ways(
    file: str, flags: list[str], expected: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if file == BATCH and "stream" in flags:  # from the bucket's service, with the data's own access
        access = {"--storage-endpoint": "--s3-endpoint", "--storage-secret": "--s3-secret"}
        pairs = itertools.pairwise(flags)
        flags = [*flags, *(word for flag, value in pairs if flag in access for word in (access[flag], value))]
    assert storage(flags, "", tmp_path, capsys, file)["model"] == expected
    # They replace another way of the file.
    assert storage(flags, "hub: {cache: c}", tmp_path, capsys, file)["model"] == expected


@pytest.mark.parametrize(
    ("flags", "model", "expected"),
    [
        (["--model-uri", "s3://other"], STORE, {"objectStore": {"uri": "s3://other", "secret": "a"}}),
        (["--storage-secret", "b"], STORE, {"objectStore": {"uri": "s3://own/qwen", "secret": "b"}}),
        (
            ["--storage-secret", "b"],
            MIRROR,
            {"mirror": {"from": "s3://source/qwen", "secret": "b", "to": {"claim": {"name": "c", "create": {}}}}},
        ),
        (
            ["--mirror", "claim/d"],
            MIRROR,
            {"mirror": {"from": "s3://source/qwen", "secret": "a", "to": {"claim": {"name": "d"}}}},
        ),
        (
            ["--mirror", "claim/c/a"],
            MIRROR,
            {
                "mirror": {
                    "from": "s3://source/qwen",
                    "secret": "a",
                    "to": {"claim": {"name": "c", "path": "a", "create": {}}},
                }
            },
        ),
        (
            ["--mirror", "gs://own/qwen", "--storage-secret", "b"],
            MIRROR,
            {
                "mirror": {
                    "from": "s3://source/qwen",
                    "secret": "a",
                    "to": {"objectStore": {"uri": "gs://own/qwen", "secret": "b"}},
                }
            },
        ),
        (
            ["--mirror", "s3://other", "--model-load", "copy"],
            TO_BUCKET,
            {"mirror": {"to": {"objectStore": {"uri": "s3://other", "region": "r"}}}},
        ),
    ],
)
def test_above_a_file(
    flags: list[str], model: str, expected: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert storage(flags, model, tmp_path, capsys)["model"] == expected


def test_the_compile_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert storage(["--compile-cache", "c"], "", tmp_path, capsys) == {"caches": {"compile": "c"}}
    found = storage(["--compile-cache", "c"], "hub: {cache: h}", tmp_path, capsys)
    assert found == {"model": {"hub": {"cache": "h"}}, "caches": {"compile": "c"}}


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (
            ["--model-claim", "a", "--mirror", "claim/b"],
            "--model-claim and --mirror cannot be combined",
            "--model-claim alone",
        ),
        (
            ["--model-claim", "a", "--model-uri", "s3://own", "--mirror", "claim/b"],
            "--model-claim and --model-uri and --mirror cannot be combined",
            "spec.storage.model.mirror.from",
        ),
        (["--model-uri", "s3://own", "--mirror", "claim/b"], "cannot be combined", "spec.storage.model.mirror.from"),
        (["--model-load", "stream"], "--model-load: no bucket", "--model-uri s3://BUCKET/PATH"),
        (["--mirror", "claim/a", "--model-load", "stream"], "--model-load: no bucket", "--mirror s3://BUCKET/PATH"),
        (
            ["--model-claim", "a", "--storage-secret", "s", "--storage-endpoint", "http://m:1"],
            "--storage-secret and --storage-endpoint: no bucket",
            "--model-uri",
        ),
        (["--mirror", "models"], '"models" is not claim/NAME[/PATH]', "--help"),
        (["--mirror", "claim/"], '"" is not NAME or NAME/PATH', "--help"),
        (["--model-claim", "a/"], '"a/" is not NAME or NAME/PATH', "--help"),
        (["--model-claim", "A"], '--model-claim: "A" is not a valid name', "--help"),
        (["--model-claim", "a/../b"], '--model-claim: "../b" is not a folder', "--help"),
        (["--model-uri", "azure://c/a"], "--model-uri: azure:// is not supported", "spec.storage.model.claim"),
        (["--mirror", "s3://b"], '--mirror: "s3://b" is not a folder of a bucket', "s3://BUCKET/PATH"),
        (
            ["--mirror", "s3://own", "--storage-secret", "A"],
            "--storage-secret: expected the name of a Secret",
            "kubectl create secret",
        ),
        (
            ["--mirror", "s3://own", "--storage-endpoint", "minio"],
            "--storage-endpoint: is not a valid address",
            "--help",
        ),
        (["--model-claim", "a", "--model-path", "/b"], "--model-path: cannot be combined with --model-claim", "remove"),
        (
            ["--model-claim", "a", "--revision", "b"],
            "--revision: has no effect with --model-claim: only the Hugging Face Hub",
            "remove it",
        ),
        (["--compile-cache", "A"], '--compile-cache: "A" is not a valid name', "--help"),
    ],
)
def test_contradictions(flags: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["render", "Qwen/Qwen3-8B", "--gpu", "L4", "--offline", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert hint in err.partition("hint:")[2]


def test_plan_knows_the_way_of_the_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["plan", "Qwen/Qwen3-8B", "--gpu", "L4", "--offline", "--model-claim", "models"]) == 0
    capsys.readouterr()
    assert app.run(["plan", "Qwen/Qwen3-8B", "--gpu", "L4", "--offline", "--storage-secret", "s"]) == 2


def test_where_one_service_has_its_files_is_not_a_setting() -> None:
    assert not [field for field in setting_fields().values() if field.startswith(("storage.model", "storage.caches"))]
