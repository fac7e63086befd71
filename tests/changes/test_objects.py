from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.changes.compare import compare_manifests
from rayllm_ctl.changes.objects import explain_object
from rayllm_ctl.model.observed.changes import Running

AT_ONCE = {"type": "Recreate"}


def item(kind: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **parts}


@pytest.mark.parametrize(
    ("before", "after", "effect", "outage", "words"),
    [
        (item("Service", spec={"type": "ClusterIP"}), item("Service", spec={"type": "LoadBalancer"}), "in-place", False,
         "takes effect at once"),
        (item("ConfigMap", data={"a": "1"}), item("ConfigMap", data={"a": "2"}), "in-place", False, "mounted files"),
        (item("Deployment", spec={"template": {"a": 1}}), item("Deployment", spec={"template": {"a": 2}}), "restart",
         False, "step by step"),
        (item("Deployment", spec={"template": {"a": 1}, "strategy": AT_ONCE}),
         item("Deployment", spec={"template": {"a": 2}, "strategy": AT_ONCE}), "restart", True, "stops all"),
        (item("Deployment", spec={"replicas": 1}), item("Deployment", spec={"replicas": 2}), "in-place", False,
         "at once"),
    ],
)  # fmt: skip
def test_objects_next_to_a_service(before: Any, after: Any, effect: str, outage: bool, words: str) -> None:
    found = explain_object(before, after, Running())
    (only,) = found.consequences
    assert [one.effect for one in found.changes] == [effect] == [only.effect]
    assert only.outage is outage
    assert words in only.message


def test_a_status_is_no_change() -> None:
    assert explain_object(item("Service", status={"a": 1}), item("Service"), Running()).changes == ()


@pytest.mark.parametrize("kind", ["HTTPRoute", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor"])
def test_kinds_that_are_read_again_take_effect_at_once(kind: str) -> None:
    found = explain_object(item(kind, spec={"a": 1}), item(kind, spec={"a": 2}), Running())
    assert [one.effect for one in found.changes] == ["in-place"]
    assert "at once" in found.consequences[0].message


@pytest.mark.parametrize("kind", ["BatchJob", "RayCronJob", "ScaledObject", "Widget"])
def test_what_the_controller_of_another_kind_does_is_unknown(kind: str) -> None:
    found = explain_object(item(kind, spec={"a": 1}), item(kind, spec={"a": 2}), Running())
    assert [one.effect for one in found.changes] == ["unknown"]
    assert found.consequences[0].message == f"the behavior of the controller of {kind} is unknown"
    labelled = {**item(kind), "metadata": {"name": "a", "labels": {"b": "c"}}}
    assert [one.effect for one in explain_object(item(kind), labelled, Running()).changes] == ["in-place"]


def route(*rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return item("HTTPRoute", spec={"rules": list(rules), **spec})


def rule(path: str, *backends: str, **parts: Any) -> dict[str, Any]:
    return {"matches": [{"path": {"value": path}}], "backendRefs": [{"name": one, **parts} for one in backends]}


def ingress(backends: dict[str, str], **spec: Any) -> dict[str, Any]:
    paths = [{"path": path, "backend": {"service": {"name": name}}} for path, name in backends.items()]
    return item("Ingress", spec={"rules": [{"host": "a.example", "http": {"paths": paths}}], **spec})


def service(port: int = 80, **spec: Any) -> dict[str, Any]:
    return item("Service", spec={"selector": {"app": "a"}, "ports": [{"port": port}], **spec})


@pytest.mark.parametrize(
    ("before", "after", "outage", "words"),
    [
        (item("Deployment", spec={"replicas": 1}), item("Deployment", spec={"replicas": 0}), True, "scaled to zero"),
        (item("StatefulSet", spec={}), item("StatefulSet", spec={"replicas": 0}), True, "scaled to zero"),
        (item("Deployment", spec={"replicas": 0}), item("Deployment", spec={"replicas": 1}), False, "at once"),
        (service(), service(selector={"app": "b"}), True, "other pods (app=b)"),
        (service(), service(selector={"app": "a", "track": "new"}), True, "other pods (app=a, track=new)"),
        (service(), service(selector=None), True, "without a selector"),
        (service(selector={"app": "a", "track": "old"}), service(), False, "at once"),
        (service(80), service(81), True, "port 80"),
        (service(), service(ports=[{"port": 80}, {"port": 81}]), False, "at once"),
        (service(), service(ports=[{"port": 80, "targetPort": 9}]), True, "80 (to 9)"),
        (service(type="LoadBalancer"), service(), True, "its LoadBalancer addresses"),
        (service(), service(type="ExternalName", externalName="b.example"), True, "its ClusterIP addresses"),
        (ingress({"/": "a"}), ingress({"/": "b"}), True, "requests to a.example/ go to another Service"),
        (ingress({"/": "a", "/x": "a"}), ingress({"/": "a"}), True, "a.example/x stops working"),
        (ingress({"/": "a"}), ingress({"/": "a", "/x": "b"}), False, "at once"),
        (ingress({}, ingressClassName="a"), ingress({}, ingressClassName="b"), True, "another controller"),
        (route(rule("/", "a")), route(rule("/", "b")), True, "another Service"),
        (route(rule("/", "a")), route(rule("/", "a", weight=0)), True, "/ stops working"),
        (route(rule("/", "a", weight=9)), route(rule("/", "a", "b", weight=1)), False, "at once"),
        (route(parentRefs=[{"name": "a"}]), route(parentRefs=[{"name": "b"}]), True, "removed from a Gateway"),
        (route(hostnames=["a", "b"]), route(hostnames=["b"]), True, "a stops working"),
        (route(hostnames=["a"]), route(), False, "at once"),
    ],
)  # fmt: skip
def test_what_stops_answering_is_an_outage(before: Any, after: Any, outage: bool, words: str) -> None:
    (only,) = explain_object(before, after, Running()).consequences
    assert (only.effect, only.outage) == ("in-place", outage)
    assert words in only.message


def rolled(kind: str, image: str, **spec: Any) -> dict[str, Any]:
    return item(kind, spec={"template": {"image": image}, **spec})


@pytest.mark.parametrize(
    ("kind", "spec", "effects"),
    [
        ("Deployment", {"replicas": 1}, [("restart", False)]),
        ("Deployment", {"replicas": 1, "strategy": {"rollingUpdate": {"maxUnavailable": 1}}}, [("restart", True)]),
        ("Deployment", {"replicas": 1, "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}},
         [("restart", True)]),
        ("Deployment", {"replicas": 4, "strategy": {"rollingUpdate": {"maxUnavailable": "50%"}}}, [("restart", False)]),
        ("StatefulSet", {"replicas": 1}, [("restart", True)]),
        ("StatefulSet", {"replicas": 2}, [("restart", False)]),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, [("not-rolled-out", False)]),
        ("DaemonSet", {}, [("restart", False)]),
    ],
)  # fmt: skip
def test_whether_a_pod_is_left_while_others_are_replaced(kind: str, spec: Any, effects: Any) -> None:
    found = explain_object(rolled(kind, "a", **spec), rolled(kind, "b", **spec), Running())
    assert [(one.effect, one.outage) for one in found.consequences] == effects


@pytest.mark.parametrize(
    ("kind", "spec", "outage"),
    [
        ("Service", {}, True), ("Ingress", {}, True), ("HTTPRoute", {}, True), ("Gateway", {}, True),
        ("Deployment", {}, True), ("Deployment", {"replicas": 0}, False), ("RayService", {}, True),
        ("RayCluster", {}, True), ("RayJob", {}, True), ("Namespace", {}, True), ("ConfigMap", {}, False),
        ("NetworkPolicy", {}, False),
    ],
)  # fmt: skip
def test_deleting_what_answers_is_an_outage(kind: str, spec: Any, outage: bool) -> None:
    found = compare_manifests(item(kind, spec=spec), None, explain_object, Running())
    assert (found.action, found.outage) == ("deleted", outage)


FROZEN = {"immutable": True}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (item("ConfigMap", data={"a": "1"}, **FROZEN), item("ConfigMap", data={"a": "2"}, **FROZEN), "is immutable"),
        (item("Secret", data={"a": "MQ=="}, **FROZEN), item("Secret", data={"a": "Mg=="}, **FROZEN), "is immutable"),
        (item("ConfigMap", binaryData={"a": "MQ=="}, **FROZEN), item("ConfigMap", **FROZEN), "is immutable"),
        (item("ConfigMap", data={"a": "1"}, **FROZEN), item("ConfigMap", data={"a": "1"}), "is immutable"),
        (item("Secret", type="Opaque"), item("Secret", type="kubernetes.io/tls"), "cannot change type"),
        (item("Deployment", spec={"selector": {"matchLabels": {"a": "b"}}, "replicas": 1}),
         item("Deployment", spec={"selector": {"matchLabels": {"a": "c"}}, "replicas": 0}), "spec.selector"),
        (item("StatefulSet", spec={"serviceName": "a"}), item("StatefulSet", spec={"serviceName": "b"}),
         "spec.serviceName"),
        (item("RoleBinding", roleRef={"name": "a"}), item("RoleBinding", roleRef={"name": "b"}), "roleRef.name"),
    ],
)  # fmt: skip
def test_what_the_api_server_rejects_changes_nothing(before: Any, after: Any, words: str) -> None:
    found = explain_object(before, after, Running())
    (only,) = found.consequences
    assert {one.effect for one in found.changes} == {only.effect} == {"rejected"}
    assert (words in only.message, only.outage) == (True, False)
    assert str(only.hints[0]).startswith(f"create a {after['kind']} with a new name")


def test_what_an_immutable_object_may_change_is_taken() -> None:
    labelled = {**item("ConfigMap", data={"a": "1"}, **FROZEN), "metadata": {"name": "a", "labels": {"b": "c"}}}
    found = explain_object(item("ConfigMap", data={"a": "1"}, **FROZEN), labelled, Running())
    assert [one.effect for one in found.consequences] == ["in-place"]
    typed = explain_object(item("Secret"), item("Secret", type="Opaque"), Running())
    assert [one.effect for one in typed.consequences] == ["in-place"]
    sealed = explain_object(item("ConfigMap", data={"a": "1"}), item("ConfigMap", data={"a": "2"}, **FROZEN), Running())
    assert [one.effect for one in sealed.consequences] == ["in-place"]


def claim(size: str, **spec: Any) -> dict[str, Any]:
    return item("PersistentVolumeClaim", spec={"resources": {"requests": {"storage": size}}, **spec})


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (claim("100Gi"), claim("200Gi"), "in-place"),
        (claim("1024Gi"), claim("2Ti"), "in-place"),
        (claim("200Gi"), claim("100Gi"), "rejected"),
        (claim("1Ti"), claim("1000Gi"), "rejected"),
        (claim("1Gi", storageClassName="a"), claim("1Gi", storageClassName="b"), "rejected"),
        (claim("1Gi", accessModes=["ReadWriteOnce"]), claim("1Gi", accessModes=["ReadWriteMany"]), "rejected"),
    ],
)
def test_a_claim_only_grows(before: Any, after: Any, effect: str) -> None:
    found = explain_object(before, after, Running())
    (only,) = found.consequences
    assert {one.effect for one in found.changes} == {effect} == {only.effect}
    assert ("PersistentVolumeClaim a cannot change spec." in only.message) is (effect == "rejected")


@pytest.mark.parametrize(
    ("kind", "before", "after", "effect"),
    [
        ("Job", {"template": {"a": 1}}, {"template": {"a": 2}}, "rejected"),
        ("Job", {"backoffLimit": 6}, {"backoffLimit": 3}, "in-place"),
    ],
)
def test_what_cannot_change_of_jobs(kind: str, before: dict[str, Any], after: dict[str, Any], effect: str) -> None:
    found = explain_object(item(kind, spec=before), item(kind, spec=after), Running())
    assert [one.effect for one in found.changes] == [effect]
