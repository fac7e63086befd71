"""A service of the command line is handed over to the controller, changed there, and taken back: no pod restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controllers import API_VERSION, Declared, Release, released, tiny_spec
from e2e.harness import Bench, Object, Target
from e2e.images.oci import Image
from e2e.simulated import schedule_on_simulated_nodes

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("controller"), pytest.mark.incremental]

NAME = "moved"


@pytest.fixture(scope="module")
def operator(simulated_nodes: Target, shared: Bench, controller_image: Image) -> Iterator[Release]:
    assert shared.target is simulated_nodes
    schedule_on_simulated_nodes(shared)
    with released(shared) as release:
        release.install(controller_image)
        yield release


@pytest.fixture
def service(operator: Release, shared: Bench) -> Declared:
    assert operator.bench.target is shared.target
    return Declared(shared, NAME)


@pytest.fixture
def file(shared: Bench, tmp_path: Path) -> str:
    """The spec file: one replica of the tiny model."""
    spec = tiny_spec(shared, NAME) | {"replicas": {"min": 1, "max": 1}}
    path = tmp_path / "moved.json"
    path.write_text(
        json.dumps({"apiVersion": API_VERSION, "kind": "LLMService", "metadata": {"name": NAME}, "spec": spec})
    )
    return str(path)


def started(bench: Bench) -> dict[str, str]:
    """The pods of the service, each with its uid."""
    pods = bench.items("pods", f"rayllm.io/service={NAME}")
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in pods}


def managers(item: Object) -> set[str]:
    """Who has applied fields of an object."""
    return {
        str(one["manager"])
        for one in item["metadata"]["managedFields"]
        if one["operation"] == "Apply" and not one.get("subresource")
    }


def test_adopt(service: Declared, file: str) -> None:
    bench = service.bench
    where = ("-n", bench.namespace)
    bench.run("deploy", "-f", file, "--offline", *where)
    before = started(bench)
    bench.run("adopt", NAME, "-f", file, "--offline", *where)
    service.settled()
    live = bench.get("rayservice", NAME)
    assert started(bench) == before
    assert managers(live) & {"rayllm-ctl", "rayllm-controller"} == {"rayllm-controller"}
    assert live["metadata"]["ownerReferences"][0]["uid"] == service.item["metadata"]["uid"]
    assert len(bench.items("rayclusters", f"ray.io/originated-from-cr-name={NAME}")) == 1
    assert bench.run("diff", "-f", file, "--offline", *where).out == ""


def test_commands_change_the_llmservice(service: Declared) -> None:
    bench = service.bench
    where = ("-n", bench.namespace)
    bench.run("scale", NAME, "--min-replicas", "1", "--max-replicas", "2", *where)
    assert service.item["spec"]["replicas"] == {"min": 1, "max": 2}
    assert service.condition("Ready")[0] == "True"
    bench.run("rollback", NAME, *where)
    assert "replicas" not in service.item["spec"], "as in the spec of that revision"
    bench.run("suspend", NAME, *where)
    assert started(bench) == {}
    bench.run("resume", NAME, *where)
    assert bench.run("chat", NAME, *where, "Hello", "--max-tokens", "8").out.strip()


def test_release(service: Declared, file: str) -> None:
    bench = service.bench
    where = ("-n", bench.namespace)
    service.settled()
    before = started(bench)
    bench.run("release", NAME, *where)
    assert bench.kubectl("get", "llms", *where, "-o", "name") == ""
    live = bench.get("rayservice", NAME)
    assert "ownerReferences" not in live["metadata"]
    assert managers(live) & {"rayllm-ctl", "rayllm-controller"} == {"rayllm-ctl"}
    assert started(bench) == before
    bench.run("deploy", "-f", file, "--offline", *where)
    assert started(bench) == before
    bench.run("delete", NAME, *where)
