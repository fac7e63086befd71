"""Services and pods by the thousand, made on a few connections side by side: kubectl sends requests one by one."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable
from copy import deepcopy
from http.client import HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from e2e.harness import Bench, Object, Target
from e2e.simulate.watch import from_kubeconfig
from e2e.simulated import CONTAINER_SECURITY

_CONNECTIONS = 12
_RAY, _CORE = "/apis/ray.io/v1/namespaces", "/api/v1/namespaces"
_ELSEWHERE = "kueue.x-k8s.io/multikueue"


class Request(NamedTuple):
    """`path`: with its query. `body`: of a PATCH, a merge patch."""

    method: str
    path: str
    body: Object | None = None


class Client:
    """One connection to the API server, with the client certificate of the target's kubeconfig."""

    def __init__(self, target: Target) -> None:
        api = from_kubeconfig(target.kubeconfig)
        self._connection = HTTPSConnection(urlsplit(api.url).netloc, context=api.tls, timeout=120)

    def send(self, request: Request) -> Any:
        """The answer to one request; fails unless it succeeded."""
        kind = "application/merge-patch+json" if request.method == "PATCH" else "application/json"
        body = json.dumps(request.body) if request.body is not None else None
        self._connection.request(request.method, request.path, body, {"Content-Type": kind})
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status < 300, f"{request.method} {request.path}: {answer.status} {text[:500]!r}"
        return json.loads(text)


def send_all(target: Target, requests: Iterable[Request]) -> None:
    """Send requests in no particular order; fails if one of them does."""
    waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
    failures: list[BaseException] = []

    def work() -> None:
        client = Client(target)
        try:
            while (request := waiting.get()) is not None:
                client.send(request)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for request in requests:
        waiting.put(request)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def make_services(bench: Bench, numbers: range) -> None:
    """Services that say of themselves, as KubeRay would, that they serve from a RayCluster of their own.

    They are left to another controller, so that KubeRay makes nothing of them.
    """
    rendered = bench.run("render", *bench.tiny("model")[1:], "-o", "json").json()["items"]
    template = next(item for item in rendered if item["kind"] == "RayService")
    made, states = [], []
    for number in numbers:
        service = deepcopy(template)
        service["metadata"] |= {"name": f"model-{number}", "namespace": bench.namespace}
        service["spec"]["managedBy"] = service["spec"]["rayClusterConfig"]["managedBy"] = _ELSEWHERE
        cluster = {
            "apiVersion": "ray.io/v1", "kind": "RayCluster",
            "metadata": {
                "name": f"model-{number}-abcde",
                "labels": {
                    "ray.io/originated-from-cr-name": f"model-{number}",
                    "ray.io/originated-from-crd": "RayService",
                },
            },
            "spec": service["spec"]["rayClusterConfig"],
        }  # fmt: skip
        status = {"conditions": [], "activeServiceStatus": {"rayClusterName": f"model-{number}-abcde"}}
        made.append(Request("POST", f"{_RAY}/{bench.namespace}/rayservices", service))
        made.append(Request("POST", f"{_RAY}/{bench.namespace}/rayclusters", cluster))
        states.append(_status_patch(bench, f"model-{number}", {**status, "observedGeneration": 1}))
    send_all(bench.target, made)
    send_all(bench.target, states)


def _status_patch(bench: Bench, service: str, status: Object) -> Request:
    return Request("PATCH", f"{_RAY}/{bench.namespace}/rayservices/{service}/status", {"status": status})


def make_pods(bench: Bench, count: int, services: int) -> None:
    """Pods of Ray, as many of each service, which no scheduler places on a node."""
    box = {"name": "ray-worker", "image": "ray", "securityContext": CONTAINER_SECURITY}
    made = []
    for number in range(count):
        labels = {"ray.io/cluster": f"model-{number % services}-abcde", "ray.io/node-type": "worker"}
        metadata = {"name": f"model-{number}", "labels": labels}
        spec = {"schedulerName": "none", "containers": [box], "automountServiceAccountToken": False}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        made.append(Request("POST", f"{_CORE}/{bench.namespace}/pods", pod))
    send_all(bench.target, made)
