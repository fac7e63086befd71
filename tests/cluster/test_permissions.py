from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.permissions import Permissions, missing
from rayllm_ctl.model.workload import Right
from tests.cluster.fakeapi import FakeAPI

GET, PATCH, LOG = Right("get", "RayService"), Right("patch", "RayService"), Right("get", "Pod", "log")
NODES = Right("list", "Node")
REVIEW = "POST /apis/authorization.k8s.io/v1/selfsubject{}reviews"
ONE, ALL = REVIEW.format("access"), REVIEW.format("rules")

GRANT = {"verbs": ["get", "patch"], "apiGroups": ["ray.io"], "resources": ["rayservices"]}


def asked(api: FakeAPI) -> list[str]:
    return [f"{request.method} {request.path}" for request in api.requests]


def rules(api: FakeAPI, *found: dict[str, Any], **status: Any) -> None:
    """Answer with these rules, and with `no` to each access review."""
    api.answer("POST", "rulesreviews$", (201, {"status": {"resourceRules": found, "incomplete": False, **status}}))
    api.answer("POST", "accessreviews$", (201, {"status": {"allowed": False}}))


def test_many_rights_of_a_namespace_are_one_request(api: FakeAPI, cluster: Cluster) -> None:
    assert missing(cluster, "llm", (GET, PATCH, LOG)) == []
    assert asked(api) == [ALL]


def test_one_right_is_asked_for_by_itself(api: FakeAPI, cluster: Cluster) -> None:
    assert missing(cluster, "llm", (GET,)) == []
    assert asked(api) == [ONE]


def test_a_right_is_asked_for_once(api: FakeAPI, cluster: Cluster) -> None:
    api.granted = {("get", "rayservices.ray.io", False)}
    permissions = Permissions(cluster, "llm")
    permissions.learn(NODES, allowed=False)
    assert permissions.missing((GET, PATCH, LOG)) == [PATCH, LOG]
    assert permissions.missing((NODES, LOG, GET)) == [NODES, LOG]
    assert asked(api) == [ALL, ONE, ONE]


def test_what_the_rules_do_not_grant_is_asked_for(api: FakeAPI, cluster: Cluster) -> None:
    rules(api)
    api.answer("POST", "accessreviews$", (201, {"status": {"allowed": True}}))  # an authorizer that lists no rules
    assert missing(cluster, "llm", (GET, PATCH)) == []
    assert asked(api) == [ALL, ONE, ONE]


@pytest.mark.parametrize(
    "status", [{"incomplete": True}, {"incomplete": None}, {"evaluationError": 'role "a" not found'}], ids=str
)
def test_rules_that_are_not_complete_grant_nothing(api: FakeAPI, cluster: Cluster, status: dict[str, Any]) -> None:
    rules(api, GRANT, **status)
    assert missing(cluster, "llm", (GET, PATCH)) == [GET, PATCH]


def test_rights_are_asked_for_one_by_one_where_no_rules_can_be_listed(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("POST", "rulesreviews$", (403, {"kind": "Status", "message": "forbidden", "reason": "Forbidden"}))
    api.granted = {("get", "rayservices.ray.io", False)}
    assert missing(cluster, "llm", (GET, PATCH)) == [PATCH]
    assert asked(api) == [ALL, ONE, ONE]


@pytest.mark.parametrize(
    ("right", "granted"),
    [
        (PATCH, True),
        (Right("delete", "RayService"), False),
        (Right("get", "Pod"), False),
        (Right("get", "RayService", "status"), False),
        (Right("get", "RayService", everywhere=True), False),
        (Right("get", "RayService", namespace="other"), False),
        (Right("get", "RayService", namespace="llm"), True),
        (NODES, False),
    ],
    ids=str,
)
def test_what_a_rule_of_the_namespace_grants(api: FakeAPI, cluster: Cluster, right: Right, granted: bool) -> None:
    rules(api, GRANT, {"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]})
    assert missing(cluster, "llm", (GET, PATCH, right)) == ([] if granted else [right])


@pytest.mark.parametrize(
    ("resources", "granted"),
    [(["pods/log"], True), (["*/log"], True), (["*"], True), (["pods"], False), (["pods/*"], False)],
    ids=str,
)
def test_subresources(api: FakeAPI, cluster: Cluster, resources: list[str], granted: bool) -> None:
    rules(api, GRANT, {"verbs": ["*"], "apiGroups": ["*"], "resources": resources})
    assert missing(cluster, "llm", (GET, PATCH, LOG)) == ([] if granted else [LOG])


def test_a_rule_for_some_objects_by_name_does_not_count(api: FakeAPI, cluster: Cluster) -> None:
    rules(api, {**GRANT, "resourceNames": ["tiny"]})
    assert missing(cluster, "llm", (GET, PATCH)) == [GET, PATCH]
