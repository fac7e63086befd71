"""A simulated cluster on loopback: every 127.0.0.x is a pod's address, and the clock stands still until it is told."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from e2e.simulate.clusters import Clusters
from e2e.simulate.http import Handler, Server
from e2e.simulate.pods import PodTable, RayPod
from e2e.simulate.ray_api import RayHandler
from e2e.simulate.serve_proxy import ProxyHandler

HEAD = "127.0.0.2"


def pod(name: str, address: str, *, head: bool = False, cluster: str = "llm-abc", **changes: Any) -> RayPod:
    """A ready pod: a head without CPUs, or a worker with 32 CPUs and 8 H100."""
    shape: dict[str, Any] = {"cpus": 0.0, "gpus": 0.0} if head else {"cpus": 32.0, "gpus": 8.0, "accelerator": "H100"}
    fields = {
        "namespace": "demo",
        "uid": f"uid-{cluster}-{name}",
        "cluster": cluster,
        "head": head,
        "address": address,
        "ready": True,
        **shape,
        **changes,
    }
    return RayPod(name=name, **fields)


def llm_config(**changes: Any) -> dict[str, Any]:
    """A Serve config of one GPU model with tensor parallelism 4 inside a node."""
    model: dict[str, Any] = {
        "model_loading_config": {"model_id": "meta-llama/Llama-3.1-70B"},
        "accelerator_type": "H100",
        "placement_group_config": {"strategy": "STRICT_PACK", "bundle_per_worker": {"GPU": 1}},
        "deployment_config": {"num_replicas": 1},
        "engine_kwargs": {"tensor_parallel_size": 4},
        **changes,
    }
    arguments = {"llm_configs": [model], "ingress_deployment_config": {"ray_actor_options": {"num_cpus": 0.5}}}
    app = {"name": "llm", "route_prefix": "/", "import_path": "ray.serve.llm:build_openai_app", "args": arguments}
    return {"applications": [app]}


SERVER = "LLMServer:meta-llama--Llama-3_1-70B"


@dataclass
class Simulation:
    """The running servers, what they know, and ways to ask them."""

    table: PodTable = field(default_factory=PodTable)
    now: float = 1000.0
    ports: dict[str, int] = field(default_factory=dict)

    def ask(
        self, verb: str, path: str, body: Any = None, *, address: str = HEAD, port: str = "dashboard"
    ) -> tuple[int, str]:
        """Status and body of a request to a pod."""
        connection = http.client.HTTPConnection(address, self.ports[port], timeout=10)
        try:
            connection.request(verb, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def put(self, config: Any, address: str = HEAD) -> tuple[int, str]:
        """Give a cluster a Serve config."""
        return self.ask("PUT", "/api/serve/applications/", config, address=address)

    def details(self, address: str = HEAD) -> dict[str, Any]:
        """The cluster's answer about its applications."""
        status, text = self.ask("GET", "/api/serve/applications/", address=address)
        assert status == 200, text
        found: dict[str, Any] = json.loads(text)
        return found

    def app(self, name: str = "llm") -> dict[str, Any]:
        """One application of the first cluster."""
        found: dict[str, Any] = self.details()["applications"][name]
        return found

    def settle(self) -> dict[str, Any]:
        """Let enough time pass, step by step as an operator polls, for all that can start to run."""
        for _ in range(3):
            self.now += 4
            self.details()
        return self.app()


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    made = Simulation()
    clusters = Clusters(made.table, clock=lambda: made.now)
    kinds: dict[str, type[Handler]] = {"dashboard": RayHandler, "proxy": ProxyHandler}
    servers = {name: Server(("0.0.0.0", 0), handler, clusters) for name, handler in kinds.items()}
    for name, server in servers.items():
        made.ports[name] = server.server_address[1]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield made
    for server in servers.values():
        server.shutdown()
        server.server_close()


@pytest.fixture
def one_worker(simulation: Simulation) -> Simulation:
    """A cluster of a head and one worker with 8 GPUs."""
    simulation.table.put(pod("head", HEAD, head=True))
    simulation.table.put(pod("worker-1", "127.0.0.3"))
    return simulation
