"""What could not be read is said to be unknown, and nothing is concluded from it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run
from tests.cluster import fakejobs
from tests.cluster.fakeapi import FakeAPI, status

TINY = (
    "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", "tiny",
    "--image", "example.com/vllm-cpu:1", "--max-model-len", "1024", "-n", "llm", "--offline",
)  # fmt: skip
BUDGETS = (
    "not permitted to list poddisruptionbudgets.policy in namespace llm: objects that rayllm-ctl applied of these for "
)


def forbid(api: FakeAPI, plural: str, resource: str = "") -> None:
    """The user may list no object of a kind."""
    text = f'User "alice" cannot list resource "{plural}" in API group "{resource.partition(".")[2]}" in the namespace'
    answer = status(403, f'{resource or plural} is forbidden: {text} "llm"', "Forbidden")
    api.answer("GET", f"/{plural}$", answer)


@pytest.fixture
def service(run: Run, api: FakeAPI) -> None:
    """A service with a PodDisruptionBudget, which the user may not list."""
    result = run("deploy", *TINY, "--min-replicas", "2")
    assert (result.code, api.names("PodDisruptionBudget")) == (0, ["tiny"]), str(result)
    forbid(api, "poddisruptionbudgets", "poddisruptionbudgets.policy")


@pytest.mark.usefixtures("service")
def test_delete_says_of_what_it_may_leave_objects(run: Run, api: FakeAPI) -> None:
    forbid(api, "controllerrevisions", "controllerrevisions.apps")
    result = run("delete", "tiny", "-n", "llm", "--no-wait")
    assert (result.code, api.names("PodDisruptionBudget")) == (0, ["tiny"]), str(result)
    assert f"{BUDGETS}tiny are not deleted" in result.err
    assert "not permitted to list controllerrevisions.apps: the history of tiny is not deleted" in result.err


@pytest.mark.usefixtures("service")
def test_deploy_and_diff_say_what_may_be_left_of_an_earlier_spec(run: Run, api: FakeAPI) -> None:
    one_replica = (*TINY, "--min-replicas", "1")
    assert f"note: {BUDGETS}an earlier tiny are not deleted" in run("diff", *one_replica).err
    result = run("deploy", *one_replica, "--no-wait")
    assert (result.code, api.names("PodDisruptionBudget")) == (0, ["tiny"]), str(result)
    assert f"{BUDGETS}an earlier tiny are not deleted" in result.err


@pytest.mark.usefixtures("service")
def test_scale_says_what_it_may_not_adapt(run: Run, api: FakeAPI) -> None:
    result = run("scale", "tiny", "-n", "llm", "--min-replicas", "1", "--no-wait")
    assert result.code == 0, str(result)
    assert f"{BUDGETS}tiny are not changed, and not in its revision" in result.err


@pytest.mark.usefixtures("service")
def test_wait_says_of_what_objects_may_be_left(run: Run, api: FakeAPI) -> None:
    run("delete", "tiny", "-n", "llm", "--no-wait")
    for kind in ("RayCluster", "Pod"):
        for name in api.names(kind):
            api.remove(kind, name)
    result = run("wait", "tiny", "-n", "llm", "--for", "deleted", "--timeout", "5s")
    assert result.code == 0, str(result)
    assert result.err.count("not permitted to list poddisruptionbudgets.policy") == 1


def test_batch_cancel_says_of_what_it_may_leave_objects(run: Run, api: FakeAPI) -> None:
    fakejobs.running(api)
    forbid(api, "configmaps")
    result = run("batch", "cancel", fakejobs.NAME, "--no-wait")
    assert (result.code, len(api.names("ConfigMap"))) == (0, 1), str(result)
    left = f"objects that rayllm-ctl applied of these for {fakejobs.NAME} are not deleted"
    assert f"not permitted to list configmaps in namespace llm: {left}" in result.err


def test_deploy_says_when_another_object_of_the_name_may_exist(run: Run, api: FakeAPI) -> None:
    answer = 'User "alice" cannot get resource "rayclusters" in API group "ray.io" in the namespace "llm"'
    api.answer("GET", "/rayclusters/tiny$", status(403, f"rayclusters.ray.io is forbidden: {answer}", "Forbidden"))
    result = run("deploy", *TINY, "--no-wait")
    assert result.code == 0, str(result)
    assert "whether a RayCluster tiny exists is unknown: not permitted to get rayclusters.ray.io" in result.err


def test_an_outcome_that_is_not_kept_is_reported(run: Run, api: FakeAPI) -> None:
    api.answer("PATCH", "/controllerrevisions/", status(500, "etcd is full"))
    result = run("deploy", *TINY)
    assert result.code == 0, str(result)
    assert "the outcome of revision 1 is not kept: " in result.err


def test_status_says_when_the_log_of_a_failed_container_may_not_be_read(run: Run, api: FakeAPI) -> None:
    assert run("deploy", *TINY, "--no-wait").code == 0
    (name,) = [one for one in api.names("Pod") if one.endswith("-worker")]
    pod = api.stored("Pod", name)
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    box = {**pod["status"]["containerStatuses"][0], "ready": False, "restartCount": 3, "lastState": ended}
    api.put(**{**pod, "status": {**pod["status"], "containerStatuses": [box]}})
    text = 'User "alice" cannot get resource "pods/log" in API group "" in the namespace "llm"'
    api.answer("GET", f"/pods/{name}/log$", status(403, f"pods is forbidden: {text}", "Forbidden"))
    result = run("status", "tiny", "-n", "llm")
    assert "logs of pods could not be read: not permitted to get pods/log" in str(result)
