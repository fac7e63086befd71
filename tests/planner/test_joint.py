"""Several models planned together: the sums, and what their manifests say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.changes.rayservice import explain_rayservice
from rayllm_ctl.console.plan.several_models import together
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.observed.changes import Running
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.model.plan.totals import Range, several_to_json, totals
from rayllm_ctl.model.spec.fact_sources import OFFLINE, FactSources
from rayllm_ctl.model.spec.model_storage import (
    HubCache,
    Mirror,
    MirrorClaim,
    MirrorTarget,
    ModelStorage,
    NewClaim,
    ObjectStore,
)
from rayllm_ctl.model.spec.service import (
    Accelerator,
    Engine,
    LLMService,
    ModelEngine,
    ModelEntry,
    Parallelism,
    Replicas,
    Storage,
)
from rayllm_ctl.planner.deployment.deployment import behind_an_ingress
from rayllm_ctl.planner.pin import pinned
from rayllm_ctl.render import render
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout.prerequisites import model_bytes
from tests.catalog.hubserver import CONFIG

LARGE = ModelEntry(
    "Qwen/Qwen3-32B",
    name="large",
    accelerator=Accelerator(gpu="H100-80GB"),
    parallelism=Parallelism(2),
    replicas=Replicas(1, 3),
)
SMALL = ModelEntry(
    "Qwen/Qwen3-8B", accelerator=Accelerator(gpu="L4"), engine=ModelEngine(max_model_len=8192), replicas=Replicas(0, 2)
)
SERVICE = LLMService("chat", models=(LARGE, SMALL))


def planned(service: LLMService = SERVICE) -> Plan:
    return make_plan(service, OFFLINE)


def manifest(service: LLMService = SERVICE) -> dict[str, Any]:
    found: dict[str, Any] = render(planned(service))[0]
    return found


def test_the_sums() -> None:
    plan = planned()
    found = totals(plan)
    assert found is not None
    assert found.gpus == {"H100-80GB": Range(2, 6), "L4": Range(0, 2)}
    assert found.pods == Range(4, 14)  # with the head and the ingress
    assert plan.startup == plan.each["large"].startup
    lines = list(together(plan))
    assert lines[0].startswith("2 to 6 H100-80GB · 0 to 2 L4 · 4 to 14 pods with ")
    assert "USD/h" in lines[1]
    report = several_to_json(plan)
    assert [(one["name"], one["model"]) for one in report["models"]] == [
        ("large", "Qwen/Qwen3-32B"), ("qwen3-8b", "Qwen/Qwen3-8B"),
    ]  # fmt: skip
    assert json.dumps(report["totals"])


def in_a_claim(size: str, *, hub: bool = False) -> LLMService:
    """SERVICE, whose models have 61.0 and 15.3 GiB of files, with a new claim for them."""
    create = NewClaim(size)
    mirror = ModelStorage(mirror=Mirror(MirrorTarget(claim=MirrorClaim("models", create=create))))
    return replace(SERVICE, storage=Storage(model=ModelStorage(hub=HubCache("models", create)) if hub else mirror))


@pytest.mark.parametrize("size", ["10Gi", "62Gi", "76Gi", "83Gi", " 83Gi "])
@pytest.mark.parametrize("hub", [False, True])
def test_a_claim_of_fixed_size_that_all_models_share_has_space_for_all(size: str, hub: bool) -> None:
    with pytest.raises(UsageError) as raised:
        planned(in_a_claim(size, hub=hub))
    field = f"spec.storage.model.{'hub' if hub else 'mirror.to.claim'}.create.size"
    assert str(raised.value) == (
        f"{field}: {size.strip()} is too small for 76.3 GiB of files plus 10 %: Qwen/Qwen3-32B 61.0 GiB, "
        "Qwen/Qwen3-8B 15.3 GiB"
    )
    assert raised.value.hints == (f"{field}: 84Gi, or auto",)


def test_the_size_that_is_suggested_is_that_of_auto() -> None:
    for size in ("84Gi", "auto"):
        found = planned(in_a_claim(size)).deployment
        assert found is not None
        assert found.storage is not None
        assert [claim.size for claim in found.storage.claims] == ["84Gi"]
        assert not any("not known" in note for note in found.storage.notes)


def test_a_model_of_unknown_size_leaves_it_open_whether_all_fit() -> None:
    def storage(size: str) -> ModelStoragePlan | None:
        service = in_a_claim(size)
        plans = {name: replace(one, storage=None) if name == "large" else one for name, one in known.items()}
        return behind_an_ingress(service, plans).storage

    known = planned(in_a_claim("84Gi")).each
    found = storage("84Gi")
    assert found is not None
    assert (
        "claim models is created with 84Gi; whether the model fits is not known: the size of the files of "
        "Qwen/Qwen3-32B is unknown, and those of the other models have 15.3 GiB"
    ) in found.notes
    with pytest.raises(
        UsageError, match=r"16Gi .* at least 15\.3 GiB of files plus 10 %: Qwen/Qwen3-32B unknown, Qwen/Qwen3-8B 15\.3"
    ) as raised:
        storage("16Gi")
    assert raised.value.hints == (
        "spec.storage.model.mirror.to.claim.create.size: 17Gi plus the files of Qwen/Qwen3-32B",
    )


def test_a_claim_that_exists_is_measured_by_all_models() -> None:
    plan = planned(in_a_claim("84Gi"))
    assert model_bytes(Rendering("chat", None, (), (), plan)) == sum(one.file_bytes or 0 for one in plan.each.values())
    models = {**plan.each, "large": replace(plan.each["large"], storage=None)}
    assert model_bytes(Rendering("chat", None, (), (), replace(plan, models=models))) is None
    assert model_bytes(Rendering("chat", None, (), (), None)) is None


def test_what_the_image_lacks_is_said_for_each_model() -> None:
    to = MirrorTarget(object_store=ObjectStore("s3://weights", load="stream"))
    plan = planned(replace(SERVICE, storage=Storage(model=ModelStorage(mirror=Mirror(to)))))
    assert plan.verdict == "invalid"
    assert [(reason.code, reason.message.partition(":")[0]) for reason in plan.reasons] == [
        ("image-lacks-packages", "large"), ("image-lacks-packages", "qwen3-8b"),
    ]  # fmt: skip
    assert all("rayllm-ctl image recipe" in reason.suggestion for reason in plan.reasons)


def test_a_group_of_workers_for_each_model_where_only_its_replicas_have_a_place() -> None:
    made = manifest()
    groups = made["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert [(g["groupName"], g["minReplicas"], g["maxReplicas"]) for g in groups] == [
        ("ingress", 2, 8), ("large", 1, 3), ("qwen3-8b", 0, 2),
    ]  # fmt: skip
    applications = yaml.safe_load(made["spec"]["serveConfigV2"])["applications"]
    assert [one["name"] for one in applications] == ["chat", "chat-large", "chat-qwen3-8b"]
    for group, application in zip(groups[1:], applications[1:], strict=True):
        offered = json.loads(group["rayStartParams"]["resources"].strip("'"))
        taken = application["args"]["placement_group_config"]["bundle_per_worker"]
        own = f"model:{group['groupName']}"
        assert taken[own] == 1
        assert offered[own] == application["args"]["engine_kwargs"]["tensor_parallel_size"]
    models = applications[0]["deployments"][0]["user_config"]["models"]
    assert [one["application"] for one in models] == ["chat-large", "chat-qwen3-8b"]


def test_a_model_that_does_not_fit_is_named_with_the_fields_that_help() -> None:
    impossible = replace(SMALL, engine=ModelEngine(max_model_len=40_000), parallelism=Parallelism(1))
    plan = planned(replace(SERVICE, models=(LARGE, impossible)))
    assert (plan.verdict, plan.deployment, totals(plan)) == ("does-not-fit", None, None)
    assert all(reason.message.startswith("qwen3-8b: ") for reason in plan.reasons)
    assert plan.suggestions
    assert not any("--" in change.flags for change in plan.suggestions)
    assert plan.suggestions[0].flags.startswith("qwen3-8b: ")


def test_models_that_need_different_images() -> None:
    amd = replace(LARGE, accelerator=Accelerator(gpu="MI300X"))
    plan = planned(replace(SERVICE, models=(amd, SMALL)))
    assert (plan.verdict, [reason.code for reason in plan.reasons]) == ("invalid", ["no-common-image"])
    named = replace(SERVICE, models=(amd, SMALL), engine=Engine(image="registry.example.com/all:1"))
    assert planned(named).verdict == "fits"


def test_what_was_planned_can_be_written_down() -> None:
    plan = planned()
    written = pinned(SERVICE, plan)
    assert written.models[0].engine.max_model_len == 40960
    assert render(planned(written)) == render(plan)


def test_what_a_change_of_one_model_does_to_the_others() -> None:
    def effects(service: LLMService) -> list[str]:
        found = explain_rayservice(manifest(), manifest(service), Running())
        return [one.effect for one in found.consequences]

    changed = replace(SMALL, engine=ModelEngine(max_model_len=8192, args={"seed": 1}))
    found = explain_rayservice(manifest(), manifest(replace(SERVICE, models=(LARGE, changed))), Running())
    restart, rest = found.consequences
    assert restart.message.startswith("application chat-qwen3-8b: ")
    assert "large" not in restart.message
    assert (rest.effect, rest.message) == ("in-place", "no replica of application chat, chat-large restarts")
    more = replace(SMALL, replicas=Replicas(0, 5))
    assert effects(replace(SERVICE, models=(LARGE, more))) == ["bounds"]
    third = ModelEntry("Qwen/Qwen3-14B", accelerator=Accelerator(gpu="H100-80GB"))
    assert set(effects(replace(SERVICE, models=(LARGE, SMALL, third)))) == {"in-place", "created"}
    assert effects(replace(SERVICE, models=(LARGE,)))[0] == "new-cluster"
    # Nor do the workers of the ingress change, which would take requests with them.
    ingresses = [
        made["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
        for made in (manifest(), manifest(replace(SERVICE, models=(LARGE,))))
    ]
    assert ingresses[0] == ingresses[1]


def test_configurations_of_models_that_cannot_be_looked_up(tmp_path: Path) -> None:
    unknown = ModelEntry("my/own", accelerator=Accelerator(gpu="L4"), engine=ModelEngine(max_model_len=4096))
    service = replace(SERVICE, models=(LARGE, unknown))
    with pytest.raises(UsageError, match=r"has no folder of any of the models \(large, own\)"):
        make_plan(service, FactSources(model_config=tmp_path, offline=True))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text(json.dumps(CONFIG))
    plan = make_plan(service, FactSources(model_config=tmp_path, offline=True))
    assert plan.each["own"].facts_source.startswith(str(tmp_path))
    assert plan.each["large"].facts_source.startswith("catalog")
