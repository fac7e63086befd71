"""The steps of a deployment, each by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rayllm_ctl.cluster import Cluster, connect
from rayllm_ctl.cluster.api.permissions import Permissions
from rayllm_ctl.cluster.apply.inventory import Entry, inventory
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Applied, Checked, Event, Noted
from rayllm_ctl.model.kube.labels import INSTANCE, MANAGED_BY, MANAGER
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.workload import Right, Rights
from rayllm_ctl.planner.deployment.ray_token import TokenDecision
from rayllm_ctl.workflows.render.types import Decided, Rendering
from rayllm_ctl.workflows.rollout.deploy import (
    DeployOptions,
    apply_manifests,
    apply_steps,
    check_apply,
    find_surplus,
    manifests_to_apply,
    prepare_upgrade,
)
from rayllm_ctl.workflows.rollout.prerequisites import check_prerequisites, fit, read_for_apply
from rayllm_ctl.workflows.rollout.upgrade.strategy import Upgrade
from rayllm_ctl.workflows.services import ServiceRef, read_service_ref
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving

T = TypeVar("T")

NEEDED = (Right("get", "RayService"), Right("patch", "RayService"))
RIGHTS = Rights(NEEDED, (Right("list", "Node"), Right("list", "Pod", everywhere=True)))
LABELS = {MANAGED_BY: MANAGER, INSTANCE: "tiny"}
NO_WAIT = DeployOptions(wait=False, record=False)


def ray_service(**config: Any) -> dict[str, Any]:
    head = {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray-head", "image": "i:1"}]}}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "tiny", "labels": LABELS},
        "spec": {"serveConfigV2": "applications: []", "rayClusterConfig": {**head, "workerGroupSpecs": [], **config}},
    }


def network_policy() -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "tiny", "labels": LABELS},
        "spec": {"podSelector": {}},
    }


def made(*manifests: dict[str, Any]) -> Rendering:
    return Rendering("tiny", "llm", manifests or (ray_service(),), (), None)


def undecided(rendered: list[TokenDecision], template: dict[str, Any] | None = None) -> Rendering:
    """A rendering of which the cluster decides on the token. rendered: the decisions that it is rendered again with.

    template: what is rendered whatever is decided.
    """

    def render(token: TokenDecision) -> Rendering:
        rendered.append(token)
        config = {"authOptions": {"mode": "token"}} if token.mode == "token" else {}
        return made(template or ray_service(rayVersion="2.60.0", **config))

    token = TokenDecision("token")
    first = render(token)
    rendered.clear()
    return dataclasses.replace(first, decided=Decided(LLMService("tiny"), token, render))


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    with serving() as running:
        fakekuberay.operator(running)
        yield running


@pytest.fixture
def cluster(api: FakeAPI, tmp_path: Path) -> Cluster:
    return connect(str(kubeconfig(tmp_path / "kubeconfig", api.url, token="s3cret-token")), request_timeout=5)


@pytest.fixture
def service(cluster: Cluster) -> ServiceRef:
    """The service before anything of it is there."""
    return read_service_ref(cluster, RAY_SERVICE, "tiny", "llm", NEEDED)


def result(steps: Generator[Event, None, T]) -> tuple[list[Event], T]:
    """The events of a step, and what it returns."""
    events: list[Event] = []
    while True:
        try:
            events.append(next(steps))
        except StopIteration as end:
            return events, end.value


def deployed(service: ServiceRef, *manifests: dict[str, Any]) -> ServiceRef:
    """The service once these manifests are applied."""
    one = made(*manifests)
    result(apply_manifests(service, manifests_to_apply(service, one, NO_WAIT), NO_WAIT))
    return read_service_ref(service.cluster, RAY_SERVICE, "tiny", "llm", NEEDED)


def paths(api: FakeAPI, method: str) -> list[str]:
    return [request.path.rpartition("/")[2] for request in api.requests if request.method == method]


def test_a_service_that_was_read_is_not_read_again(api: FakeAPI, cluster: Cluster, service: ServiceRef) -> None:
    known = deployed(service, ray_service())
    api.requests.clear()
    assert result(read_for_apply(cluster, made(), "llm", RIGHTS, known)) == ([], known)
    assert api.requests == []


def test_rights_that_are_missing_of_a_service_that_was_read(
    api: FakeAPI, cluster: Cluster, service: ServiceRef
) -> None:
    deployed(service, ray_service())
    api.granted = {(verb, "rayservices.ray.io", False) for verb in ("get", "patch")}
    known = read_service_ref(cluster, RAY_SERVICE, "tiny", "llm", NEEDED)
    with pytest.raises(ClusterError, match="not permitted to watch rayservices"):
        result(read_for_apply(cluster, made(), "llm", Rights((*NEEDED, Right("watch", "RayService"))), known))


def test_a_service_without_an_object_is_looked_for_under_both_kinds(
    api: FakeAPI, cluster: Cluster, service: ServiceRef
) -> None:
    api.put(apiVersion="ray.io/v1", kind="RayCluster", metadata={"name": "tiny", "labels": LABELS}, spec={})
    with pytest.raises(UserError, match="raycluster/tiny exists in namespace llm"):
        result(read_for_apply(cluster, made(), "llm", RIGHTS, service))


def test_the_capacity_is_checked_for_a_new_service_only(api: FakeAPI, service: ServiceRef) -> None:
    names = [check.name for check in check_prerequisites(service, made(), RIGHTS)]
    assert names == ["KubeRay", "namespace", "permissions", "capacity"]
    known = deployed(service, ray_service())
    api.requests.clear()
    assert [check.name for check in check_prerequisites(known, made(), RIGHTS)] == names[:-1]
    assert "nodes" not in paths(api, "GET")


def test_nodes_that_were_read_are_no_right_to_ask_for(api: FakeAPI, service: ServiceRef) -> None:
    api.requests.clear()
    list(check_prerequisites(service, made(), RIGHTS))
    assert paths(api, "POST") == []


def test_nodes_that_may_not_be_read(api: FakeAPI, service: ServiceRef) -> None:
    api.granted = {("list", "pods", True)}
    *_, permissions, capacity = check_prerequisites(service, made(), RIGHTS)
    assert permissions == Checked("permissions", None, "not permitted to list nodes")
    assert capacity == Checked("capacity", None, "not permitted to list nodes")


def test_the_token_stays_off_where_the_service_has_none(service: ServiceRef) -> None:
    known, rendered = deployed(service, ray_service()), list[TokenDecision]()
    (told,), one = result(fit(known, undecided(rendered)))
    assert isinstance(told, Checked)
    assert told.name == "token authentication"
    assert "authOptions" not in one.manifests[0]["spec"]["rayClusterConfig"]
    assert [token.mode for token in rendered] == ["none"]


def test_nothing_is_rendered_again_where_the_cluster_decides_the_same(service: ServiceRef) -> None:
    known = deployed(service, ray_service(authOptions={"mode": "token"}))
    for ref in (service, known):
        rendered = list[TokenDecision]()
        one = undecided(rendered)
        assert result(fit(ref, one)) == ([], one)
        assert rendered == []


def test_nothing_is_said_of_a_token_that_is_not_rendered(service: ServiceRef) -> None:
    known, rendered = deployed(service, ray_service()), list[TokenDecision]()
    told, one = result(fit(known, undecided(rendered, template=ray_service())))
    assert told == []
    assert one.manifests == (ray_service(),)


def test_what_is_no_longer_rendered_is_surplus(cluster: Cluster, service: ServiceRef) -> None:
    known = deployed(service, ray_service(), network_policy())
    events, surplus = result(find_surplus(known, made(), inventory(cluster, "tiny", "llm")))
    assert (events, [(one.kind, one.name) for one in surplus]) == ([], [("NetworkPolicy", "tiny")])
    assert (
        result(find_surplus(known, made(ray_service(), network_policy()), inventory(cluster, "tiny", "llm")))[1] == []
    )


def test_surplus_that_may_not_be_deleted(api: FakeAPI, cluster: Cluster, service: ServiceRef) -> None:
    known = deployed(service, ray_service(), network_policy())
    applied = inventory(cluster, "tiny", "llm")
    api.granted = set()
    known = dataclasses.replace(known, permissions=Permissions(cluster, "llm"))
    with pytest.raises(ClusterError, match="not permitted to delete networkpolicies"):
        result(find_surplus(known, made(), applied))


def test_kinds_that_could_not_be_listed_are_noted(api: FakeAPI, cluster: Cluster, service: ServiceRef) -> None:
    known = deployed(service, ray_service())
    api.granted = set()
    (told,), surplus = result(find_surplus(known, made(), inventory(cluster, "tiny", "llm", only=("Ingress",))))
    assert surplus == []
    assert isinstance(told, Noted)
    assert told.message.startswith("not permitted to list ingresses.networking.k8s.io in namespace llm")


@pytest.mark.parametrize("way", ["auto", None])
def test_a_new_service_needs_no_upgrade(api: FakeAPI, cluster: Cluster, service: ServiceRef, way: Any) -> None:
    applied = inventory(cluster, "tiny", "llm")
    api.requests.clear()
    options = dataclasses.replace(NO_WAIT, upgrade=way)
    assert result(prepare_upgrade(service, made(), applied, options)) == ([], Upgrade())
    assert api.requests == []


def test_a_dry_run_writes_nothing(api: FakeAPI, service: ServiceRef) -> None:
    surplus = [Entry("NetworkPolicy", "old", "llm", "uid-1")]
    assert list(check_apply(service, made(), surplus, NO_WAIT)) == [
        Applied("RayService", "tiny", "llm", "created", True),
        Applied("NetworkPolicy", "old", "llm", "deleted", True),
    ]
    assert [request.query.get("dryRun") for request in api.requests if request.method == "PATCH"] == ["All"]
    assert "DELETE" not in [request.method for request in api.requests]


def test_annotations_of_a_deployment_are_on_each_object(service: ServiceRef) -> None:
    options = dataclasses.replace(NO_WAIT, annotations={"team": "search"})
    found = manifests_to_apply(service, made(ray_service(), network_policy()), options)
    assert [item["metadata"]["annotations"] for item in found] == [{"team": "search"}] * 2
    assert [item["metadata"]["namespace"] for item in found] == ["llm"] * 2


def test_a_new_service_is_not_read_before_it_is_applied(api: FakeAPI, service: ServiceRef) -> None:
    api.requests.clear()
    events, (done, stored) = result(apply_manifests(service, [ray_service()], NO_WAIT))
    assert events == done == [Applied("RayService", "tiny", "llm", "created", False)]
    assert stored["metadata"]["uid"] == api.stored("RayService", "tiny")["metadata"]["uid"]
    assert [request.method for request in api.requests] == ["PATCH"]


def test_the_surplus_goes_after_the_apply(api: FakeAPI, cluster: Cluster, service: ServiceRef) -> None:
    known = deployed(service, ray_service(), network_policy())
    surplus = inventory(cluster, "tiny", "llm", ("RayService",)).entries
    changed = made(ray_service(rayVersion="2.60.0"))
    events = list(apply_steps(known, changed, surplus, Upgrade(), 1.0, NO_WAIT, None))
    assert [(event.kind, event.action) for event in events if isinstance(event, Applied)] == [
        ("RayService", "configured"),
        ("NetworkPolicy", "deleted"),
    ]


def test_an_upgrade_in_two_steps_applies_its_first_step_first(api: FakeAPI, service: ServiceRef) -> None:
    known = deployed(service, ray_service())
    api.requests.clear()
    first = ray_service(rayVersion="first")
    list(apply_steps(known, made(ray_service(rayVersion="last")), [], Upgrade(first=first), 1.0, NO_WAIT, None))
    versions = [
        request.json()["spec"]["rayClusterConfig"]["rayVersion"]
        for request in api.requests
        if request.method == "PATCH" and request.path.endswith("/rayservices/tiny")
    ]
    assert versions == ["first", "last"]
