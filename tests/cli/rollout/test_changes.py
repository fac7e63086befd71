"""`scale`, `history`, `rollback` and `restart` of a service that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube.labels import MANAGER, RESTARTED
from tests.cli.conftest import Deploy, Run
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import DEPLOY, TINY
from tests.cluster.fakeapi import Answer, FakeAPI, Request
from tests.conftest import Golden


@pytest.fixture
def deployed(deploy: Deploy) -> None:
    deploy(*TINY)


def bounds(api: FakeAPI) -> tuple[tuple[int, int], tuple[int, int]]:
    """Least and most replicas of the engine, and pods of its worker group."""
    spec = api.stored("RayService", "tiny")["spec"]
    (engine, *_) = yaml.safe_load(spec["serveConfigV2"])["applications"][-1]["deployments"]
    scaling, group = engine["autoscaling_config"], spec["rayClusterConfig"]["workerGroupSpecs"][-1]
    return (scaling["min_replicas"], scaling["max_replicas"]), (group["minReplicas"], group["maxReplicas"])


@pytest.mark.usefixtures("deployed")
def test_scale_says_before_and_after_and_leaves_what_deploy_with_these_bounds_applies(run: Run, api: FakeAPI) -> None:
    result = run("scale", "tiny", "--min-replicas", "0", "--max-replicas", "3")
    assert result.code == 0, str(result)
    assert "note        tiny: 1 → 0..3 replicas" in result.err
    assert "note        worker group cpu: 1 → 0..3 pods" in result.err
    assert "deploy -f FILE sets its bounds again" in result.err
    assert bounds(api) == ((0, 3), (0, 3))
    again = run(*DEPLOY, "--min-replicas", "0", "--max-replicas", "3", "--no-wait")
    assert "rayservice/tiny unchanged" in again.err, str(again)


@pytest.mark.usefixtures("deployed")
def test_scale_reaches_the_live_ray_cluster(run: Run, api: FakeAPI) -> None:
    assert run("scale", "tiny", "--max-replicas", "4", "--no-wait").code == 0
    (group,) = api.stored("RayCluster", "tiny-bcdfg")["spec"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 4)


def bounds_written(api: FakeAPI) -> list[str]:
    """The live RayClusters that got other bounds, in order."""
    patches = (request.path for request in api.requests if request.method == "PATCH")
    return [path.rpartition("/")[2] for path in patches if "/rayclusters/" in path]


@pytest.mark.usefixtures("deployed")
def test_bounds_are_not_written_to_a_ray_cluster_that_is_replaced(run: Run, api: FakeAPI) -> None:
    """It would start workers that nobody uses, on the GPUs that the second one needs."""
    api.applied = lambda _item: None
    more = ("--min-replicas", "2", "--max-replicas", "2")
    result = run(*DEPLOY, *more, "--env", "COLOR=blue", "--no-wait")
    assert result.code == 0, str(result)
    assert "new-cluster: KubeRay starts a second RayCluster" in result.err
    assert bounds_written(api) == []

    made = api.stored("RayCluster", "tiny-bcdfg")
    second = {**made, "metadata": {**made["metadata"], "name": "tiny-zzzzz"}}
    api.put(**second)
    service = api.stored("RayService", "tiny")
    status = {**service["status"], "pendingServiceStatus": {"rayClusterName": "tiny-zzzzz"}}
    api.put(**{**service, "status": {**status, "observedGeneration": service["metadata"]["generation"]}})
    more = ("--min-replicas", "3", "--max-replicas", "3")
    compared = run("diff", *DEPLOY[1:], *more, "--env", "COLOR=blue")
    assert "KubeRay does not propagate replica bounds to tiny-zzzzz" in compared.out
    assert "kubectl patch raycluster tiny-bcdfg" not in str(compared)
    result = run(*DEPLOY, *more, "--env", "COLOR=blue", "--no-wait")
    assert result.code == 0, str(result)
    assert bounds_written(api) == ["tiny-zzzzz"], "the one that takes over"


KEPT = "bounds were not written to RayCluster tiny-bcdfg: KubeRay replaces it with a second one, unless"


@pytest.mark.usefixtures("deployed")
def test_bounds_of_a_ray_cluster_that_may_stay_are_said_where_nothing_waits(
    run: Run, api: FakeAPI, tmp_path: Path
) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(run("init", *TINY).out)
    options = ("-f", str(file), "-n", "llm", "--offline")
    spec = yaml.safe_load(file.read_text())
    spec["spec"]["upgrade"] = {"strategy": "None"}
    file.write_text(yaml.safe_dump(spec))
    assert (first := run("deploy", *options)).code == 0, str(first)
    api.applied = lambda _item: None
    steps = {"stepSizePercent": 20, "interval": "30s", "gatewayClassName": "istio"}
    api.put(kind="GatewayClass", metadata={"name": "istio"})
    spec["spec"]["upgrade"] = {"strategy": "NewClusterWithIncrementalUpgrade", **steps}
    spec["spec"]["replicas"] = {"min": 1, "max": 3}
    file.write_text(yaml.safe_dump(spec))
    compared = run("diff", *options)
    assert "kubectl patch raycluster tiny-bcdfg" in compared.out, str(compared)
    result = run("deploy", *options, "--no-wait")
    assert result.code == 0, str(result)
    assert "well, unless changes that were held back start another RayCluster" in result.err
    assert f"{KEPT} upgradeStrategy None has held no change back; deploy again to write them if it stays" in result.err
    assert bounds_written(api) == []
    assert KEPT not in run("deploy", *options, "--no-wait").err
    assert bounds_written(api) == ["tiny-bcdfg"]


@pytest.mark.usefixtures("deployed")
def test_bounds_are_said_where_an_incremental_upgrade_may_be_switched_off(run: Run, api: FakeAPI) -> None:
    item = api.stored("RayService", "tiny")
    options = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": {"gatewayClassName": "istio"}}
    api.put(**{**item, "spec": {**item["spec"], "upgradeStrategy": options}})
    api.applied = lambda _item: None
    result = run(*DEPLOY, "--max-replicas", "3", "--env", "COLOR=blue", "--no-wait")
    assert result.code == 0, str(result)
    assert f"{KEPT} KubeRay's feature gate RayServiceIncrementalUpgrade is off" in result.err
    assert bounds_written(api) == []


@pytest.mark.usefixtures("deployed")
def test_scale_of_what_was_changed_in_the_meantime_is_a_conflict(run: Run, api: FakeAPI) -> None:
    def edit(_request: Request) -> None:
        item = api.stored("RayService", "tiny")
        api.put(**{**item, "spec": {**item["spec"], "rayClusterDeletionDelaySeconds": 5}})

    api.answer("POST", "selfsubjectrulesreviews$", edit, times=1)
    result = run("scale", "tiny", "--max-replicas", "4")
    assert (result.code, bounds(api)[0]) == (4, (1, 1)), str(result)
    assert "RayService llm/tiny changed in the meantime" in result.err


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "expected --min-replicas, --max-replicas or --replicas"),
        (("--replicas", "2", "--max-replicas", "3"), 2, "--replicas sets both bounds"),
        (
            ("--min-replicas", "3"),
            2,
            "the minimum of 3 replicas is greater than the maximum of 1; rayservice/tiny has 1 now",
        ),
        (("--max-replicas", "0"), 2, "at most 0 replicas: a model needs at least 1"),
        (("--replicas", "0"), 2, "--min-replicas 0 --max-replicas 1    # scales to zero"),
        (("--max-replicas", "3", "--model", "tyni"), 2, "rayservice/tiny serves no model tyni, but tiny"),
    ],
)
def test_scale_rejects_what_cannot_be(
    run: Run, api: FakeAPI, arguments: tuple[str, ...], code: int, message: str
) -> None:
    before = api.stored("RayService", "tiny")["metadata"]["generation"]
    result = run("scale", "tiny", *arguments)
    assert (result.code, message in result.err) == (code, True), str(result)
    assert api.stored("RayService", "tiny")["metadata"]["generation"] == before


def test_scale_leaves_what_somebody_else_applies_to_them(run: Run, api: FakeAPI) -> None:
    fields = {"manager": "argocd-controller", "operation": "Apply", "fieldsV1": {"f:spec": {}}}
    api.put(kind="RayService", metadata={"name": "theirs", "managedFields": [fields]}, spec={"serveConfigV2": ""})
    result = run("scale", "theirs", "--replicas", "2")
    assert (result.code, "rayservice/theirs was not applied by rayllm-ctl but by argocd-controller" in result.err) == (
        1, True,
    )  # fmt: skip
    missing = run("scale", "their", "--replicas", "2")
    assert (missing.code, "did you mean theirs?" in missing.err) == (1, True)


def test_scale_sets_the_number_of_servers_of_a_ray_cluster(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY, "--kind", "raycluster")
    assert "has a fixed number of replicas" in run("scale", "tiny", "--max-replicas", "3").err
    result = run("scale", "tiny", "--replicas", "3", "--no-wait")
    assert result.code == 0, str(result)
    (group,) = api.stored("RayCluster", "tiny")["spec"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (3, 3)


def revisions(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("history", "tiny", "-o", "json").out)["items"]
    return found


def test_history_says_who_changed_what_and_what_came_of_it(run: Run, golden: Golden, deployed: None) -> None:
    assert run(*DEPLOY, "--max-replicas", "3").code == 0
    assert run(*DEPLOY, "--max-replicas", "3").code == 0
    assert run("scale", "tiny", "--max-replicas", "4", "--no-wait").code == 0
    golden.check("commands/history.txt", str(run("history", "tiny")))
    assert [one["revision"] for one in revisions(run)] == [1, 2, 3]


@pytest.mark.usefixtures("deployed")
def test_history_prints_the_manifests_of_a_revision(run: Run, api: FakeAPI) -> None:
    applied = {item["kind"]: item for item in yaml.safe_load_all(run("history", "tiny", "--revision", "1").out)}
    live = api.stored("RayService", "tiny")["spec"]
    assert applied["RayService"]["spec"] == live
    unknown = run("history", "tiny", "--revision", "7")
    assert (unknown.code, "has no revision 7; kept: 1" in unknown.err) == (1, True)


def test_history_of_what_is_not_there(run: Run, api: FakeAPI) -> None:
    assert (result := run("history", "tiny")).code == 1
    assert "there is no service tiny" in result.err
    api.put(kind="RayService", metadata={"name": "tiny"}, spec={})
    assert run("history", "tiny").out == "no revisions\n"


@pytest.mark.usefixtures("deployed")
def test_a_bounded_number_of_revisions_is_kept_and_deleted_with_the_service(run: Run, api: FakeAPI) -> None:
    for most in range(2, 13):
        assert run("scale", "tiny", "--max-replicas", str(most), "--no-wait").code == 0
    assert [one["revision"] for one in revisions(run)] == list(range(3, 13))
    assert run("delete", "tiny", "--no-wait").code == 0
    assert api.names("ControllerRevision") == []


@pytest.mark.usefixtures("deployed")
def test_a_failed_deployment_is_recorded_with_its_cause(run: Run, api: FakeAPI) -> None:
    api.applied = lambda _item: None
    assert run(*DEPLOY, "--max-replicas", "3", "--timeout", "10ms").code == 3
    assert revisions(run)[-1]["outcome"].startswith("timed out")


def test_without_the_rights_deploy_says_once_that_no_history_is_kept(run: Run, api: FakeAPI) -> None:
    rights = RAY_SERVICE.rights_for("apply", "bounds", "follow")
    api.granted = grants(*rights.needed, *rights.display) | {("list", "controllerrevisions.apps", False)}
    result = run(*DEPLOY)
    assert result.code == 0, str(result)
    assert result.err.count("no history is kept: not permitted to create controllerrevisions.apps") == 1
    assert api.names("ControllerRevision") == []


def test_secrets_are_no_part_of_a_revision(run: Run, api: FakeAPI, deployed: None) -> None:
    from rayllm_ctl.cluster import connect
    from rayllm_ctl.cluster.apply.revisions import add_revision

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hidden"}}
    add_revision(connect(), "tiny", "llm", [secret], change="", outcome="", start_seconds=None, known=[])
    assert "hidden" not in repr(api.stored("ControllerRevision", "tiny-2"))


@pytest.mark.usefixtures("deployed")
def test_rollback_applies_the_revision_before_and_says_what_that_does(run: Run, api: FakeAPI, golden: Golden) -> None:
    assert run("scale", "tiny", "--max-replicas", "4", "--no-wait").code == 0
    result = run("rollback", "tiny")
    golden.check("commands/rollback.txt", str(result))
    assert bounds(api) == ((1, 1), (1, 1))
    assert revisions(run)[-1]["change"] == "rollback to 1"
    assert "is already in the state of revision 1" in run("rollback", "tiny", "--to", "1").err
    assert run("rollback", "tiny", "--to", "2", "--dry-run=server").code == 0
    assert bounds(api) == ((1, 1), (1, 1))
    assert run("rollback", "tiny", "--to", "2", "--no-wait").code == 0
    assert bounds(api) == ((1, 4), (1, 4))


@pytest.mark.usefixtures("deployed")
def test_rollback_needs_an_earlier_revision(run: Run, api: FakeAPI) -> None:
    assert "has no revision before revision 1" in run("rollback", "tiny").err
    unknown = run("rollback", "tiny", "--to", "4")
    assert (unknown.code, "has no revision 4; kept: 1" in unknown.err) == (1, True)
    api.remove("ControllerRevision", "tiny-1")
    assert "service llm/tiny has no history" in run("rollback", "tiny").err


@pytest.mark.usefixtures("deployed")
def test_restart_changes_what_a_deploy_leaves_as_it_is(run: Run, api: FakeAPI) -> None:
    result = run("restart", "tiny")
    assert result.code == 0, str(result)
    assert "KubeRay starts a second RayCluster" in result.err
    config = api.stored("RayService", "tiny")["spec"]["rayClusterConfig"]
    assert RESTARTED in config["headGroupSpec"]["template"]["metadata"]["annotations"]
    assert "rayservice/tiny unchanged" in run(*DEPLOY, "--no-wait").err
    assert run("scale", "tiny", "--max-replicas", "3", "--no-wait").code == 0
    managed = api.stored("RayService", "tiny")["metadata"]["managedFields"]
    assert [RESTARTED in repr(entry) for entry in managed if entry["manager"] == MANAGER] == [False]


@pytest.mark.usefixtures("deployed")
def test_restart_says_where_kuberay_would_do_nothing(run: Run, api: FakeAPI) -> None:
    item = api.stored("RayService", "tiny")
    api.put(**{**item, "spec": {**item["spec"], "upgradeStrategy": {"type": "None"}}})
    result = run("restart", "tiny")
    assert (result.code, "upgradeStrategy.type None" in result.err) == (1, True)


def test_restart_replaces_the_workers_of_a_ray_cluster_one_at_a_time(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY, "--kind", "raycluster")
    pod = api.stored("Pod", "tiny-server")
    api.put(**{**pod, "metadata": {**pod["metadata"], "name": "tiny-server-2", "uid": "second"}})
    running: list[int] = []

    def replace(request: Request) -> Answer:
        name = request.path.rpartition("/")[2]
        running.append(len(api.names("Pod")))
        old = api.stored("Pod", name)
        api.put(**{**old, "metadata": {**old["metadata"], "name": f"{name}-new", "uid": f"{name}-new"}})
        api.remove("Pod", name)
        return 200, {"kind": "Status", "status": "Success"}

    api.answer("DELETE", "/pods/", replace)
    result = run("restart", "tiny")
    assert result.code == 0, str(result)
    assert [name for name in api.names("Pod") if "server" in name] == ["tiny-server-2-new", "tiny-server-new"]
    assert len(set(running)) == 1, "a pod is deleted before the one before it is replaced"


def test_a_restart_of_the_only_replica_of_a_ray_cluster_is_made_where_the_outage_is_accepted(
    run: Run, api: FakeAPI, deploy: Deploy
) -> None:
    deploy(*TINY, "--kind", "raycluster")
    item = api.stored("RayCluster", "tiny")
    api.put(**{**item, "status": {**item["status"], "readyWorkerReplicas": 1}})
    refused = run("restart", "tiny")
    assert refused.code == 1, str(refused)
    assert "raycluster/tiny has one replica, and would be unavailable until another pod is ready" in refused.err
    assert "rayllm-ctl scale tiny -n llm --replicas 2" in refused.err
    assert "--accept-outage    # proceeds anyway" in refused.err
    assert "tiny-server" in api.names("Pod")

    accepted = run("restart", "tiny", "--accept-outage", "--timeout", "10ms")
    assert "pod 1 of 1: tiny-server is deleted" in accepted.err, str(accepted)


SEVERAL = """
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: tiny}
spec:
  engine: {image: "x:1"}
  gateway: {queue: {}}
  models:
  - id: org/large
    name: large
    path: /models/a
    accelerator: {kind: cpu}
    engine: {maxModelLen: 1024}
    replicas: {min: 1, max: 3, initial: 3}
  - id: small
    path: /models/b
    accelerator: {kind: cpu}
    engine: {maxModelLen: 1024}
    replicas: {min: 0, max: 2}
"""


def test_scale_of_one_of_several_models_is_what_deploy_of_the_changed_file_applies(
    run: Run, api: FakeAPI, tmp_path: Path
) -> None:
    file = tmp_path / "several.yaml"
    file.write_text(SEVERAL)
    assert (result := run("deploy", "-f", str(file), "--offline", "--no-wait")).code == 0, str(result)
    unnamed = run("scale", "tiny", "--replicas", "2")
    assert (unnamed.code, "serves several models: org/large, small" in unnamed.err) == (2, True)
    assert (result := run("scale", "tiny", "--model", "org/large", "--replicas", "2", "--no-wait")).code == 0, str(
        result
    )
    groups = api.stored("RayService", "tiny")["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert {group["groupName"]: (group["minReplicas"], group["maxReplicas"]) for group in groups} == {
        "ingress": (1, 8), "large": (2, 2), "small": (0, 2),
    }  # fmt: skip
    file.write_text(SEVERAL.replace("{min: 1, max: 3, initial: 3}", "{min: 2, max: 2, initial: 2}"))
    again = run("deploy", "-f", str(file), "--offline", "--no-wait")
    assert "rayservice/tiny unchanged" in again.err, str(again)


def test_a_deployment_that_fails_is_rolled_back(run: Run, api: FakeAPI) -> None:
    assert run(*DEPLOY, "--rollback-on-failure").code == 0
    reconcile, applied = api.applied, []

    def only_the_first_fails(item: dict[str, Any]) -> None:
        if item["kind"] == "RayService":
            applied.append(item)
        if len(applied) > 1:
            reconcile(item)

    api.applied = only_the_first_fails
    result = run(*DEPLOY, "--max-replicas", "3", "--timeout", "10ms", "--rollback-on-failure")
    assert result.code == 3, str(result)
    assert "revision 2 failed; rollback to revision 1: created" in result.err
    assert "revision 1 was applied again and is Ready" in result.err
    assert bounds(api)[0] == (1, 1)
    assert [one["outcome"].partition(" ")[0] for one in revisions(run)] == ["Ready", "timed", "Ready"]


def test_a_first_deployment_has_nothing_to_go_back_to(run: Run, api: FakeAPI) -> None:
    api.applied = lambda _item: None
    result = run(*DEPLOY, "--timeout", "10ms", "--rollback-on-failure")
    assert (result.code, "no earlier revision of tiny was Ready: nothing was rolled back" in result.err) == (3, True)
    assert run(*DEPLOY, "--no-wait", "--rollback-on-failure").code == 2


def test_a_rollback_on_failure_asks_for_its_rights_beforehand(run: Run, api: FakeAPI) -> None:
    api.granted = grants(*RAY_SERVICE.rights_for("apply", "bounds", "follow").needed)
    result = run(*DEPLOY, "--rollback-on-failure")
    assert (result.code, api.names("RayService")) == (5, []), str(result)
    assert "not permitted to list controllerrevisions.apps" in result.err


@pytest.mark.usefixtures("deployed")
def test_scale_does_not_take_over_what_another_client_has_set(run: Run, api: FakeAPI) -> None:
    item = api.stored("RayService", "tiny")
    (ours,) = item["metadata"]["managedFields"]
    fields = {key: part for key, part in ours["fieldsV1"]["f:spec"].items() if key != "f:serveConfigV2"}
    taken = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:serveConfigV2": {}}}}
    managed = [{**ours, "fieldsV1": {**ours["fieldsV1"], "f:spec": fields}}, taken]
    api.put(**{**item, "metadata": {**item["metadata"], "managedFields": managed}})
    result = run("scale", "tiny", "--max-replicas", "3")
    assert (result.code, "kubectl-edit has set spec.serveConfigV2" in result.err) == (4, True), str(result)


def test_a_restart_waits_for_each_worker_of_a_ray_cluster(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY, "--kind", "raycluster")
    result = run("restart", "tiny", "--timeout", "10ms")
    assert (result.code, "0 of 1 worker pods of tiny are ready" in result.err) == (3, True), str(result)


@pytest.mark.usefixtures("deployed")
def test_scale_leaves_what_a_serve_configuration_file_says_to_it(run: Run, api: FakeAPI) -> None:
    item = api.stored("RayService", "tiny")
    managed = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]
    metadata = {**item["metadata"], "annotations": {}, "managedFields": managed}
    api.put(**{**item, "metadata": metadata})
    result = run("scale", "tiny", "--max-replicas", "3")
    assert (result.code, "it was deployed from a Serve configuration file" in result.err) == (1, True), str(result)
