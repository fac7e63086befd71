"""The tutorials, typed on a cluster as they stand: every block but those that need more than one.

What differs from what a reader types: the namespace, and where a tutorial needs GPUs a stand-in for the engine on GPUs
that a node claims, with the model of the test image.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import ENDS_SOON, STAND_IN, Bench, Target, kubectl_program
from e2e.s3 import PORT, serving
from tests.docs.pages import BLOCKS, ROOT, Block

pytestmark = [pytest.mark.xdist_group("tutorials"), pytest.mark.slow]

RUN_HERE = "not run: needs a cluster"
IMAGE = "rayllm.local/ray-llm-cpu:2.60.0"
"""As the tutorials name the test image."""

TINY = {"model": {"path": "/models/tiny"}}
SMALL_PODS = {"head": {"cpu": "500m", "memory": "4Gi"}, "worker": {"cpu": "500m", "memory": "3Gi"}}


def of_page(name: str) -> list[Block]:
    """The files of a tutorial and the blocks that are typed here."""
    blocks = [block for block in BLOCKS if block.page == ROOT / "docs/tutorials" / f"{name}.md"]
    assert blocks, name
    return [block for block in blocks if block.file or block.is_run or block.comment == RUN_HERE]


def merged(document: Any, change: Any) -> Any:
    """The document with the fields of `change`, and without those that are None there."""
    if not isinstance(document, dict) or not isinstance(change, Mapping):
        return change
    both = document | {name: merged(document.get(name), value) for name, value in change.items()}
    return {name: value for name, value in both.items() if value is not None}


class Reader:
    """Somebody who types a tutorial in a directory, and the bench where it happens."""

    def __init__(self, bench: Bench, folder: Path, changes: Mapping[str, Any], words: Mapping[str, str]) -> None:
        self.bench = bench
        self.folder = folder
        self.changes = changes
        self.words = {IMAGE: bench.target.image, "-n llm": f"-n {bench.namespace}", **words}
        programs = folder / "programs"
        programs.mkdir()
        (programs / "kubectl").write_text(f'#!/bin/sh\nexec {kubectl_program()} "$@"\n')
        (programs / "kubectl").chmod(0o755)
        self.environment = bench.target.environment | {
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HF_HUB_OFFLINE": "1",
            **{f"GIT_{role}_{part}": "somebody" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")},
        }

    def follow(self, name: str) -> str:
        """Type a tutorial from the first block to the last; what was printed."""
        printed, where = "", self.folder / ".where"
        where.write_text(str(self.folder))
        for block in of_page(name):
            if block.file:
                self.write(block)
                continue
            text = block.text
            for old, new in self.words.items():
                text = text.replace(old, new)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", f"trap 'pwd > {where}' EXIT\n{text}"],
                cwd=where.read_text().strip(), env=self.environment, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{block.where}\n{text}\n{done.stdout}"
            printed += done.stdout
        return printed

    def write(self, block: Block) -> None:
        assert block.file is not None
        path = self.folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        if block.language != "yaml":
            path.write_text(block.text)
            return
        change = merged(self.changes, {"metadata": {"namespace": self.bench.namespace}})
        document = merged(yaml.safe_load(block.text.replace(IMAGE, self.bench.target.image)), change)
        path.write_text(yaml.safe_dump(document))


def test_a_first_model_on_kind(bench: Bench, tmp_path: Path) -> None:
    printed = Reader(bench, tmp_path, {"spec": {"engine": {"env": ENDS_SOON}}}, {}).follow("first-model-kind")
    assert "Kubernetes runs containers" in printed
    assert not bench.items("rayservices")


def test_a_first_model_on_gpus(claimed: Target, bench: Bench, tmp_path: Path) -> None:
    engine = {"image": claimed.image, "env": {**STAND_IN, **ENDS_SOON}}
    changes = {"spec": {**TINY, "engine": engine, "resources": SMALL_PODS}}
    printed = Reader(bench, tmp_path, changes, {}).follow("first-model-gpus")
    assert "Ready" in printed
    assert not bench.items("rayservices")


def test_a_gitops_repository(claimed: Target, bench: Bench, tmp_path: Path) -> None:
    engine = {"image": claimed.image, "env": {**STAND_IN, **ENDS_SOON}}
    changes = {"spec": {**TINY, "engine": engine, "resources": SMALL_PODS}}
    # YAML that is written anew has each bound on a line of its own, as the sed of the tutorial needs it.
    printed = Reader(bench, tmp_path, changes, {}).follow("gitops")
    assert "in-place" in printed
    bounds = bench.items("rayservices")[0]["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    assert bounds["maxReplicas"] == 8
    bench.run("delete", "qwen3-32b", "-n", bench.namespace)


def test_a_gateway_with_keys(bench: Bench, tmp_path: Path) -> None:
    reader = Reader(bench, tmp_path, {"spec": {"engine": {"env": ENDS_SOON}}}, {})
    printed = reader.follow("gateway-keys")
    assert "alice" in printed
    assert not bench.items("rayservices")


@pytest.fixture
def tiny(bench: Bench) -> Iterator[Bench]:
    bench.run(*bench.tiny("tiny", "--max-model-len", "1024", "--max-replicas", "1"))
    yield bench
    bench.run("delete", "tiny", "-n", bench.namespace)


def test_a_load_test(tiny: Bench, tmp_path: Path) -> None:
    spec = {"model": {"id": "tiny", "path": "/models/tiny"}, "accelerator": {"kind": "cpu"}, "replicas": {"max": 1},
            "engine": {"image": tiny.target.image, "maxModelLen": 1024}}  # fmt: skip
    document = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": "tiny"}, "spec": spec}
    document["metadata"] |= {"namespace": tiny.namespace}  # type: ignore[operator]
    (tmp_path / "tiny.yaml").write_text(json.dumps(document))
    printed = Reader(tiny, tmp_path, {}, {}).follow("load-test")
    assert "TTFT" in printed
    assert [one["load"]["concurrency"] for one in json.loads((tmp_path / "after.json").read_text())["runs"]] == [4]


def test_a_batch_job(host_address: str, bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "s3").mkdir()
    with serving(tmp_path / "s3", f"{host_address}:{PORT}") as s3:
        spec = {
            "model": {"id": "tiny", "path": "/models/tiny"},
            "accelerator": {"kind": "cpu", "gpu": None},
            "engine": {"image": bench.target.image, "maxModelLen": 1024,
                       "env": {"RAYLLM_BATCH_ENGINE_STAGE": "rayllm_standin.batch:StandInStage"}},
            "storage": {"endpoint": s3.endpoint},
            "concurrency": {"max": 1},
            "resources": SMALL_PODS,
        }  # fmt: skip
        reader = Reader(bench, tmp_path, {"spec": spec}, {})
        keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
        reader.environment |= keys | {"AWS_ENDPOINT_URL_S3": s3.endpoint, "AWS_REGION": "us-east-1"}
        given = s3.folder / "my-bucket/in"
        given.mkdir(parents=True)
        [rows] = [block for block in of_page("batch-job") if block.file == "articles.jsonl"]
        (given / "articles.jsonl").write_text(rows.text)
        reader.follow("batch-job")
    answers = [json.loads(line) for part in (tmp_path / "answers").glob("part-*.jsonl") for line in part.open()]
    assert [answer["url"] for answer in answers] == ["https://example.org/1"]
    assert answers[0]["answer"]
