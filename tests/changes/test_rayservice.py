from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from rayllm_ctl.changes.rayservice import explain_rayservice
from rayllm_ctl.model.observed.changes import Explanation, Running
from tests.changes.services import changed, group, ray_service, serve_config, set_at, with_file

CONFIG = ("rayClusterConfig",)
WORKER = (*CONFIG, "workerGroupSpecs", 0)
POD = (*WORKER, "template", "spec")
BOX = (*POD, "containers", 0)
LIVE = Running(kuberay="1.6.2", clusters=("qwen-aaaaa",))


def effects(found: Explanation) -> dict[str, str]:
    return {change.field: change.effect for change in found.changes}


def spec_change(
    *path: str | int, value: Any, before: dict[str, Any] | None = None, running: Running = LIVE
) -> Explanation:
    item = before or ray_service()
    return explain_rayservice(item, changed(item, set_at(*path, value=value)), running)


def messages(found: Explanation) -> str:
    return "\n".join(one.message for one in found.consequences)


@pytest.mark.parametrize(
    ("path", "value", "field", "effect"),
    [
        ((*BOX, "image"), "ray:2", "image", "new-cluster"),
        ((*BOX, "env", 0, "value"), "2", "env A", "new-cluster"),
        ((*BOX, "resources", "limits", "memory"), "9Gi", "memory limits", "new-cluster"),
        ((*BOX, "resources", "limits", "nvidia.com/gpu"), "8", "nvidia.com/gpu limits", "new-cluster"),
        ((*POD, "nodeSelector"), {"a": "b"}, "nodeSelector", "new-cluster"),
        ((*CONFIG, "rayVersion"), "2.61.0", "rayVersion", "new-cluster"),
        ((*CONFIG, "enableInTreeAutoscaling"), False, "enableInTreeAutoscaling", "new-cluster"),
        ((*CONFIG, "autoscalerOptions"), {"version": "v2"}, "autoscalerOptions", "new-cluster"),
        ((*CONFIG, "workerGroupSpecs"), [], "workerGroupSpecs[gpu]", "new-cluster"),
        ((*WORKER, "groupName"), "gpus", "workerGroupSpecs[gpu]", "new-cluster"),
        ((*WORKER, "maxReplicas"), 5, "maxReplicas", "bounds"),
        ((*WORKER, "minReplicas"), 0, "minReplicas", "bounds"),
        ((*WORKER, "scaleStrategy"), {"workersToDelete": ["x"]}, "scaleStrategy", "in-place"),
        ((*BOX, "resources", "requests", "cpu"), "2000m", "cpu requests", "in-place"),
        ((*POD, "tolerations"), [{"key": "a"}], "tolerations", "not-rolled-out"),
        ((*CONFIG, "suspend"), True, "suspend", "in-place"),
        (("upgradeStrategy",), {"type": "NewCluster"}, "upgradeStrategy", "in-place"),
        (("rayClusterDeletionDelaySeconds",), 5, "rayClusterDeletionDelaySeconds", "in-place"),
        (("serveService",), {"metadata": {}}, "serveService", "not-rolled-out"),
    ],
)
def test_what_becomes_of_a_field(path: tuple[str | int, ...], value: Any, field: str, effect: str) -> None:
    found = spec_change(*path, value=value)
    assert effects(found)[field] == effect
    assert found.consequences


def test_metadata_alone_restarts_nothing() -> None:
    item = ray_service()
    other = copy.deepcopy(item)
    other["metadata"]["labels"]["a"] = "c"
    found = explain_rayservice(item, other, LIVE)
    assert effects(found) == {"label a": "in-place"}
    assert messages(found) == "no pod and no replica restarts"


def test_a_second_cluster_takes_all_other_changes_with_it() -> None:
    item = ray_service()

    def change(spec: Any) -> None:
        worker = spec["rayClusterConfig"]["workerGroupSpecs"][0]
        worker["template"]["spec"]["containers"][0]["image"] = "ray:2"
        worker["maxReplicas"] = 5

    after = with_file(changed(item, change), set_at("applications", 0, "route_prefix", value="/v2"))
    found = explain_rayservice(item, after, LIVE)
    assert effects(found) == {
        "image": "new-cluster",
        "maxReplicas": "with-new-cluster",
        "route_prefix": "with-new-cluster",
    }
    (only,) = found.consequences
    assert only.message.startswith("KubeRay starts a second RayCluster; qwen-aaaaa serves until")
    assert not only.outage


def test_the_same_change_of_head_and_workers_is_one() -> None:
    item = ray_service()

    def change(spec: Any) -> None:
        config = spec["rayClusterConfig"]
        for part in (config["headGroupSpec"], config["workerGroupSpecs"][0]):
            part["template"]["spec"]["containers"][0]["image"] = "ray:2"

    (only,) = explain_rayservice(item, changed(item, change), LIVE).changes
    assert (only.field, only.where, only.old, only.new) == ("image", ("head", "group gpu"), "ray:1", "ray:2")
    assert only.path == "spec.rayClusterConfig.headGroupSpec.template.spec.containers[ray-head].image"


def test_with_strategy_none_nothing_of_the_cluster_is_rolled_out() -> None:
    item = ray_service(upgradeStrategy={"type": "None"})
    found = spec_change(*BOX, "image", value="ray:2", before=item)
    assert effects(found) == {"image": "not-rolled-out"}
    assert "KubeRay leaves qwen-aaaaa as it is" in messages(found)


def test_with_strategy_none_the_file_still_reaches_serve() -> None:
    item = ray_service(upgradeStrategy={"type": "None"})
    after = with_file(changed(item, set_at(*BOX, "image", value="ray:2")), set_at("applications", 0, "args", value={}))
    found = explain_rayservice(item, after, LIVE)
    assert set(effects(found).values()) == {"not-rolled-out", "restart"}


def test_leaving_strategy_none_may_start_what_it_held_back() -> None:
    item = ray_service(upgradeStrategy={"type": "None"})
    found = spec_change("upgradeStrategy", "type", value="NewCluster", before=item)
    assert "held back" in messages(found)
    assert [one.unless for one in found.consequences] == ["upgradeStrategy None has held no change back"]


def test_incremental_upgrades_move_traffic_in_steps() -> None:
    item = ray_service(upgradeStrategy={"type": "NewClusterWithIncrementalUpgrade"})
    found = spec_change(*BOX, "image", value="ray:2", before=item)
    assert "in steps" in messages(found)
    assert "feature gate RayServiceIncrementalUpgrade" in messages(found)
    assert found.consequences[0].unless == "KubeRay's feature gate RayServiceIncrementalUpgrade is off"
    newer = Running(kuberay="1.7.0", clusters=("qwen-aaaaa",))
    found = spec_change(*BOX, "image", value="ray:2", before=item, running=newer)
    assert "feature gate" not in messages(found)
    assert found.consequences[0].unless is None


@pytest.mark.parametrize(
    ("names", "effect"),
    [
        (["gpu", "cpu"], "in-place"),
        (["cpu", "gpu"], "new-cluster"),
        (["cpu"], "new-cluster"),
    ],
)
def test_groups_are_added_in_place_only_at_the_end(names: list[str], effect: str) -> None:
    item = ray_service()
    after = changed(item, set_at(*CONFIG, "workerGroupSpecs", value=[group(name) for name in names]))
    found = explain_rayservice(item, after, LIVE)
    assert effects(found)["workerGroupSpecs[cpu]"] == effect
    if effect == "in-place":
        assert "KubeRay adds the worker group to qwen-aaaaa" in messages(found)


def test_bounds_reach_the_cluster_together_with_an_added_group() -> None:
    item = ray_service()
    after = changed(item, set_at(*CONFIG, "workerGroupSpecs", value=[group(high=7), group("cpu")]))
    assert effects(explain_rayservice(item, after, LIVE))["maxReplicas"] == "in-place"


def test_tolerations_reach_later_pods_together_with_an_added_group() -> None:
    item = ray_service()
    after = changed(item, lambda spec: spec["rayClusterConfig"]["workerGroupSpecs"].append(group("cpu")))
    after = changed(after, set_at(*POD, "tolerations", value=[{"key": "a"}]))
    found = explain_rayservice(item, after, LIVE)
    assert effects(found)["tolerations"] == "not-rolled-out"
    assert "qwen-aaaaa gets the new ones with the worker group, for pods that are created later" in messages(found)


@pytest.mark.parametrize(
    ("kuberay", "effect"), [("1.5.1", "new-cluster"), ("1.6.0", "not-rolled-out"), ("", "not-rolled-out")]
)
def test_tolerations_depend_on_the_version_of_kuberay(kuberay: str, effect: str) -> None:
    found = spec_change(*POD, "tolerations", value=[{"key": "a"}], running=Running(kuberay=kuberay))
    assert effects(found) == {"tolerations": effect}


def test_an_upgrade_in_progress_is_replaced() -> None:
    running = Running(clusters=("qwen-aaaaa", "qwen-bbbbb"))
    assert "qwen-bbbbb, which has not taken over yet" in messages(
        spec_change(*BOX, "image", value="ray:2", running=running)
    )


def test_during_an_upgrade_the_file_goes_to_the_next_cluster() -> None:
    item = ray_service()
    running = Running(clusters=("qwen-aaaaa", "qwen-bbbbb"))
    found = explain_rayservice(item, with_file(item, set_at("applications", 0, "args", value={})), running)
    assert effects(found) == {"args.llm_configs": "with-new-cluster"}
    assert messages(found).endswith("KubeRay sends serveConfigV2 to qwen-bbbbb, which takes over next")


def test_another_layout_of_the_file_restarts_nothing() -> None:
    item = ray_service()
    after = changed(item, set_at("serveConfigV2", value=yaml.safe_dump(serve_config(), default_flow_style=True)))
    found = explain_rayservice(item, after, LIVE)
    assert effects(found) == {"serveConfigV2": "in-place"}
    assert messages(found) == "no pod and no replica restarts"


def test_a_file_that_is_no_yaml_is_unknown_not_harmless() -> None:
    found = spec_change("serveConfigV2", value="a: [")
    assert effects(found) == {"serveConfigV2": "restart"}
    assert found.consequences[0].outage


def test_a_renamed_model_is_said_with_a_second_cluster_too() -> None:
    item = ray_service()
    loading = ("applications", 0, "args", "llm_configs", 0, "model_loading_config", "model_id")
    after = with_file(changed(item, set_at(*BOX, "image", value="ray:2")), set_at(*loading, value="small"))
    assert "ask for the model by its new name" in messages(explain_rayservice(item, after, LIVE))


def test_what_is_missing_is_no_failure() -> None:
    assert explain_rayservice({"spec": None}, {"metadata": None}, Running()) == Explanation()
    empty: Callable[[], dict[str, Any]] = lambda: {"spec": {"rayClusterConfig": {"workerGroupSpecs": None}}}  # noqa: E731
    assert explain_rayservice(empty(), empty(), Running()) == Explanation()


@pytest.mark.parametrize("clusters", [("qwen-aaaaa",), ("qwen-aaaaa", "qwen-bbbbb")])
def test_what_does_not_serve_is_not_said_to_serve(clusters: tuple[str, ...]) -> None:
    running = Running(kuberay="1.6.2", clusters=clusters, serves=False)
    said = messages(spec_change(*BOX, "image", value="ray:2", running=running))
    assert "KubeRay replaces qwen-aaaaa, which does not serve, with another RayCluster" in said
    assert "serves until" not in said


@pytest.mark.parametrize(
    ("path", "value", "effect", "outage"),
    [
        (("suspend",), True, "in-place", True),
        ((*CONFIG, "suspend"), True, "in-place", True),
        ((*WORKER, "maxReplicas"), 0, "bounds", True),
        ((*WORKER, "maxReplicas"), 1, "bounds", False),
    ],
)
def test_pods_that_stop_are_an_outage(path: tuple[str | int, ...], value: Any, effect: str, outage: bool) -> None:
    (only,) = spec_change(*path, value=value).consequences
    assert (only.effect, only.outage) == (effect, outage)


def test_an_explicit_false_and_none_are_two_specs() -> None:
    without, resumed = ray_service(), changed(ray_service(), set_at(*CONFIG, "suspend", value=False))
    for before, after in ((without, resumed), (resumed, without)):
        assert effects(explain_rayservice(before, after, LIVE)) == {"suspend": "new-cluster"}


def test_a_service_that_is_resumed_is_no_outage() -> None:
    (only,) = spec_change("suspend", value=None, before=ray_service(suspend=True)).consequences
    assert (only.message, only.outage) == ("KubeRay starts the pods of the RayCluster again", False)


def test_another_version_of_the_api_is_a_change_that_restarts_nothing() -> None:
    found = explain_rayservice(ray_service(), {**ray_service(), "apiVersion": "ray.io/v1alpha1"}, LIVE)
    assert effects(found) == {"apiVersion": "in-place"}
    assert messages(found) == "no pod and no replica restarts"
