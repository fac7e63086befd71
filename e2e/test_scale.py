"""Two hundred services: what `status -A` and `watch` ask of the API server does not grow with their number."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from urllib.parse import unquote

import pytest

from e2e.counting import counted
from e2e.harness import Bench, Object, Result, Target

FEW, SERVICES = 5, 200
CPU_SECONDS = 2.0
OPERATOR = ("deployment/kuberay-operator", "-n", "kuberay-system")


@pytest.fixture(scope="module")
def unattended(own: Target, shared: Bench) -> Iterator[Bench]:
    """A namespace with a few services in which KubeRay does nothing, since its operator does not run."""
    assert shared.target is own
    shared.kubectl("scale", *OPERATOR, "--replicas=0")
    shared.kubectl("wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=kuberay", "-n", "kuberay-system")
    services(shared, range(FEW))
    yield shared
    shared.kubectl("delete", "rayservices,rayclusters", "--all", "-n", shared.namespace, "--wait=false")
    shared.kubectl("scale", *OPERATOR, "--replicas=1")
    shared.kubectl("rollout", "status", *OPERATOR, "--timeout=60s")


def services(bench: Bench, numbers: range) -> None:
    """Services that say of themselves, as KubeRay would, that they serve from a RayCluster of their own."""
    rendered = bench.run("render", *bench.tiny("model")[1:], "-o", "json").json()["items"]
    made: list[Object] = []
    for number in numbers:
        service = deepcopy(next(item for item in rendered if item["kind"] == "RayService"))
        service["metadata"]["name"] = f"model-{number}"
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
        made += [service, cluster]
    listed = {"apiVersion": "v1", "kind": "List", "items": made}
    bench.kubectl("create", "-n", bench.namespace, "-f", "-", input_text=json.dumps(listed))
    status = {"conditions": [], "activeServiceStatus": {"rayClusterName": ""}, "observedGeneration": 1}
    # One request each, and kubectl does not send them together: a few services with a status stand for all.
    for number in list(numbers)[:3]:
        status["activeServiceStatus"] = {"rayClusterName": f"model-{number}-abcde"}
        bench.kubectl(
            "patch", "rayservice", f"model-{number}", "-n", bench.namespace, "--subresource=status", "--type=merge",
            "-p", json.dumps({"status": status}),
        )  # fmt: skip


def status_of_all(bench: Bench) -> tuple[Result, float]:
    """`status -A` and the CPU seconds that it took."""
    before = os.times()
    result = bench.run("status", "-A", "-o", "json", code=None)
    after = os.times()
    return result, sum(after[2:4]) - sum(before[2:4])


def test_status_of_200_services_takes_as_many_requests_as_of_few(unattended: Bench, tmp_path: Path) -> None:
    with counted(unattended, tmp_path) as (bench, requests):
        few, _ = status_of_all(bench)
        asked_for_few = len(requests)
        services(unattended, range(FEW, SERVICES))
        requests.clear()
        many, seconds = status_of_all(bench)
    ours = [[row for row in each.json() if row["namespace"] == bench.namespace] for each in (few, many)]
    print(f"status -A: {len(ours[1])} services, {len(requests)} requests, {seconds:.2f} s CPU, {many.seconds:.2f} s")
    assert [len(rows) for rows in ours] == [FEW, SERVICES]
    assert len(requests) == asked_for_few, sorted(requests)
    assert seconds <= CPU_SECONDS, str(many)


def test_watch_of_one_service_asks_for_nothing_of_others(unattended: Bench, tmp_path: Path) -> None:
    with counted(unattended, tmp_path) as (bench, requests):
        bench.start("watch", "model-1", "-n", bench.namespace, "-o", "json")
        unattended.wait("watch has asked for the service", lambda: len(requests) > 3, timeout=90)
        time.sleep(8)
        asked = [unquote(request) for request in requests]
    told = re.compile(rf"/namespaces/{bench.namespace}/(rayservices|rayclusters|pods|services|endpointslices|events)\b")
    of_services = [request for request in asked if told.search(request)]
    assert of_services
    assert [request for request in of_services if not re.search(r"model-1\b", request)] == []
    assert [request for request in asked if "/pods?" in request and "Selector=" not in request] == []
