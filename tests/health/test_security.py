"""What the security checks say of objects: what rayllm-ctl renders, a RayCluster of KubeRay's samples, and changes."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from rayllm_ctl.health.security import read_checked_service, security_checks
from rayllm_ctl.health.security.selectors import selects
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Snapshot
from tests.bases import SPECS, stored
from tests.health.kuberayobjects import Object, binding, item, running
from tests.tokens import without_token

NAME = "foreign"


def rendered(case: str, *, token: bool = True) -> list[Object]:
    """The objects of a rendered spec as they are while it runs. token: whether Ray asks for one."""
    documents = [one for one in yaml.safe_load_all(stored(SPECS / f"{case}.yaml")) if one]
    [workload] = [one for one in documents if one["kind"] in ("RayService", "RayCluster")]
    beside = [one for one in documents if one is not workload]
    if not token:
        [workload] = without_token([workload])
    return [*running(workload), *({**one, "metadata": {**one["metadata"], "namespace": "llm"}} for one in beside)]


def foreign(**cluster: Any) -> Object:
    """A RayCluster as in KubeRay's samples: nothing is said about security."""

    def template(name: str) -> Object:
        return {"spec": {"containers": [{"name": name, "image": "rayproject/ray:2.60.0"}]}}

    spec = {
        "rayVersion": "2.60.0",
        "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head")},
        "workerGroupSpecs": [{"groupName": "small", "rayStartParams": {}, "template": template("ray-worker")}],
        **cluster,
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": NAME}, "spec": spec}


def look(
    objects: list[Object],
    *,
    key: bool | None = False,
    kuberay: str | None = "1.6.2",
    unread: frozenset[str] = frozenset(),
) -> list[Check]:
    workload = next(one for one in objects if one["kind"] in ("RayService", "RayCluster"))
    snapshot = Snapshot(tuple(objects), datetime(2026, 11, 25, tzinfo=UTC), unread=unread)
    return list(security_checks(read_checked_service(snapshot, workload, kuberay, key)))


def by_name(checks: list[Check]) -> dict[str, Check]:
    found = {check.name: check for check in checks}
    assert len(found) == len(checks), [check.name for check in checks]
    return found


def changed(objects: list[Object], kind: str, path: str, value: Any) -> list[Object]:
    """The objects with a field of each object of a kind set; numbers of the path index lists."""
    objects = copy.deepcopy(objects)
    for one in objects:
        if one["kind"] != kind:
            continue
        part: Any = one
        *way, last = path.split(".")
        for step in way:
            part = part[int(step)] if step.isdigit() else part.setdefault(step, {})
        part[last] = value
    return objects


def policy(name: str, selector: Object, *rules: Object) -> Object:
    return item("NetworkPolicy", name, spec={"podSelector": selector, "policyTypes": ["Ingress"], "ingress": rules})


def failed(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if check.ok is False}


# What rayllm-ctl renders.


def test_what_is_rendered_is_closed_but_for_the_connections() -> None:
    checks = look(rendered("small-model-on-l4"))
    assert failed(checks) == set()
    assert {check.name for check in checks if check.ok is None} == {"NetworkPolicy", "API keys"}


def test_without_a_token_the_connections_are_open() -> None:
    checks = look(rendered("small-model-on-l4", token=False))
    found = by_name(checks)
    name = found["RayService small-model-on-l4"].detail
    assert name == "RayCluster small-model-on-l4-bcdfg, 2 pods, Ray 2.60.0, KubeRay 1.6.2"
    assert failed(checks) == {"token authentication", "NetworkPolicy"}
    hints = [str(hint) for check in checks if check.ok is False for hint in check.hints]
    assert hints == [
        "set spec.ray.authentication.mode: token in the spec file, then rayllm-ctl deploy -f FILE",
        "set spec.security.network: restricted in the spec file, then rayllm-ctl deploy -f FILE",
    ]
    assert found["head/ray-head"].detail == (
        "user 1000, no privilege escalation, no capabilities, seccomp RuntimeDefault"
    )
    assert found["head/autoscaler"].ok
    assert found["group gpu/wait-gcs-ready"].ok
    assert found["Pod Security of head"] == Check("pods", "Pod Security of head", True, "restricted")
    assert found["token in head"].detail == (
        "that of small-model-on-l4-bcdfg in autoscaler alone, which adds and removes workers with it"
    )
    assert found["token in group gpu"].detail == "none"
    assert found["rights of small-model-on-l4-bcdfg"].ok
    assert found["objects"].ok


def test_with_a_token_and_a_policy_nothing_fails() -> None:
    checks = look(rendered("restricted-network"), key=True)
    found = by_name(checks)
    assert failed(checks) == set()
    assert found["token authentication"].detail == "on: clients of Ray's ports must send the token of the RayCluster"
    assert found["NetworkPolicy"].detail.endswith("restricts who connects to head, group gpu")
    own = "pods with rayllm.io/service=qwen3-8b"
    operator = "kuberay-operator in namespace ray-system"
    assert operator in found["dashboard (8265)"].detail
    assert found["GCS (6379)"].detail == found["Ray client (10001)"].detail == f"open to {own}"
    assert found["enforcement"].ok is None
    assert str(found["enforcement"].hints[0]).endswith("8265    # must time out")


def test_a_service_with_a_token_warns_of_the_connections_only() -> None:
    checks = look(rendered("redis-and-token"))
    assert failed(checks) == set()
    check = by_name(checks)["NetworkPolicy"]
    assert check.ok is None
    assert check.detail.endswith("; Ray's ports ask for the token")


def test_a_service_in_mode_raycluster() -> None:
    checks = look(rendered("raycluster-tp4", token=False))
    found = by_name(checks)
    assert found["token in head"].detail == "none"
    assert str(found["token authentication"].hints[0]).startswith("set spec.ray.authentication.mode: token")
    assert not [check for check in checks if check.name.startswith("rights of")]


# A RayCluster that says nothing about security.


def test_a_cluster_that_says_nothing_is_open() -> None:
    checks = look(running(foreign()))
    found = by_name(checks)
    assert failed(checks) == {
        "token authentication", "NetworkPolicy", "token in head", "token in group small", "head/ray-head",
        "Pod Security of head", "group small/wait-gcs-ready", "group small/ray-worker", "Pod Security of group small",
    }  # fmt: skip
    assert tuple(map(str, found["token authentication"].hints)) == (
        "set spec.authOptions.mode: token in RayCluster foreign",
    )
    assert found["NetworkPolicy"].detail == (
        "none selects head, group small: every pod of the cluster can connect to dashboard (8265), GCS (6379), "
        "Ray client (10001), Serve (8000)"
    )
    assert found["head/ray-head"].detail == (
        "runs as the user of the image, which may be root; privilege escalation; default capabilities; "
        "no seccomp profile"
    )
    assert found["Pod Security of head"].detail == "baseline"
    assert found["rights of default"].detail == "none by RBAC"
    assert tuple(map(str, found["token in group small"].hints)) == (
        "set spec.workerGroupSpecs[].template.spec.automountServiceAccountToken: false",
    )


def test_a_token_in_the_ray_container_of_an_autoscaled_head() -> None:
    found = by_name(look(running(foreign(enableInTreeAutoscaling=True))))
    assert found["token in head"].ok is False
    assert found["token in head"].detail == "that of foreign in ray-head, autoscaler: code that runs there can use it"
    assert "autoscalerOptions.volumeMounts" in str(found["token in head"].hints[0])
    assert found["rights of foreign"].ok
    assert "get, patch rayclusters.ray.io" in found["rights of foreign"].detail


def test_a_token_that_is_not_for_the_api_server_does_not_count() -> None:
    objects = running(foreign())
    token = {"serviceAccountToken": {"path": "token", "audience": "vault"}}
    objects = changed(objects, "Pod", "spec.volumes.0.projected.sources", [token])
    assert by_name(look(objects))["token in head"].detail == "none"


def test_tokens_of_kubernetes_are_needed_where_ray_checks_them() -> None:
    objects = running(foreign(authOptions={"mode": "token", "enableK8sTokenAuth": True}))
    found = by_name(look(objects))
    assert found["token authentication"].ok
    assert found["token in group small"].ok is None
    assert "enableK8sTokenAuth requires it" in found["token in group small"].detail


# Token authentication.


def test_an_older_ray_is_a_warning_that_says_what_it_needs() -> None:
    check = by_name(look(running(foreign(rayVersion="2.40.0"))))["token authentication"]
    assert check.ok is None
    assert check.detail.endswith("; Ray 2.40.0 does not support it (requires 2.52)")


@pytest.mark.parametrize(("version", "ok"), [("1.4.2", None), ("1.5.0", None), ("1.5.1", False), (None, False)])
def test_an_older_kuberay_is_a_warning_that_says_how_to_upgrade(version: str | None, ok: bool | None) -> None:
    check = by_name(look(running(foreign()), kuberay=version))["token authentication"]
    assert check.ok is ok
    assert str(check.hints[0]).startswith("helm upgrade kuberay-operator") is (ok is None)


def test_a_missing_version_of_ray_is_named_in_the_hint() -> None:
    check = by_name(look(running(foreign(rayVersion=""))))["token authentication"]
    assert tuple(map(str, check.hints)) == (
        "set spec.rayVersion: the version of Ray in the image, 2.52 or newer, and authOptions.mode: token in "
        "RayCluster foreign",
    )


def test_what_the_pods_run_with_counts_and_not_the_spec() -> None:
    objects = changed(rendered("redis-and-token"), "Pod", "spec.containers.0.env", [])
    check = by_name(look(objects))["token authentication"]
    assert check.ok is False
    assert "the spec turns it on, and no head with it runs yet" in check.detail


def test_without_pods_the_templates_are_checked() -> None:
    objects = [one for one in rendered("redis-and-token") if one["kind"] != "Pod"]
    found = by_name(look(objects))
    assert found["RayService redis-and-token"].ok is None
    assert "no pod runs" in found["RayService redis-and-token"].detail
    assert found["token authentication"].ok
    assert found["head/ray-head"].ok
    assert found["token in head"].ok


def test_a_template_that_says_nothing_gets_a_token() -> None:
    objects = [one for one in running(foreign()) if one["kind"] != "Pod"]
    assert by_name(look(objects))["token in head"].detail.startswith("that of default in ray-head")


def test_without_a_raycluster_too() -> None:
    workload = next(one for one in rendered("redis-and-token") if one["kind"] == "RayService")
    found = by_name(look([workload]))
    assert found["token authentication"].ok
    assert found["group gpu/ray-worker"].ok


def test_both_rayclusters_of_an_upgrade_count() -> None:
    objects = rendered("redis-and-token")
    older = [
        one for one in changed(objects, "Pod", "spec.containers.0.env", [])
        if one["kind"] in ("RayCluster", "Pod")
    ]  # fmt: skip
    for one in older:
        one["metadata"] = {**one["metadata"], "name": f"{one['metadata']['name']}-old", "uid": "old"}
        labels = one["metadata"]["labels"] = dict(one["metadata"]["labels"])
        if one["kind"] == "Pod":
            labels["ray.io/cluster"] += "-old"
    found = by_name(look([*objects, *older]))
    assert found["token authentication"].ok is False
    assert found["head of redis-and-token-bcdfg/ray-head"].ok
    assert found["head of redis-and-token-bcdfg-old/ray-head"].ok


# NetworkPolicies.


def every(**parts: Any) -> Object:
    return {"from": [{"podSelector": {}, **parts}]}


@pytest.mark.parametrize(
    ("rule", "ok", "told"),
    [
        ({}, False, "everyone"),
        (every(namespaceSelector={}), False, "all pods of the cluster"),
        (every(), None, "all pods of the namespace"),
        ({"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}]}, False,
         "pods with app=web in all namespaces"),
        ({"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}}]},
         True, "pods with app in (a, b)"),
        ({"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}}}]}, True,
         "all pods in namespace ops"),
        ({"from": [{"namespaceSelector": {"matchLabels": {"team": "ml"}}}]}, True,
         "all pods in namespaces with team=ml"),
        ({"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}, False,
         "0.0.0.0/0 except 10.0.0.0/8"),
        ({"from": [{"ipBlock": {"cidr": "10.0.0.2/32"}}]}, True, "10.0.0.2/32"),
    ],
)  # fmt: skip
def test_whom_a_policy_admits_to_the_dashboard(rule: Object, ok: bool | None, told: str) -> None:
    objects = [*running(foreign()), policy("p", {}, {**rule, "ports": [{"port": "dashboard"}]})]
    objects = changed(objects, "Pod", "spec.containers.0.ports", [{"name": "dashboard", "containerPort": 8265}])
    check = by_name(look(objects))["dashboard (8265)"]
    assert (check.ok, check.detail) == (ok, f"open to {told}")
    assert by_name(look(objects))["GCS (6379)"].detail == "open to nobody"


@pytest.mark.parametrize(
    ("ports", "opened"),
    [
        ([], {"dashboard (8265)", "GCS (6379)", "Ray client (10001)", "Serve (8000)"}),
        ([{"port": 8265}], {"dashboard (8265)"}),
        ([{"port": 6000, "endPort": 9000}], {"dashboard (8265)", "GCS (6379)", "Serve (8000)"}),
        ([{"protocol": "UDP", "port": 8265}], set()),
        ([{"protocol": "TCP"}], {"dashboard (8265)", "GCS (6379)", "Ray client (10001)", "Serve (8000)"}),
        ([{"port": "metrics"}], set()),
    ],
)
def test_which_ports_a_rule_opens(ports: list[Object], opened: set[str]) -> None:
    checks = look([*running(foreign()), policy("p", {}, {"ports": ports})])
    assert {check.name for check in checks if check.detail.startswith("open to everyone")} == opened


def test_policies_of_other_pods_and_for_outgoing_connections_do_not_count() -> None:
    other = policy("other", {"matchLabels": {"app": "web"}})
    outgoing = policy("outgoing", {})
    outgoing["spec"]["policyTypes"] = ["Egress"]
    check = by_name(look([*running(foreign()), other, outgoing]))["NetworkPolicy"]
    assert check.ok is False


def test_a_policy_without_types_is_for_incoming_connections() -> None:
    closing = policy("p", {})
    del closing["spec"]["policyTypes"]
    assert by_name(look([*running(foreign()), closing]))["NetworkPolicy"].ok


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ({"key": "app", "operator": "In", "values": ["web", "db"]}, True),
        ({"key": "app", "operator": "In", "values": ["db"]}, False),
        ({"key": "app", "operator": "NotIn", "values": ["web"]}, False),
        ({"key": "tier", "operator": "NotIn", "values": ["web"]}, True),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "app", "operator": "DoesNotExist"}, False),
        ({"key": "tier", "operator": "DoesNotExist"}, True),
    ],
)
def test_label_selectors(expression: Object, selected: bool) -> None:
    assert selects({"matchExpressions": [expression]}, {"app": "web"}) is selected
    assert not selects({"matchLabels": {"app": "db"}, "matchExpressions": [expression]}, {"app": "web"})


def test_a_policy_for_the_head_leaves_the_workers_open() -> None:
    checks = look([*running(foreign()), policy("head", {"matchLabels": {"ray.io/node-type": "head"}})])
    told = [(check.ok, check.detail) for check in checks if check.name == "NetworkPolicy"]
    assert told == [
        (False, "none selects group small: every pod of the cluster can connect to all ports"),
        (True, "head restricts who connects to head"),
    ]


def test_policies_do_not_apply_on_the_network_of_the_node() -> None:
    objects = changed([*running(foreign()), policy("p", {})], "Pod", "spec.hostNetwork", True)
    found = by_name(look(objects))
    assert found["hostNetwork"].ok is False
    assert "NetworkPolicy" not in found
    assert "hostNetwork: pods must not share namespaces of the node" in found["Pod Security of head"].detail


def test_a_wide_policy_with_a_token_is_a_warning() -> None:
    objects = [*running(foreign(authOptions={"mode": "token"})), policy("p", {}, {})]
    check = by_name(look(objects))["dashboard (8265)"]
    assert (check.ok, check.detail) == (None, "open to everyone; the token is required")


def test_what_cannot_be_read_is_unknown_and_not_closed() -> None:
    kinds = frozenset({"NetworkPolicy", "RoleBinding", "Ingress"})
    checks = look(running(foreign()), unread=kinds, key=None)
    found = by_name(checks)
    for name in ("NetworkPolicy", "rights of default", "API keys", "objects"):
        assert found[name].ok is None
        assert found[name].detail.startswith("unknown: ")


# Service accounts.


def test_rights_beyond_the_autoscalers_are_named_with_their_role() -> None:
    objects = [
        *running(foreign(enableInTreeAutoscaling=True)),
        binding("RoleBinding", "more", "foreign", "Role", "secrets"),
        item("Role", "secrets", rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]),
    ]
    check = by_name(look(objects))["rights of foreign"]
    assert check.ok is False
    assert check.detail == "more than Ray's autoscaler needs: in llm: get, list secrets"
    assert tuple(map(str, check.hints)) == ("remove what is not needed from Role secrets (RoleBinding more)",)


def test_rights_in_all_namespaces() -> None:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    bound = binding("ClusterRoleBinding", "admins", "default", "ClusterRole", "cluster-admin")
    bound["subjects"] = [{"kind": "Group", "name": "system:serviceaccounts:llm"}]
    objects = [*running(foreign()), bound, item("ClusterRole", "cluster-admin", rules=[everything])]
    check = by_name(look(objects))["rights of default"]
    assert check.detail == ("more than Ray's autoscaler needs: in all namespaces: all verbs on all resources")


def test_rights_of_others_do_not_count() -> None:
    secrets = item("Role", "secrets", rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])
    other = binding("RoleBinding", "other", "somebody", "Role", "secrets")
    elsewhere = binding("RoleBinding", "elsewhere", "default", "Role", "secrets")
    elsewhere["subjects"][0]["namespace"] = "other"
    assert by_name(look([*running(foreign()), secrets, other, elsewhere]))["rights of default"].ok


# Containers.


def test_a_container_that_runs_as_root_with_privileges() -> None:
    context = {"runAsUser": 0, "privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}
    objects = changed(running(foreign()), "Pod", "spec.containers.0.securityContext", context)
    found = by_name(look(objects))
    assert found["head/ray-head"].detail == (
        "runs as root; privilege escalation; default capabilities; added capabilities: SYS_ADMIN; no seccomp profile; "
        "privileged"
    )
    assert found["Pod Security of head"].detail == "privileged"
    assert str(found["Pod Security of head"].hints[0]).startswith(
        "kubectl label --dry-run=server --overwrite namespace llm"
    )


def test_a_level_that_the_spec_relaxed_is_named_with_its_field() -> None:
    check = by_name(look(rendered("image-that-runs-as-root")))["Pod Security of head"]
    assert check.ok is False
    assert tuple(map(str, check.hints)) == (
        "set spec.security.podSecurity: restricted in the spec file, then rayllm-ctl deploy -f FILE",
    )


def test_replicas_with_the_same_result_are_one_check() -> None:
    objects = running(foreign())
    worker = next(one for one in objects if one["metadata"]["name"].endswith("small-x"))
    twin = copy.deepcopy(worker)
    twin["metadata"] |= {"name": "twin", "uid": "twin"}
    assert by_name(look([*objects, twin]))["group small/ray-worker"].ok is False
    twin["spec"]["containers"][0]["securityContext"] = {"runAsUser": 0}
    names = [check.name for check in look([*objects, twin])]
    assert names.count("group small/ray-worker") == 2


# Outside the cluster.


def service(kind: str, *ports: int, **spec: Any) -> Object:
    listed = [{"port": port, "targetPort": port} for port in ports]
    selector = {"ray.io/node-type": "head"}
    return item("Service", "out", spec={"type": kind, "selector": selector, "ports": listed, **spec})


@pytest.mark.parametrize(
    ("key", "exposed", "ok"),
    [
        (True, service("LoadBalancer", 8000), True),
        (False, service("LoadBalancer", 8000), False),
        (None, service("LoadBalancer", 8000), None),
        (False, service("LoadBalancer", 8000, loadBalancerSourceRanges=["10.0.0.0/8"]), None),
        (False, service("NodePort", 8000), False),
        (False, service("ClusterIP", 8000, externalIPs=["203.0.113.7"]), False),
        (True, service("LoadBalancer", 8000, 8265), False),
        (True, service("NodePort", 9090), True),
    ],
)
def test_a_service_that_exposes_ports(key: bool | None, exposed: Object, ok: bool | None) -> None:
    check = by_name(look([*running(foreign()), exposed], key=key))["service/out"]
    assert check.ok is ok, check


def test_an_exposed_dashboard_with_a_token_is_a_warning() -> None:
    objects = [*running(foreign(authOptions={"mode": "token"})), service("NodePort", 8265)]
    check = by_name(look(objects, key=True))["service/out"]
    assert (check.ok, check.detail) == (None, "NodePort: dashboard (8265); the token of Ray is required")


def test_services_of_other_pods_do_not_count() -> None:
    other = service("LoadBalancer", 8265, selector={"app": "web"})
    without = service("LoadBalancer", 8265, selector=None)
    assert by_name(look([*running(foreign()), other, without]))["objects"].ok


def test_an_ingress_to_the_dashboard_fails() -> None:
    backend = {"service": {"name": "foreign-head-svc", "port": {"name": "dashboard"}}}
    rules = [{"host": "ray.example.com", "http": {"paths": [{"path": "/", "backend": backend}]}}]
    check = by_name(look([*running(foreign()), item("Ingress", "ray", spec={"rules": rules})]))["ingress/ray"]
    assert check.ok is False
    assert check.detail == "Ingress: dashboard (8265); clients of Ray's ports can run code in the pods"
    assert tuple(map(str, check.hints)) == ("kubectl describe ingress ray -n llm",)


@pytest.mark.parametrize(("key", "ok"), [(True, True), (False, None)])
def test_an_httproute_to_the_api(key: bool, ok: bool | None) -> None:
    rules = [{"backendRefs": [{"name": "foreign-head-svc", "port": 8000}]}]
    check = by_name(look([*running(foreign()), item("HTTPRoute", "r", spec={"rules": rules})], key=key))["httproute/r"]
    assert (check.ok, check.detail.partition(";")[0]) == (ok, "HTTPRoute: Serve (8000)")


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("load-balancer", {"service/qwen3-8b-serve-svc": "LoadBalancer for 10.0.0.0/8, fd00::/8: Serve (8000)"}),
        ("gateway-route", {"httproute/qwen3-32b": "HTTPRoute: Serve (8000)"}),
        ("ingress-with-tls", {"ingress/qwen3-32b": "Ingress: Serve (8000)"}),
        ("raycluster-exposed", {"ingress/qwen3-8b": "Ingress: Serve (8000)"}),
    ],
)
def test_what_a_spec_exposes_is_found(case: str, told: dict[str, str]) -> None:
    found = {check.name: check.detail for check in look(rendered(case)) if check.category == "outside the cluster"}
    assert {name: detail.partition(";")[0] for name, detail in found.items()} == told
