"""Applications of the user's own next to models: where their replicas run, and what is rejected of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.events import Ready
from rayllm_ctl.model.observed.health import Health, State
from rayllm_ctl.model.plan.totals import Range, totals
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.render import render
from rayllm_ctl.specfile import load_file
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.rollout.next_steps import how_to_use

MODEL = {"id": "Qwen/Qwen3-8B", "accelerator": {"gpu": "L4"}, "engine": {"maxModelLen": 8192}}
SMALL = {"num_cpus": 0.5}
TEXT = {"name": "text", "importPath": "text:app", "deployments": [{"name": "Text", "ray_actor_options": SMALL}]}


def written(folder: Path, *applications: dict[str, Any], **spec: Any) -> LLMService:
    file = folder / "chat.yaml"
    head = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": "chat"}}
    file.write_text(json.dumps({**head, "spec": {"models": [MODEL], "applications": applications, **spec}}))
    return load_file(file)


def rendered(service: LLMService) -> list[dict[str, Any]]:
    """The objects but the code of rayllm-ctl and the budget of evictions."""
    return [
        item for item in render(make_plan(service, OFFLINE))
        if "binaryData" not in item and item["kind"] != "PodDisruptionBudget"
    ]  # fmt: skip


def test_replicas_of_applications_have_workers_of_their_own(tmp_path: Path) -> None:
    gpu = {"name": "Embed", "num_replicas": 2, "ray_actor_options": {"num_gpus": 1, "accelerator_type": "L4"}}
    sharded = {"name": "Sharded", "placement_group_bundles": [{"CPU": 1}, {"CPU": 1}]}
    service = written(tmp_path, {**TEXT, "deployments": [*TEXT["deployments"], gpu, sharded]})
    (made,) = rendered(service)
    groups = {one["groupName"]: one for one in made["spec"]["rayClusterConfig"]["workerGroupSpecs"]}
    assert list(groups) == ["ingress", "qwen3-8b", "cpu-applications", "l4-applications"]
    own = {"rayllm.io/workers": "applications"}
    assert [groups[name].get("labels") for name in groups] == [None, None, own, own]
    *_, application = yaml.safe_load(made["spec"]["serveConfigV2"])["applications"]
    assert (application["name"], application["route_prefix"]) == ("text", "/text")
    first, second, third = application["deployments"]
    assert first["ray_actor_options"]["label_selector"] == own
    assert second["ray_actor_options"] == {"num_gpus": 1, "accelerator_type": "L4", "label_selector": own}
    assert third["placement_group_bundle_label_selector"] == [own]
    found = totals(make_plan(service, OFFLINE))
    assert found is not None
    assert found.gpus == {"L4": Range(1, 1), "nvidia.com/gpu": Range(2, 2)}


def test_a_replica_that_selects_its_nodes_keeps_its_selector(tmp_path: Path) -> None:
    options = {"num_cpus": 1, "label_selector": {"disk": "fast"}}
    (made,) = rendered(written(tmp_path, {**TEXT, "deployments": [{"name": "Text", "ray_actor_options": options}]}))
    *_, group = made["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert group["labels"] == {"disk": "fast"}


def test_one_model_beside_applications_keeps_its_workers_for_itself(tmp_path: Path) -> None:
    service = written(tmp_path, TEXT)
    data = json.loads((tmp_path / "chat.yaml").read_text())
    del data["spec"]["models"]
    data["spec"] |= {"model": {"id": MODEL["id"]}, "accelerator": MODEL["accelerator"], "engine": MODEL["engine"]}
    (tmp_path / "chat.yaml").write_text(json.dumps(data))
    (alone,), (listed,) = (rendered(one) for one in (load_file(tmp_path / "chat.yaml"), service))
    worker = alone["spec"]["rayClusterConfig"]["workerGroupSpecs"][1]
    assert worker["groupName"] == "gpu"
    assert json.loads(worker["rayStartParams"]["resources"].strip("'"))["model:qwen3-8b"] == 1
    assert alone["spec"]["serveConfigV2"] == listed["spec"]["serveConfigV2"]


def test_code_is_read_beside_the_spec_file_and_mounted_as_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(f"{name} = 1\n")
    other = {**TEXT, "name": "other", "code": "two"}
    service = written(tmp_path, {**TEXT, "code": "one"}, other)
    code, service_object = rendered(service)
    assert (code["kind"], sorted(code["data"]), code["immutable"]) == ("ConfigMap", ["one.py", "two.py"], True)
    head = service_object["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    assert {"name": "PYTHONPATH", "value": "/opt/rayllm/serving/rayllm.zip:/opt/rayllm/code"} in head["containers"][0][
        "env"
    ]
    (tmp_path / "two" / "one.py").write_text("")
    with pytest.raises(UsageError, match="would be the same file in the pods"):
        rendered(service)


def test_where_they_answer(tmp_path: Path) -> None:
    service = written(tmp_path, TEXT, serve={"grpc": {"servicerFunctions": ["a.b"]}})
    lines = list(how_to_use(rendered(service), Ready("chat", "llm", 1.0, Health(State.READY, "serving"))))
    assert "http://chat-serve-svc.llm:8000/text (in the cluster): application text" in lines[3]
    assert lines[4].endswith("chat-serve-svc.llm:9000 (in the cluster): gRPC")
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"importPath": "text"}, 'spec.applications[0].importPath: "text" is not an import path'),
        ({"importPath": "ray.serve.llm:build_openai_app"}, "importPath: builds models of Ray Serve LLM"),
        ({"deployments": [{"name": "A", "num_replica": 2}]}, "deployments[0].num_replica: unknown field"),
        ({"deployments": [{"name": "A", "num_replicas": -1}]}, "deployments[0].num_replicas: must be an integer"),
        ({"runtimeEnv": {"working_dir": "."}}, "spec.applications[0].runtimeEnv.working_dir: is a folder"),
        ({"code": "nowhere"}, "nowhere is not a directory"),
        ({"deployments": []}, "spec.applications[0].deployments: must list"),
        ({"name": "chat"}, 'spec.applications[0].name: "chat" is the name of the ingress'),
        ({"name": "chat-qwen3-8b"}, '"chat-qwen3-8b" is the name of model qwen3-8b'),
        ({"name": "Text"}, "DNS label"),
        ({"routePrefix": "/"}, "that of the ingress of the models"),
        ({"routePrefix": "/v1/text"}, "reserved for the models"),
        ({"routePrefix": "text"}, '"text" does not start with /'),
    ],
)
def test_what_is_rejected(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        rendered(written(tmp_path, {**TEXT, **changes}))
    assert words in error.value.message


def test_what_they_cannot_be_beside(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        written(tmp_path, TEXT, {**TEXT, "routePrefix": "/other"}, models=[], model={"id": "a"}, mode="raycluster")
    assert "spec.applications: requires mode rayservice" in error.value.message
    assert 'spec.applications[1].name: "text" is the name of spec.applications[0]' in error.value.message
