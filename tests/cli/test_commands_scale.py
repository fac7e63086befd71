"""The number of requests of `status` does not grow with the services; `watch` asks about its own service only."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import HTTP_ROUTE, INGRESS
from tests.cli.conftest import Run
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI

CPU_SECONDS = 2.0
"""What listing 200 services may cost, on an idle machine and with the interpreter's own start."""


def fill(api: FakeAPI, services: int) -> None:
    for number in range(services):
        where = f"team-{number % 10}"
        name = f"model-{number}"
        group = {"groupName": "gpu", "minReplicas": 1, "maxReplicas": 1}
        spec = {"serveConfigV2": "x" * 500, "rayClusterConfig": {"workerGroupSpecs": [group]}}
        exposed = {INGRESS: name, HTTP_ROUTE: name}
        metadata = {"name": name, "namespace": where, "annotations": exposed}
        item = api.put(kind="RayService", metadata=metadata, spec=spec)
        labelled = {**metadata, "labels": {"app.kubernetes.io/name": "llmservice"}}
        api.put(kind="Ingress", metadata=labelled, spec={"rules": [{"host": name}], "ingressClassName": "nginx"})
        parents = [{"name": f"gateway-{number % 3}", "namespace": f"infra-{number % 3}"}]
        api.put(kind="HTTPRoute", metadata=labelled, spec={"parentRefs": parents})
        fakekuberay.reconcile(api, item)
        for event in range(3):
            api.put(
                kind="Event", metadata={"name": f"{name}-{event}", "namespace": where}, type="Warning",
                involvedObject={"kind": "Pod", "name": f"{name}-bcdfg-worker"}, reason="Unhealthy", message="m",
            )  # fmt: skip


def test_requests_do_not_grow_with_the_number_of_services(run: Run, api: FakeAPI) -> None:
    counts = []
    for services in (2, 20):
        fill(api, services)
        api.requests.clear()
        result = run("status", "-A", "-o", "json")
        rows = json.loads(result.out)["items"]
        assert [row["health"]["state"] for row in rows] == ["Ready"] * services
        assert [len(row["health"]["external"]) for row in rows] == [2] * services
        counts.append(len(api.requests))
    assert counts == [11, 11]


def test_lists_are_paged(run: Run, api: FakeAPI) -> None:
    fill(api, 1)
    api.requests.clear()
    run("status", "-A")
    assert {request.query.get("limit") for request in api.requests} == {"500"}


@pytest.mark.connections
def test_200_services_cost_little_cpu(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    fill(api, 200)
    api.requests.clear()
    command = [sys.executable, "-m", "rayllm_ctl", "status", "-A", "--kubeconfig", str(tmp_path / "kubeconfig")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.count(" Ready ") == 200
    assert len(api.requests) <= 16  # eleven lists; those with more than 500 objects have further pages
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < CPU_SECONDS


@pytest.mark.parametrize("command", ["watch", "deploy"])
def test_following_one_service_requests_nothing_about_others(run: Run, api: FakeAPI, command: str) -> None:
    for name in ("mine", "other"):
        item = api.put(kind="RayService", metadata={"name": name}, spec={})
        fakekuberay.reconcile(api, item)
    api.requests.clear()
    if command == "watch":
        assert run("watch", "mine", "--timeout", "700ms").code == 0
    else:
        from rayllm_ctl.cluster import connect
        from rayllm_ctl.kinds import RAY_SERVICE
        from rayllm_ctl.workflows.observe.wait import wait_ready

        list(wait_ready(connect(), RAY_SERVICE, api.stored("RayService", "mine"), 60))
    told = {"Service", "EndpointSlice", "Event", "Pod", "RayCluster", "RayService"}
    lists = [r for r in api.requests if r.path.rpartition("/")[2] in {f"{kind.lower()}s" for kind in told}]
    selectors = {
        (r.path.rpartition("/")[2], r.query.get("labelSelector", ""), r.query.get("fieldSelector", "")) for r in lists
    }
    operator = ("pods", kuberay.OPERATOR_SELECTOR, "")
    for kind, labels, fields in selectors - {operator}:
        assert "mine" in labels + fields, f"{kind} are listed without a selector"
    assert all("other" not in request.path for request in api.requests)


def test_a_new_ray_cluster_is_followed_as_soon_as_it_appears(run: Run, api: FakeAPI) -> None:
    item = api.put(kind="RayService", metadata={"name": "mine"}, spec={})
    fakekuberay.reconcile(api, item)

    def upgrade() -> None:
        status = api.stored("RayService", "mine")["status"] | {"pendingServiceStatus": {"rayClusterName": "mine-zzzzz"}}
        api.put(**{**api.stored("RayService", "mine"), "status": status})

    looks: list[str] = []

    def look(_request: object) -> None:
        looks.append("")
        if len(looks) == 1:
            upgrade()

    api.answer("GET", "/services$", look)
    assert run("watch", "mine", "--timeout", "1500ms").code == 0
    followed = {r.query.get("labelSelector") for r in api.requests if r.path.endswith("/pods") and "watch" in r.query}
    assert followed == {"ray.io/cluster in (mine-bcdfg)", "ray.io/cluster in (mine-bcdfg,mine-zzzzz)"}
