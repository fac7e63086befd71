"""Pods as Ray would see them, the table of them, and the placing of bundles."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from e2e.simulate.llmapp import deployments
from e2e.simulate.placement import place
from e2e.simulate.pods import PodTable, quantity, ray_pod
from e2e.simulate.watch import from_kubeconfig, list_and_watch

from .conftest import llm_config, pod


def manifest(**changes: Any) -> dict[str, Any]:
    container = {
        "command": ["/bin/bash", "-c", "--"],
        "args": [
            "ulimit -n 65536; ray start --address=x:6379 --block --num-cpus=0 --num-gpus=4 "
            """--resources='{"accelerator_type:H100": 1, "model:a": 4}' """
        ],
        "resources": {"limits": {"cpu": "32", "memory": "200Gi", "nvidia.com/gpu": "4"}},
        **changes,
    }
    return {
        "metadata": {
            "name": "w-1",
            "namespace": "demo",
            "uid": "u1",
            "resourceVersion": "5",
            "labels": {"ray.io/cluster": "llm-abc", "ray.io/node-type": "worker"},
        },
        "spec": {"nodeName": "sim-1", "containers": [container]},
        "status": {"podIP": "10.66.0.5", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_ray_pod_has_what_ray_start_was_told() -> None:
    found = ray_pod(manifest(), {"sim-1": "H100"})
    assert found is not None
    assert found.resources == {"CPU": 0.0, "GPU": 4.0, "accelerator_type:H100": 1.0, "model:a": 4.0}
    assert (found.address, found.head, found.ready) == ("10.66.0.5", False, True)


@pytest.mark.parametrize(
    ("resources", "cpus"),
    [
        ({"limits": {"cpu": "1500m"}}, 2.0),
        ({"requests": {"cpu": "3"}}, 3.0),
        ({"requests": {"cpu": "3"}, "limits": {"cpu": "8"}}, 8.0),
        ({}, 1.0),
    ],
)
def test_cpus_are_the_limit_or_the_request_in_whole_cpus(resources: dict[str, Any], cpus: float) -> None:
    found = ray_pod(manifest(args=["ray start"], resources=resources), {})
    assert found is not None
    assert (found.cpus, found.gpus) == (cpus, 0.0)


def test_pod_of_something_else_and_pod_that_is_being_deleted() -> None:
    other = manifest()
    other["metadata"]["labels"] = {}
    assert ray_pod(other, {}) is None
    ending = manifest()
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = ray_pod(ending, {})
    assert found is not None
    assert not found.ready


@pytest.mark.parametrize(("text", "value"), [("4", 4), ("500m", 0.5), ("16Gi", 16 * 2**30), ("2k", 2000), ("1.5", 1.5)])
def test_quantity(text: str, value: float) -> None:
    assert quantity(text) == value


def test_quantity_of_nonsense() -> None:
    with pytest.raises(ValueError, match="4 cores"):
        quantity("4 cores")


def test_newest_pod_with_an_address_has_it() -> None:
    table = PodTable()
    table.put(pod("old", "10.66.0.5"))
    table.put(pod("new", "10.66.0.5"))
    table.remove("uid-llm-abc-old")
    found = table.at("10.66.0.5")
    assert found is not None
    assert found.name == "new"
    assert [one.name for one in table.members("demo", "llm-abc")] == ["new"]
    table.keep_only(set())
    assert table.at("10.66.0.5") is None
    assert table.members("demo", "llm-abc") == []


ONE_GPU = {"GPU": 1.0}


@pytest.mark.parametrize(
    ("strategy", "free", "nodes"),
    [
        ("STRICT_PACK", {"a": 3.0, "b": 4.0}, ["b"] * 4),
        ("STRICT_PACK", {"a": 3.0, "b": 3.0}, None),
        ("PACK", {"a": 3.0, "b": 4.0}, ["b"] * 4),
        ("PACK", {"a": 3.0, "b": 3.0}, ["a", "a", "a", "b"]),
        ("PACK", {"a": 2.0, "b": 1.0}, None),
        ("STRICT_SPREAD", {"a": 8.0, "b": 8.0}, None),
        ("STRICT_SPREAD", dict.fromkeys("abcd", 1.0), list("abcd")),
        ("SPREAD", {"a": 8.0, "b": 8.0}, ["a"] * 4),
    ],
)
def test_placing_four_bundles(strategy: str, free: dict[str, float], nodes: list[str] | None) -> None:
    assert place([ONE_GPU] * 4, strategy, {node: {"GPU": gpus} for node, gpus in free.items()}) == nodes


def test_bundles_of_a_model_are_those_of_ray_serve_llm() -> None:
    def bundles(**changes: Any) -> tuple[list[Any], str]:
        (server, _) = deployments(llm_config(**changes)["applications"][0])
        return list(server.bundles), server.strategy

    share = {"accelerator_type:H100": 0.001}
    first = {**share, "GPU": 1.0, "CPU": 1.0}
    assert bundles() == ([first, *[{**share, "GPU": 1.0}] * 3], "STRICT_PACK")
    two_stages = {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}
    assert len(bundles(engine_kwargs=two_stages)[0]) == 6
    assert bundles(placement_group_config=None)[1] == "PACK"
    explicit = {"bundles": [{"GPU": 2, "CPU": 4}, {"GPU": 2}], "strategy": "SPREAD"}
    assert bundles(placement_group_config=explicit) == (
        [{**share, "GPU": 2.0, "CPU": 5.0}, {**share, "GPU": 2.0}],
        "SPREAD",
    )
    cpu = {"accelerator_type": None, "placement_group_config": None, "accelerator_config": {"kind": "cpu"}}
    assert bundles(**cpu, engine_kwargs={}) == ([{"CPU": 2.0, "GPU": 0.0}], "PACK")


class FakeApiServer(http.server.BaseHTTPRequestHandler):
    """Answers lists from `objects`, and one watch with `events`."""

    objects: ClassVar[dict[str, Any]] = {}
    events: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        body = json.dumps(self.objects.get(parts.path, {})).encode()
        if "watch=true" in parts.query:
            body = b"".join(json.dumps(event).encode() + b"\n" for event in self.events)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def api_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeApiServer)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_table_follows_the_api_server(api_server: str) -> None:
    import ssl

    from e2e.simulate.watch import ApiServer

    node = {"metadata": {"name": "sim-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
    second = manifest()
    second["metadata"] |= {"name": "w-2", "uid": "u2"}
    second["status"]["podIP"] = "10.66.0.6"
    second["spec"]["nodeName"] = "sim-9"
    FakeApiServer.objects = {
        "/api/v1/nodes": {"items": [node]},
        "/api/v1/nodes/sim-9": {"metadata": {"name": "sim-9", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}}},
        "/api/v1/pods": {"items": [manifest()], "metadata": {"resourceVersion": "7"}},
    }
    FakeApiServer.events = [{"type": "ADDED", "object": second}, {"type": "DELETED", "object": manifest()}]
    table = PodTable()
    table.put(pod("gone", "10.66.0.9"))
    list_and_watch(ApiServer(api_server, ssl.create_default_context()), table)
    assert table.at("10.66.0.9") is None
    assert table.at("10.66.0.5") is None
    found = table.at("10.66.0.6")
    assert found is not None
    assert found.accelerator == "L4"


def test_kubeconfig_without_the_named_user(tmp_path: Any) -> None:
    path = tmp_path / "config"
    context = {"name": "c", "context": {"cluster": "k", "user": "nobody"}}
    cluster = {"name": "k", "cluster": {"server": "https://x"}}
    config = {"contexts": [context], "current-context": "c", "clusters": [cluster], "users": []}
    path.write_text(json.dumps(config))
    with pytest.raises(KeyError, match="nobody"):
        from_kubeconfig(path)
