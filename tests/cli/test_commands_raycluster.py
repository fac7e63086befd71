"""Services in mode raycluster: every command finds them by their name, and keeps them apart from RayServices."""

from __future__ import annotations

import json

import pytest

from rayllm_ctl.kinds import RAY_CLUSTER
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.model.workload import Activity
from tests.cli.conftest import Deploy, Run
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import DEPLOY, TINY
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI

KIND = ("--kind", "raycluster")
OWN = (*DEPLOY, *KIND)


@pytest.fixture
def deployed(deploy: Deploy) -> None:
    deploy(*TINY, *KIND)


def test_deploy_applies_a_ray_cluster_and_the_service_in_front_of_it(run: Run, api: FakeAPI) -> None:
    result = run(*OWN)
    assert result.code == 0, str(result)
    assert "http://tiny-openai.llm:8000/v1" in result.err
    assert api.names("RayCluster") == ["tiny"]
    assert "tiny-openai" in api.names("Service")
    assert "unchanged" in run(*OWN, "--no-wait").err


@pytest.mark.usefixtures("deployed")
def test_commands_find_it_by_its_name(run: Run) -> None:
    status = json.loads(run("status", "tiny", "-o", "json").out)
    assert (status["state"], status["replicasRunning"], status["endpoints"]) == ("Ready", 1, 1)
    assert run("status", "tiny", "-o", "name").out == "raycluster.ray.io/tiny\n"
    assert run("chat", "tiny", "Why?").out == "Because it is.\n"
    assert run("endpoint", "tiny").out == "http://tiny-openai.llm:8000/v1\n"
    watched = run("watch", "tiny", "--timeout", "1ms", "-o", "json")
    assert json.loads(watched.out.splitlines()[0])["state"] == "Ready"


@pytest.mark.usefixtures("deployed")
def test_status_lists_both_kinds_and_no_part_of_a_service(run: Run, api: FakeAPI) -> None:
    item = api.put(kind="RayService", metadata={"name": "other"}, spec={})
    fakekuberay.reconcile(api, item)
    api.put(kind="RayCluster", metadata={"name": "somebodys"}, spec={})
    job = {kuberay.ORIGIN_NAME: "job", kuberay.ORIGIN_KIND: "RayJob"}
    api.put(kind="RayCluster", metadata={"name": "job-1", "labels": job, "annotations": {MODEL: "x"}}, spec={})
    rows = json.loads(run("status", "-o", "json").out)["items"]
    assert [(row["name"], row["kind"], row["health"]["state"]) for row in rows] == [
        ("other", "RayService", "Ready"), ("tiny", "RayCluster", "Ready"),
    ]  # fmt: skip
    assert run("status", "somebodys").code == 1


@pytest.mark.usefixtures("deployed")
def test_delete_takes_the_ray_cluster_and_its_service(run: Run, api: FakeAPI) -> None:
    result = run("delete", "tiny", "--no-wait")
    assert result.code == 0, str(result)
    assert api.names("RayCluster") == []
    assert "tiny-openai" not in api.names("Service")


def test_a_ray_cluster_that_is_not_a_service_is_not_deleted(run: Run, api: FakeAPI) -> None:
    api.put(kind="RayCluster", metadata={"name": "tiny"}, spec={})
    assert run("delete", "tiny").code == 1
    assert api.names("RayCluster") == ["tiny"]


@pytest.mark.parametrize(("first", "second"), [(DEPLOY, OWN), (OWN, DEPLOY)], ids=["rayservice", "raycluster"])
def test_the_other_mode_is_rejected_under_a_name_that_is_taken(
    run: Run, api: FakeAPI, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    assert run(*first).code == 0
    before = (api.names("RayService"), api.names("RayCluster"))
    result = run(*second)
    assert result.code == 1
    assert "exists in namespace llm" in result.err
    assert "rayllm-ctl delete tiny -n llm" in result.err
    assert (api.names("RayService"), api.names("RayCluster")) == before


ACTIVITIES: dict[str, tuple[tuple[str, ...], tuple[Activity, ...]]] = {
    "deploy": (OWN, ("apply", "follow")),
    "status": (("status", "tiny"), ("status",)),
    "watch": (("watch", "tiny", "--timeout", "1ms"), ("follow",)),
    "chat": (("chat", "tiny", "Why?"), ("chat",)),
    "delete": (("delete", "tiny", "--no-wait"), ("delete",)),
}


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("name", ACTIVITIES)
def test_the_needed_rights_are_enough(run: Run, api: FakeAPI, name: str) -> None:
    command, activities = ACTIVITIES[name]
    api.granted = grants(*RAY_CLUSTER.rights_for(*activities).needed)
    if name == "deploy":
        api.granted |= {(verb, "services", False) for verb in ("get", "create", "patch")}
    result = run(*command)
    # Without pods and addresses nothing is known of how it is.
    assert result.code == (1 if name == "status" else 0), str(result)
    assert ("Unknown" in result.out) == (name == "status"), str(result)


def test_other_bounds_of_a_ray_cluster_are_not_those_of_a_ray_service(run: Run, deploy: Deploy) -> None:
    deploy(*TINY, *KIND)
    result = run("diff", *TINY, *KIND, "--min-replicas", "2", "--max-replicas", "2")
    assert (result.code, "maxReplicas: 2" in result.out) == (1, True), str(result)
    assert "RayService" not in str(result)
    assert "kubectl patch" not in str(result)
