"""`check --security`: what it reads of a live service, prints and needs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.workload import Right
from tests.bases import SPECS, stored
from tests.cli.conftest import Run
from tests.cli.test_commands_rights import grants
from tests.cluster.fakeapi import FakeAPI, status
from tests.conftest import Golden
from tests.health.kuberayobjects import running
from tests.health.test_security import foreign


def live(api: FakeAPI, *objects: dict[str, Any]) -> None:
    for one in objects:
        api.put(**{key: value for key, value in one.items() if key != "apiVersion"})


def rendered(case: str) -> list[dict[str, Any]]:
    [workload] = [
        one for one in yaml.safe_load_all(stored(SPECS / f"{case}.yaml"))
        if one["kind"] in ("RayService", "RayCluster")
    ]  # fmt: skip
    return running(workload)


def checks(run: Run, name: str, code: int) -> dict[str, Any]:
    result = run("check", "--security", name, "-n", "llm", "-o", "json")
    assert result.code == code, str(result)
    document = json.loads(result.out)
    assert document["ok"] is (code == 0)
    return {check["name"]: check for check in document["checks"]}


def test_what_is_printed(run: Run, api: FakeAPI, golden: Golden) -> None:
    live(api, *rendered("small-model-on-l4"))
    answer = (200, {"data": [{"id": "m"}]})
    api.answer("GET", "small-model-on-l4-serve-svc:serve/proxy/v1/models$", answer)
    golden.check(
        "commands/check-security.txt", str(run("check", "--security", "small-model-on-l4", "-n", "llm"))
    )  # fmt: skip
    assert {one.method for one in api.requests} == {"GET"}


def test_warnings_do_not_fail(run: Run, api: FakeAPI) -> None:
    live(api, *rendered("redis-and-token"))
    found = checks(run, "redis-and-token", 0)
    assert found["NetworkPolicy"]["ok"] is None
    assert found["API keys"]["detail"].startswith("unknown: ")


def test_a_raycluster_that_somebody_else_made(run: Run, api: FakeAPI) -> None:
    live(api, *running(foreign()))
    found = checks(run, "foreign", 1)
    assert found["RayCluster foreign"]["ok"] is True
    assert found["token authentication"]["hints"] == [
        {"remark": "set spec.authOptions.mode: token in RayCluster foreign"}
    ]


@pytest.mark.parametrize(("code", "ok"), [(200, None), (401, True), (404, None)])
def test_whether_the_api_requires_a_key_is_asked(run: Run, api: FakeAPI, code: int, ok: bool | None) -> None:
    live(api, *rendered("redis-and-token"))
    api.answer("GET", "redis-and-token-serve-svc:serve/proxy/v1/models$", (code, {"data": []}))
    check = checks(run, "redis-and-token", 0)["API keys"]
    assert check["ok"] is ok
    assert check["detail"].startswith({200: "not required", 401: "required", 404: "unknown"}[code])


def test_a_gateway_with_keys_is_not_asked(run: Run, api: FakeAPI) -> None:
    live(api, *rendered("gateway-with-a-managed-redis"))
    name = api.names("RayService")[0]
    assert checks(run, name, 0)["API keys"]["ok"] is True
    assert not api.count("GET", "proxy")


def test_roles_of_the_heads_account_are_read(run: Run, api: FakeAPI) -> None:
    live(api, *rendered("redis-and-token"))
    wide = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}
    api.put(kind="ClusterRole", metadata={"name": "wide"}, rules=[wide])
    api.put(
        kind="ClusterRoleBinding", metadata={"name": "wide"}, roleRef={"kind": "ClusterRole", "name": "wide"},
        subjects=[{"kind": "ServiceAccount", "namespace": "llm", "name": "redis-and-token-bcdfg"}],
    )  # fmt: skip
    check = checks(run, "redis-and-token", 1)["rights of redis-and-token-bcdfg"]
    assert check["detail"] == "more than Ray's autoscaler needs: in all namespaces: all verbs on secrets"


def test_default_roles_of_every_account_are_left_out(run: Run, api: FakeAPI) -> None:
    live(api, *rendered("redis-and-token"))
    api.put(
        kind="ClusterRoleBinding", metadata={"name": "d", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        roleRef={"kind": "ClusterRole", "name": "system:discovery"},
        subjects=[{"kind": "Group", "name": "system:authenticated"}],
    )  # fmt: skip
    api.put(kind="ClusterRole", metadata={"name": "system:discovery"}, rules=[{"nonResourceURLs": ["*"]}])
    assert checks(run, "redis-and-token", 0)["rights of redis-and-token-bcdfg"]["ok"] is True
    assert not api.count("GET", "clusterroles/")


@pytest.mark.parametrize("case", ["redis-and-token", "raycluster-tp4"])
def test_no_other_right_is_asked_for(run: Run, api: FakeAPI, case: str) -> None:
    objects = rendered(case)
    live(api, *objects)
    workload = objects[0]
    rights = WORKLOADS[workload["kind"]].rights_for("security")
    api.granted = grants(*rights.needed, *rights.display)
    checks(run, workload["metadata"]["name"], 0)
    assert api.denied == []


def test_the_needed_rights_are_enough_and_the_rest_is_unknown(run: Run, api: FakeAPI) -> None:
    live(api, *rendered("redis-and-token"))
    api.granted = grants(*WORKLOADS["RayService"].rights_for("security").needed)
    found = checks(run, "redis-and-token", 0)
    for name in ("NetworkPolicy", "rights of redis-and-token-bcdfg", "API keys", "objects"):
        assert found[name]["ok"] is None
        assert found[name]["detail"].startswith("unknown: ")
    assert found["rolebindings of namespace llm"]["detail"] == (
        "not permitted to list rolebindings.rbac.authorization.k8s.io"
    )


def test_without_the_right_to_list_pods_it_names_what_it_lacks(run: Run, api: FakeAPI) -> None:
    live(api, *rendered("redis-and-token"))
    api.granted = grants(Right("get", "RayService"), Right("list", "RayCluster"), Right("get", "RayCluster"))
    result = run("check", "--security", "redis-and-token", "-n", "llm")
    assert result.code == 5, str(result)
    assert "is not permitted to list pods in namespace llm" in result.err


def test_a_name_that_nothing_has(run: Run, api: FakeAPI) -> None:
    live(api, *rendered("redis-and-token"))
    result = run("check", "--security", "redis-and-tokem", "-n", "llm")
    assert result.code == 1
    assert "there is no service redis-and-tokem in namespace llm" in result.err
    assert "did you mean redis-and-token?" in result.err


def test_without_kuberay(run: Run, api: FakeAPI) -> None:
    api.answer("GET", "/rayservices/", status(404, "the server could not find the requested resource"))
    result = run("check", "--security", "x", "-n", "llm")
    assert result.code == 1
    assert "KubeRay is not installed in this cluster" in result.err


@pytest.mark.parametrize("flag", [("-f", "x.yaml"), ("--offline",)])
def test_flags_of_spec_files_are_rejected(run: Run, flag: tuple[str, ...]) -> None:
    result = run("check", "--security", "x", *flag)
    assert result.code == 2
    assert "--security looks at a live service" in result.err
