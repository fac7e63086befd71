from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.apply import leftovers as module
from rayllm_ctl.cluster.apply import replicas as ending
from rayllm_ctl.cluster.apply.delete import delete_service
from rayllm_ctl.cluster.apply.inventory import inventory
from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Applied, Noted
from tests.cluster.fakeapi import FakeAPI, Request, status

OURS = {"app.kubernetes.io/managed-by": "rayllm-ctl", "app.kubernetes.io/instance": "tiny"}
APPLIED = [{"manager": "rayllm-ctl", "operation": "Apply"}]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)


def put(api: FakeAPI, kind: str, name: str, *, managed: Any = APPLIED, labels: Any = OURS, **more: Any) -> dict[str, Any]:  # fmt: skip  # noqa: E501
    return api.put(kind=kind, metadata={"name": name, "labels": labels, "managedFields": managed, **more})


def ray_cluster(api: FakeAPI, name: str = "tiny-bcdfg") -> None:
    api.put(kind="RayCluster", metadata={"name": name, "labels": {"ray.io/originated-from-cr-name": "tiny"}})


def pod(api: FakeAPI, name: str, ray_cluster: str = "tiny-bcdfg", **more: Any) -> None:
    metadata = {"name": name, "labels": {"ray.io/cluster": ray_cluster}, **more}
    api.put(kind="Pod", metadata=metadata, spec={"nodeName": "n1"})


def leave(api: FakeAPI, *steps: tuple[str, str]) -> None:
    """At each look for pods, the next of `steps` (kind, name) is gone."""
    left = list(steps)

    def step(_request: Request) -> None:
        if left:
            api.remove(*left.pop(0))

    api.answer("GET", "llm/pods", step)


def test_the_inventory_is_what_we_applied_and_nobody_owns(api: FakeAPI, cluster: Cluster) -> None:
    put(api, "RayService", "tiny")
    put(api, "ConfigMap", "ours")
    put(api, "ConfigMap", "owned", ownerReferences=[{"kind": "RayService", "name": "tiny"}])
    put(api, "ConfigMap", "labelled-only", managed=[{"manager": "kubectl", "operation": "Apply"}])
    put(api, "ConfigMap", "patched-only", managed=[{"manager": "rayllm-ctl", "operation": "Update"}])
    put(api, "ConfigMap", "status-only", managed=[{**APPLIED[0], "subresource": "status"}])
    put(api, "ConfigMap", "of-another", labels={**OURS, "app.kubernetes.io/instance": "big"})
    put(api, "PersistentVolumeClaim", "data")
    put(api, "Secret", "token")
    assert [(item.kind, item.name) for item in inventory(cluster, "tiny", "llm").entries] == [
        ("RayService", "tiny"),
        ("ConfigMap", "ours"),
    ]


def test_kinds_that_are_not_installed_are_passed_over(api: FakeAPI, cluster: Cluster) -> None:
    api.installed -= {"ServiceMonitor", "HTTPRoute"}
    put(api, "ConfigMap", "ours")
    assert [item.name for item in inventory(cluster, "tiny", "llm").entries] == ["ours"]


def test_waits_until_the_pods_are_gone_though_their_cluster_went_first(api: FakeAPI, cluster: Cluster) -> None:
    put(api, "RayService", "tiny")
    put(api, "ConfigMap", "ours")
    ray_cluster(api)
    pod(api, "head")
    pod(api, "worker")
    leave(api, ("RayCluster", "tiny-bcdfg"), ("Pod", "head"), ("Pod", "worker"))
    events = list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5))
    assert events == [
        Applied("RayService", "tiny", "llm", "deleted"),
        Applied("ConfigMap", "ours", "llm", "deleted"),
        Noted("waiting for 2 pods of tiny to terminate"),
        Noted("waiting for 1 pod of tiny to terminate"),
    ]


def test_the_job_that_clears_a_redis_is_followed_to_its_failure(api: FakeAPI, cluster: Cluster) -> None:
    """KubeRay takes its finalizer away after a failure too, and says nothing of it in the objects that are left."""
    put(api, "RayService", "tiny")
    made = {"name": "tiny-bcdfg", "labels": {"ray.io/originated-from-cr-name": "tiny"}}
    uid = api.put(kind="RayCluster", metadata=made)["metadata"]["uid"]
    cleanup = {"name": "c", "labels": {"ray.io/cluster": "tiny-bcdfg", "ray.io/node-type": "redis-cleanup"}}
    phases = iter(["Running", "Failed"])

    def look(_request: Request) -> None:
        if phase := next(phases, None):
            api.put(kind="Pod", metadata=cleanup, status={"phase": phase})
        else:
            api.remove("RayCluster", "tiny-bcdfg")
            api.remove("Pod", "c")

    api.answer("GET", "llm/pods", look)
    events = list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5))
    assert [event.message for event in events if isinstance(event, Noted)] == [
        "waiting for the Job that clears the Redis of RayCluster tiny-bcdfg",
        "the Job that clears the Redis of RayCluster tiny-bcdfg failed, and its data remains in Redis; "
        f"to delete it: redis-cli --scan --pattern '*{uid}*' | xargs redis-cli del",
    ]


@pytest.mark.parametrize("finalizers", [["ray.io/gcs-ft-redis-cleanup-finalizer"], []])
def test_a_redis_that_kuberay_gave_up_clearing_is_reported(
    api: FakeAPI, cluster: Cluster, finalizers: list[str]
) -> None:
    put(api, "RayService", "tiny")
    made = {"name": "tiny-bcdfg", "labels": {"ray.io/originated-from-cr-name": "tiny"}, "finalizers": finalizers}
    uid = api.put(kind="RayCluster", metadata=made)["metadata"]["uid"]
    api.answer("GET", "llm/pods", lambda _request: api.remove("RayCluster", "tiny-bcdfg"))
    events = list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5))
    assert [event.message for event in events if isinstance(event, Noted)] == [
        "KubeRay did not run the Job that clears the Redis of RayCluster tiny-bcdfg: its data remains in Redis; "
        f"to delete it: redis-cli --scan --pattern '*{uid}*' | xargs redis-cli del"
        for _ in finalizers
    ]
    [deleted] = [request.json() for request in api.requests if request.method == "DELETE"]
    # In the foreground the service account of the Job's pod would go first.
    assert deleted["propagationPolicy"] == ("Background" if finalizers else "Foreground")


REPLICAS = "tiny-bcdfg-head-svc:dashboard/proxy/api/serve/applications/$"


def serving(api: FakeAPI, *states: list[str]) -> None:
    """A service that rayllm-ctl applied, and the states of its replicas at each look, the last again."""
    fields: dict[str, Any] = {"f:spec": {"f:serveConfigV2": {}}}
    put(api, "RayService", "tiny", managed=[{**APPLIED[0], "fieldsV1": fields}])
    status = {"activeServiceStatus": {"rayClusterName": "tiny-bcdfg"}}
    spec = {"serveConfigV2": "applications: [{name: tiny}]"}
    api.put(**{**api.stored("RayService", "tiny"), "spec": spec, "status": status})
    ray_cluster(api)
    looks = iter(states)
    last = [states[-1]]

    def look(_request: Request) -> Any:
        last[0] = next(looks, last[0])
        replicas = [{"state": state} for state in last[0] if state != "STOPPING"]
        app = {"status": "RUNNING", "deployments": {"LLMServer:tiny": {"replicas": replicas}}}
        # What Ray 2.60 answers while the replicas of a deleted application end.
        applications = {"tiny": app if replicas else {"status": "DELETING", "deployments": {}}} if last[0] else {}
        return 200, {"controller_info": {"node_id": "a"}, "proxies": {}, "applications": applications}

    api.answer("GET", REPLICAS, look)


def test_serve_ends_the_replicas_before_their_pods_are_deleted(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted at once, an idle worker would wait for a head that is gone, with its GPUs, for a minute and a half."""
    monkeypatch.setattr(ending, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(ending, "QUIET_SECONDS", -1.0)
    serving(api, ["RUNNING"] * 2, ["RUNNING"] * 2, ["STOPPING"] * 2, ["STOPPING"], [])
    leaving: dict[str, Any] = {"deletionTimestamp": "2026-11-21T10:00:00Z", "deletionGracePeriodSeconds": 140}
    pod(api, "worker", **leaving)
    pod(api, "cleanup", **leaving)
    # Of the RayCluster before an upgrade, which may still answer.
    api.put(kind="RayCluster", metadata={"name": "tiny-old", "labels": {"ray.io/originated-from-cr-name": "tiny"}})
    pod(api, "old", "tiny-old", **leaving)
    gone = [(kind, name) for kind in ("RayCluster", "Pod") for name in api.names(kind)]
    gone.append(("Pod", "head"))
    cleanup = api.stored("Pod", "cleanup")
    cleanup["metadata"]["labels"]["ray.io/node-type"] = "redis-cleanup"
    api.put(**cleanup)
    pod(api, "head")
    looks = iter(range(9))

    def look(_request: Request) -> None:
        if next(looks) == 2:
            for kind, name in gone:
                api.remove(kind, name)

    api.answer("GET", "llm/pods$", look)
    events = list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5))
    notes = [event.message for event in events if isinstance(event, Noted)]
    assert notes[0] == "waiting for the replicas of tiny to answer their last requests"
    writes = [one for one in api.requests if one.method in ("PATCH", "DELETE")]
    first, *ended, last = [one.path.rpartition("/")[2] for one in writes]
    assert (first, sorted(ended), last) == ("tiny", ["head", "worker"], "tiny")
    assert writes[0].json()["spec"] == {"serveConfigV2": "applications: []\n"}
    assert {one.json()["gracePeriodSeconds"] for one in writes[1:-1]} == {2}


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (status(503, "no endpoints available"), "may take minutes: no endpoints available"),
        ((200, {"controller_info": {}, "proxies": {}, "applications": {}}), "does not reach Serve's controller"),
        (None, "KubeRay does not send the change to Serve"),
    ],
)
def test_where_serve_does_not_end_them_replicas_end_with_their_pods(
    api: FakeAPI, cluster: Cluster, answer: Any, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(ending, "PATIENCE_SECONDS", 0.05)
    serving(api, ["RUNNING"])
    if answer:
        api.answer("GET", REPLICAS, answer)
    pod(api, "worker", deletionTimestamp="2026-11-21T10:00:00Z", deletionGracePeriodSeconds=140)
    leave(api, ("RayCluster", "tiny-bcdfg"), ("Pod", "worker"))
    events = list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5))
    assert any(note in event.message for event in events if isinstance(event, Noted)), events
    assert api.count("DELETE", "/pods/") == 0, "requests may be running there"
    assert api.names("RayService") == []


def test_where_serve_was_never_started_no_replica_runs(api: FakeAPI, cluster: Cluster) -> None:
    serving(api, [])
    service = api.stored("RayService", "tiny")
    api.put(**{**service, "status": {"pendingServiceStatus": {"rayClusterName": "tiny-bcdfg"}}})
    api.answer("GET", REPLICAS, (200, {"controller_info": {}, "proxies": {}, "applications": {}}))
    pod(api, "worker", deletionTimestamp="2026-11-21T10:00:00Z", deletionGracePeriodSeconds=140)

    def look(_request: Request) -> None:
        api.remove("RayCluster", "tiny-bcdfg")
        if api.count("DELETE", "/pods/worker"):
            api.remove("Pod", "worker")

    api.answer("GET", "llm/pods$", look)
    list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5))
    assert api.count("DELETE", "/pods/worker") == 1


def interrupt(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_an_interruption_before_anything_was_changed_deletes_nothing(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(api, ["RUNNING"])
    monkeypatch.setattr(ending, "dashboard_of", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5))
    assert [one.path for one in api.requests if one.method in ("PATCH", "DELETE")] == []


def test_a_deletion_that_is_interrupted_while_it_says_what_it_waits_for_goes_on(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "QUIET_SECONDS", -1.0)
    serving(api, ["RUNNING"], ["STOPPING"])
    events = delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5)
    assert next(events) == Noted("waiting for the replicas of tiny to answer their last requests")
    events.close()  # type: ignore[attr-defined]  # as where the one that prints it is interrupted
    assert api.names("RayService") == []


def test_a_deletion_that_is_interrupted_while_replicas_end_goes_on(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(api, ["RUNNING"], ["STOPPING"])
    # The module's own clock: threads of other tests keep sleeping.
    clock = SimpleNamespace(sleep=interrupt, monotonic=time.monotonic)
    monkeypatch.setattr("rayllm_ctl.cluster.apply.replicas.time", clock)
    with pytest.raises(KeyboardInterrupt):
        list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=5))
    assert api.names("RayService") == []


def test_pods_of_others_are_not_waited_for(api: FakeAPI, cluster: Cluster) -> None:
    put(api, "RayService", "tiny")
    pod(api, "a", "tiny-2-bcdfg", deletionTimestamp="2026-11-21T10:00:00Z")
    pod(api, "b", "tiny-bcdfg")
    events = list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=30))
    assert events == [Applied("RayService", "tiny", "llm", "deleted")]


def test_run_again_it_goes_on_waiting_for_pods_that_are_left(api: FakeAPI, cluster: Cluster) -> None:
    pod(api, "head", deletionTimestamp="2026-11-21T10:00:00Z")
    leave(api, ("ConfigMap", "x"))
    put(api, "ConfigMap", "x", managed=[])
    with pytest.raises(WaitTimeoutError) as caught:
        list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=0.05))
    assert "Pod head: on node n1; being deleted since 2026-11-21T10:00:00Z" in caught.value.message
    api.remove("Pod", "head")
    with pytest.raises(NotFoundError):
        list(delete_service(cluster, RAY_SERVICE, "tiny", "llm"))


def test_what_hangs_is_named_with_its_finalizers(api: FakeAPI, cluster: Cluster) -> None:
    put(api, "RayService", "tiny", finalizers=["ray.io/rayservice-finalizer"])
    with pytest.raises(WaitTimeoutError) as caught:
        list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", timeout=0.05))
    assert "RayService tiny: finalizers ray.io/rayservice-finalizer; being deleted since" in caught.value.message
    assert caught.value.exit_code == 3
    assert any("is the KubeRay operator running?" in hint for hint in caught.value.hints)


def test_without_waiting(api: FakeAPI, cluster: Cluster) -> None:
    put(api, "RayService", "tiny", finalizers=["x"])
    events = list(delete_service(cluster, RAY_SERVICE, "tiny", "llm", wait=False))
    assert events == [Applied("RayService", "tiny", "llm", "deleted")]


def test_a_service_of_another_hand_is_deleted_when_named(api: FakeAPI, cluster: Cluster) -> None:
    put(api, "RayService", "tiny", managed=[{"manager": "kubectl", "operation": "Update"}], labels={})
    assert len(list(delete_service(cluster, RAY_SERVICE, "tiny", "llm"))) == 1
    with pytest.raises(KeyError):
        api.stored("RayService", "tiny")


def test_an_object_that_took_the_name_meanwhile_is_spared(api: FakeAPI, cluster: Cluster) -> None:
    put(api, "RayService", "tiny")

    def replace(_request: Request) -> None:
        api.remove("RayService", "tiny")
        put(api, "RayService", "tiny")

    api.answer("DELETE", "rayservices", replace)
    with pytest.raises(UserError, match="was replaced by another object"):
        list(delete_service(cluster, RAY_SERVICE, "tiny", "llm"))
    assert api.stored("RayService", "tiny")


def test_there_is_no_such_service(api: FakeAPI, cluster: Cluster) -> None:
    put(api, "RayService", "tiny")
    with pytest.raises(NotFoundError, match="there is no service tinny in namespace llm") as caught:
        list(delete_service(cluster, RAY_SERVICE, "tinny", "llm"))
    assert caught.value.hints[0] == "did you mean tiny?"
    assert list(delete_service(cluster, RAY_SERVICE, "tinny", "llm", ignore_not_found=True)) == []


def test_kuberay_is_missing(api: FakeAPI, cluster: Cluster) -> None:
    api.installed -= {"RayService", "RayCluster"}
    with pytest.raises(UserError, match="KubeRay is not installed"):
        list(delete_service(cluster, RAY_SERVICE, "tiny", "llm"))
