from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.api.watch import Watch
from rayllm_ctl.cluster.snapshot import service as snapshot
from rayllm_ctl.cluster.snapshot.service import Collector, collect
from rayllm_ctl.errors import UserError
from rayllm_ctl.health import diagnose
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.observed.health import Snapshot, State
from tests.cluster.fakeapi import FakeAPI, status

RC = "tiny-bcdfg"
FROM = {"ray.io/originated-from-cr-name": "tiny"}
SERVES = {"kubernetes.io/service-name": "tiny-serve-svc"}
NODE = {"images": [{"names": ["x"]}], "allocatable": {"cpu": "8"}, "conditions": []}
FORBIDDEN = 'User "a" cannot list resource "x" in API group "" in the namespace "llm"'


def ray_pod(api: FakeAPI, name: str, ray_cluster: str = RC, kind: str = "worker", **more: Any) -> None:
    labels = {"ray.io/cluster": ray_cluster, "ray.io/node-type": kind}
    spec = {"nodeName": "n1", "containers": [{"name": "ray"}], **more.pop("spec", {})}
    pod_status = {"phase": "Running", **more.pop("status", {})}
    api.put(kind="Pod", metadata={"name": name, "labels": labels, **more}, spec=spec, status=pod_status)


@pytest.fixture
def running(api: FakeAPI) -> FakeAPI:
    """A service tiny with its RayCluster, head and worker, beside another service."""
    head = {"head": {"serviceName": f"{RC}-head-svc"}}
    status_of = {"observedGeneration": 1, "activeServiceStatus": {"rayClusterName": RC}}
    managed = [{"manager": "x"}]
    api.put(kind="RayService", metadata={"name": "tiny", "managedFields": managed}, spec={"a": 1}, status=status_of)
    api.put(kind="RayCluster", metadata={"name": RC, "labels": FROM}, status=head)
    ray_pod(api, "head", kind="head")
    ray_pod(api, "worker")
    api.put(kind="Service", metadata={"name": "tiny-serve-svc", "labels": FROM})
    api.put(kind="Service", metadata={"name": f"{RC}-head-svc", "labels": {"ray.io/cluster": RC}})
    api.put(kind="EndpointSlice", metadata={"name": "tiny-serve-svc-x", "labels": FROM | SERVES})
    for name in ("tiny", f"{RC}-worker-zzzzz", "tiny-zzzzz-head-1", "tiny-serve-svc", "tiny-2", "big-bcdfg-head"):
        api.put(kind="Event", metadata={"name": f"event-{name}"}, involvedObject={"kind": "Pod", "name": name})
    api.put(kind="RayService", metadata={"name": "big"})
    api.put(kind="RayCluster", metadata={"name": "big-bcdfg", "labels": {"ray.io/originated-from-cr-name": "big"}})
    ray_pod(api, "big-head", "big-bcdfg", "head")
    for name in ("n1", "n2"):
        api.put(kind="Node", metadata={"name": name}, status=NODE)
    api.answer("GET", "proxy/api/serve/applications/$", (200, {"applications": {}}))
    return api


def names(objects: Iterable[Any], kind: str) -> list[str]:
    return sorted(item["metadata"]["name"] for item in objects if item["kind"] == kind)


def look(cluster: Cluster) -> Snapshot:
    return collect(cluster, RAY_SERVICE, "tiny", "llm")


def test_all_of_a_service_and_nothing_of_its_neighbour(running: FakeAPI, cluster: Cluster) -> None:
    objects = look(cluster).objects
    assert names(objects, "RayService") == ["tiny"]
    assert names(objects, "RayCluster") == [RC]
    assert names(objects, "Pod") == ["head", "worker"]
    assert names(objects, "Service") == [f"{RC}-head-svc", "tiny-serve-svc"]
    assert names(objects, "EndpointSlice") == ["tiny-serve-svc-x"]
    assert names(objects, "Namespace") == ["llm"]
    assert names(objects, "Node") == ["n1"]


def test_events_of_what_is_and_of_what_was(running: FakeAPI, cluster: Cluster) -> None:
    about = {e["involvedObject"]["name"] for e in look(cluster).objects if e["kind"] == "Event"}
    assert about == {"tiny", f"{RC}-worker-zzzzz", "tiny-zzzzz-head-1", "tiny-serve-svc"}


def test_who_follows_a_service_reads_what_became_of_pods_that_were_gone_before(
    running: FakeAPI, cluster: Cluster
) -> None:
    """Once: it changes no more."""
    ended = f"Deleted worker Pod llm/{RC}-worker-zzzzz; Pod status: Failed; Ray container terminated status: …"
    about = {"kind": "RayCluster", "name": RC}
    running.put(kind="Event", metadata={"name": "ended"}, involvedObject=about, message=ended)
    collector = Collector(cluster, RAY_SERVICE, "tiny", "llm", following=True)
    for _ in range(2):
        events = [item for item in collector.collect().objects if item["kind"] == "Event"]
        assert f"{RC}-worker-zzzzz" in {event["involvedObject"]["name"] for event in events}
    asked = [one for one in running.requests if f"{RC}-worker-zzzzz" in one.query.get("fieldSelector", "")]
    assert len(asked) == 1


WATCHED = r"/(rayclusters|pods|endpointslices)$"


@pytest.fixture
def watching(running: FakeAPI, cluster: Cluster) -> Iterator[tuple[Collector, Watch]]:
    """A Collector that has looked once at `running`, and the Watch that it reads from."""
    with Watch(cluster, "llm") as changes:
        collector = Collector(cluster, RAY_SERVICE, "tiny", "llm", following=True, watch=changes)
        collector.collect()
        while running.watching() < 4:
            time.sleep(0.01)
        running.requests.clear()
        yield collector, changes


def of_service(found: Snapshot | None) -> list[tuple[str, str]]:
    """Kind, name and version of the objects that are watched."""
    assert found is not None
    kinds = ("RayService", "RayCluster", "Pod", "EndpointSlice")
    versions = ((item["kind"], item["metadata"]) for item in found.objects if item["kind"] in kinds)
    return sorted((kind, f"{metadata['name']} {metadata['resourceVersion']}") for kind, metadata in versions)


def test_what_is_watched_is_not_asked_for_again(
    running: FakeAPI, cluster: Cluster, watching: tuple[Collector, Watch]
) -> None:
    collector, changes = watching
    assert changes.drain() == []  # the first look has seen it all
    ray_pod(running, "new")
    running.remove("Pod", "worker")
    seen = changes.drain()
    while len(seen) < 2:
        assert changes.wait(10), seen
        seen += changes.drain()
    found = collector.collect()
    assert running.count("GET", WATCHED) == 0
    assert names(found.objects, "Pod") == ["head", "new"]
    assert of_service(found) == of_service(Collector(cluster, RAY_SERVICE, "tiny", "llm").collect())


def test_after_a_change_serve_alone_is_asked(
    running: FakeAPI, cluster: Cluster, watching: tuple[Collector, Watch]
) -> None:
    collector, changes = watching
    running.update("kuberay", "RayService", "tiny", status={"activeServiceStatus": {"rayClusterName": RC}, "new": 1})
    running.answer("GET", "proxy/api/serve/applications/$", (200, {"applications": {"new": {}}}))
    assert changes.wait(5)
    found = collector.refresh()
    assert found is not None
    assert [request.path.partition("proxy")[2] for request in running.requests] == ["/api/serve/applications/"]
    assert found.serve == {RC: {"applications": {"new": {}}}}
    assert names(found.objects, "Event") == names(collector.collect().objects, "Event")
    assert of_service(found) == of_service(Collector(cluster, RAY_SERVICE, "tiny", "llm").collect())


def test_after_a_change_all_is_asked_where_the_last_look_was_too_long_ago(
    watching: tuple[Collector, Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, _ = watching
    assert collector.refresh() is not None
    monkeypatch.setattr(snapshot, "RECENT_SECONDS", 0.0)
    assert collector.refresh() is None


def test_after_a_change_all_is_asked_where_a_watch_is_interrupted(
    running: FakeAPI, watching: tuple[Collector, Watch]
) -> None:
    collector, _ = watching
    running.answer("GET", "/pods$", status(503, "apiserver is starting", "ServiceUnavailable"), times=1)
    running.send(None)
    deadline = time.monotonic() + 5
    while (found := collector.refresh()) is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert found is None


def test_pods_of_a_ray_cluster_that_becomes_known_later_are_followed(
    running: FakeAPI, watching: tuple[Collector, Watch]
) -> None:
    collector, changes = watching
    ray_pod(running, "next-head", "tiny-next", "head")
    running.put(kind="RayCluster", metadata={"name": "tiny-next", "labels": FROM})
    assert changes.wait(5)
    assert collector.refresh() is None
    assert names(collector.collect().objects, "Pod") == ["head", "next-head", "worker"]
    changes.drain()
    ray_pod(running, "next-worker", "tiny-next")
    assert changes.wait(5)
    found = collector.refresh()
    assert found is not None
    assert names(found.objects, "Pod") == ["head", "next-head", "next-worker", "worker"]


def test_the_token_of_a_dashboard_is_read_once_and_again_when_it_does_not_answer(
    running: FakeAPI, cluster: Cluster
) -> None:
    spec = {"authOptions": {"mode": "token"}}
    running.put(**{**running.stored("RayCluster", RC), "spec": spec})
    running.put(kind="Secret", metadata={"name": RC}, data={"auth_token": "dG9rZW4="})
    collector = Collector(cluster, RAY_SERVICE, "tiny", "llm", following=True)
    for _ in range(2):
        collector.collect()
    assert running.count("GET", f"/secrets/{RC}$") == 1
    running.answer("GET", "proxy/api/serve/applications/$", status(401, "Unauthorized", "Unauthorized"), times=1)
    for _ in range(2):
        collector.collect()
    assert running.count("GET", f"/secrets/{RC}$") == 2


def test_objects_are_short_and_the_time_has_a_zone(running: FakeAPI, cluster: Cluster) -> None:
    snapshot = look(cluster)
    assert all("managedFields" not in item["metadata"] for item in snapshot.objects)
    record = {"manager": "x", "time": "2026-03-01T12:00:00Z", "operation": "Apply", "fieldsV1": {"f:spec": {}}}
    stored = running.stored("RayService", "tiny")
    running.put(**{**stored, "metadata": {**stored["metadata"], "managedFields": [record]}})
    (service,) = (item for item in look(cluster).objects if item["kind"] == "RayService")
    assert service["metadata"]["managedFields"] == [{"time": "2026-03-01T12:00:00Z"}]
    (node,) = (item for item in snapshot.objects if item["kind"] == "Node")
    assert "images" not in node["status"]
    assert abs((snapshot.now - datetime.now(UTC)).total_seconds()) < 60


def test_serves_answer_by_ray_cluster(running: FakeAPI, cluster: Cluster) -> None:
    assert look(cluster).serve == {RC: {"applications": {}}}
    assert running.count("GET", f"services/{RC}-head-svc:dashboard/proxy") == 1


def test_serve_is_not_asked_before_the_head_runs(running: FakeAPI, cluster: Cluster) -> None:
    ray_pod(running, "head", kind="head", status={"phase": "Pending"})
    assert look(cluster).serve == {}
    assert running.count("GET", "proxy") == 0


def test_while_a_pod_waits_for_a_node_all_nodes_and_their_pods_are_looked_at(
    running: FakeAPI, cluster: Cluster
) -> None:
    box = {"name": "c", "image": "secret-image", "resources": {"requests": {"cpu": "1"}}}
    running.put(
        kind="Pod", metadata={"name": "other", "namespace": "x"}, spec={"nodeName": "n2", "containers": [box]},
        status={"phase": "Running"},
    )  # fmt: skip
    operator = {"name": "operator", "namespace": "x", "labels": {"app.kubernetes.io/name": "kuberay-operator"}}
    running.put(kind="Pod", metadata=operator, spec={"nodeName": "n2", "containers": [box]})
    ray_pod(running, "worker", spec={"nodeName": ""})
    objects = look(cluster).objects
    assert names(objects, "Node") == ["n1", "n2"]
    assert names(objects, "Pod") == ["big-head", "head", "operator", "other", "worker"]
    (other,) = (item for item in objects if item["metadata"]["name"] == "other")
    assert other["spec"] == {"nodeName": "n2", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


def test_a_service_that_does_not_exist_is_shown_beside_those_that_may_be_meant(
    running: FakeAPI, cluster: Cluster
) -> None:
    found = collect(cluster, RAY_SERVICE, "tny", "llm")
    assert names(found.objects, "RayService") == ["big", "tiny"]
    health = diagnose(found, "tny", "llm")
    assert health.state is State.NOT_FOUND
    assert health.message.endswith("did you mean tiny?")


def test_pods_that_outlive_their_ray_cluster_are_found_while_the_service_goes(
    running: FakeAPI, cluster: Cluster
) -> None:
    running.remove("RayCluster", RC)
    running.remove("RayService", "tiny")
    ray_pod(running, "worker", deletionTimestamp="2026-11-21T10:00:00Z")
    ray_pod(running, "head", "tiny-2-bcdfg", "head", deletionTimestamp="2026-11-21T10:00:00Z")
    assert names(look(cluster).objects, "Pod") == ["worker"]


@pytest.mark.parametrize(
    "refused", ["/events", "/pods", "/rayclusters", "/nodes/n1", "/deployments", "/namespaces/llm$"]
)
def test_what_may_not_be_read_is_left_out_and_noted(running: FakeAPI, cluster: Cluster, refused: str) -> None:
    running.answer("GET", refused, status(403, FORBIDDEN, "Forbidden"))
    snapshot = look(cluster)
    assert names(snapshot.objects, "RayService") == ["tiny"]
    assert any("could not be read: not permitted to list x" in note for note in snapshot.notes)


def test_the_service_itself_must_be_readable(running: FakeAPI, cluster: Cluster) -> None:
    running.answer("GET", "/rayservices/tiny", status(403, FORBIDDEN, "Forbidden"))
    with pytest.raises(ForbiddenError):
        look(cluster)


def test_kuberay_is_missing(api: FakeAPI, cluster: Cluster) -> None:
    api.installed -= {"RayService", "RayCluster"}
    with pytest.raises(UserError, match="KubeRay is not installed"):
        look(cluster)


def test_logs_of_containers_that_failed(running: FakeAPI, cluster: Cluster) -> None:
    running.answer("GET", "/log$", lambda r: (200, f"{r.query['container']} {r.query['previous']}".encode()))
    boxes = [
        {"name": "crashed", "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}},
        {"name": "ended", "state": {"terminated": {"exitCode": 137}}},
        {"name": "well", "state": {"running": {}}},
        {"name": "done", "state": {"terminated": {"exitCode": 0}}},
    ]
    ray_pod(running, "worker", status={"containerStatuses": boxes})
    assert look(cluster).logs == {
        "worker/crashed.previous.log": "crashed true",
        "worker/ended.log": "ended false",
    }


def test_logs_of_failed_replicas(running: FakeAPI, cluster: Cluster) -> None:
    dead = {"actor_id": "c" * 32, "node_id": "n", "node_instance_id": "worker", "start_time_s": 1}
    failed = {"status": "DEPLOY_FAILED", "replicas": [], "recent_dead_replicas": [dead]}
    answer = {"applications": {"llm": {"status": "DEPLOY_FAILED", "deployments": {"LLMServer:m": failed}}}}
    running.answer("GET", "proxy/api/serve/applications/$", (200, answer))
    running.answer("GET", "proxy/api/v0/logs/file$", (200, b"why\n"))
    assert look(cluster).logs == {"worker/replica-llm.LLMServer.m-cccccccc.log": "why\nwhy\n"}


def test_the_operators_log_while_it_has_not_looked(running: FakeAPI, cluster: Cluster) -> None:
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    spec = {"containers": [{"name": "kuberay-operator"}]}
    running.put(kind="Pod", metadata={"name": "operator-1", "namespace": "kuberay", "labels": labels}, spec=spec)
    running.answer("GET", "/namespaces/kuberay/pods/operator-1/log$", (200, b"panic"))
    assert look(cluster).logs == {}
    running.put(**{**running.stored("RayService", "tiny"), "spec": {"a": 2}})
    assert look(cluster).logs == {"operator-1/kuberay-operator.log": "panic"}


def test_claims_of_the_pods(running: FakeAPI, cluster: Cluster) -> None:
    volumes = [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]
    ray_pod(running, "worker", spec={"volumes": volumes})
    for name in ("models", "other"):
        running.put(kind="PersistentVolumeClaim", metadata={"name": name})
    assert names(look(cluster).objects, "PersistentVolumeClaim") == ["models"]


def test_looks_have_a_known_price_and_later_ones_a_lower(running: FakeAPI, cluster: Cluster) -> None:
    collector = Collector(cluster, RAY_SERVICE, "tiny", "llm")
    first = collector.collect()
    assert len(running.requests) == 14
    assert running.count("GET", "/deployments") == 1
    second = collector.collect()
    assert len(running.requests) == 14 + 9
    assert running.count("GET", "/deployments") == 1
    assert len(first.objects) == len(second.objects)
