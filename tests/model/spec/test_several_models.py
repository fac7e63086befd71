"""Services of several models: what each is alone, and what they cannot be together."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.service import (
    Accelerator,
    Adapter,
    Engine,
    LLMService,
    Model,
    ModelEngine,
    ModelEntry,
    Parallelism,
    PodResources,
    Replicas,
    WorkerResources,
)
from rayllm_ctl.model.spec.several_models import each_model
from rayllm_ctl.specfile import load

A, B = ModelEntry("org/A"), ModelEntry("org/B", name="second")


def service(*models: ModelEntry, **changes: Any) -> LLMService:
    return LLMService("chat", models=models, **changes)


def problems(*models: ModelEntry, **changes: Any) -> list[tuple[str, str]]:
    return [(problem.where, problem.message) for problem in validate(service(*models, **changes))]


def test_each_model_alone() -> None:
    entry = ModelEntry(
        "org/A",
        path="/models/a",
        engine=ModelEngine(max_model_len=9, args={"seed": 1}),
        parallelism=Parallelism(2),
        replicas=Replicas(0, 3),
        resources=WorkerResources(PodResources("4", "9Gi")),
        adapters=(Adapter("legal", "/a"),),
    )
    engine = Engine(image="r/i:1", env={"K": "v"})
    alone = each_model(service(entry, B, engine=engine))
    assert list(alone) == ["a", "second"]
    first, second = alone.values()
    assert first.model == Model("org/A", path="/models/a", adapters=entry.adapters)
    assert first.engine == Engine(max_model_len=9, args={"enable_lora": True, "seed": 1}, image="r/i:1", env={"K": "v"})
    assert (first.parallelism, first.replicas) == (Parallelism(2), Replicas(0, 3))
    assert first.resources.worker == PodResources("4", "9Gi")
    assert first.scheduling.ray_resources == {"model:a": 1}
    assert (second.engine, second.models) == (engine, ())
    only = LLMService("chat", Model("org/A"))
    assert each_model(only) == {"a": only}


@pytest.mark.parametrize(
    ("models", "where", "words"),
    [
        ((A, ModelEntry("org/A", name="other")), "spec.models[1].id", "an id of spec.models[0] as well"),
        ((A, ModelEntry("org/A")), "spec.models[1].id", "an id of spec.models[0] as well"),
        ((A, ModelEntry("other/a")), "spec.models[1].name", "is the name of spec.models[0]"),
        ((B, ModelEntry("org/C", name="ingress")), "spec.models[1].name", "reserved"),
        ((B, ModelEntry("org/C", name="Not_A_Label")), "spec.models[1].name", "DNS label"),
        ((B, ModelEntry("not valid", name="c")), "spec.models[1].id", "not a valid model name"),
        ((A, ModelEntry("org/B", adapters=(Adapter("org/A", "/a"),))),
         "spec.models[1].adapters[0].id", "spec.models[0]"),
        ((ModelEntry("org/A", adapters=(Adapter("x", "a"),)),), "spec.models[0].adapters[0].path", "absolute path"),
        ((ModelEntry("org/A", adapters=(Adapter("x", "/a"), Adapter("x", "/b"))),),
         "spec.models[0].adapters[1].id", "another adapter"),
        ((ModelEntry("org/A", replicas=Replicas(3, 2)),),
         "spec.models[0].replicas.min", "spec.models[0].replicas.max (2)"),
        ((ModelEntry("org/A", path="/m", revision="x"),), "spec.models[0].revision", "spec.models[0].path"),
        ((A, ModelEntry("org/B", accelerator=Accelerator("cpu"))),
         "spec.models[1].accelerator.kind", "different images"),
        ((ModelEntry("org/A", token_secret=SecretKey("a", "k")), ModelEntry("org/B", token_secret=SecretKey("b", "k"))),
         "spec.models[1].tokenSecret", "one token"),
        ((ModelEntry("org/A", resources=WorkerResources(PodResources(cpu="0"))),),
         "spec.models[0].resources.worker.cpu", "greater than 0"),
        ((ModelEntry("org/A", adapters=(Adapter("x", "/a"),), engine=ModelEngine(args={"enable_lora": True})),),
         "spec.models[0].engine.args", "spec.models[0].adapters"),
    ],
)  # fmt: skip
def test_what_models_cannot_be(models: tuple[ModelEntry, ...], where: str, words: str) -> None:
    ((found, message),) = problems(*models)
    assert found == where
    assert words in message


@pytest.mark.parametrize(
    ("changes", "where", "words"),
    [
        ({"model": Model("org/C")}, "spec.models", "cannot be combined with spec.model"),
        ({"mode": "raycluster"}, "spec.models", "requires mode rayservice"),
        ({"replicas": Replicas(1, 3)}, "spec.replicas.max", "belongs to each model"),
        ({"parallelism": Parallelism(4)}, "spec.parallelism.tensor", "belongs to each model"),
        ({"engine": Engine(max_num_seqs=4)}, "spec.engine.maxNumSeqs", "belongs to each model"),
    ],
)
def test_what_is_not_said_of_the_service(changes: dict[str, Any], where: str, words: str) -> None:
    ((found, message),) = problems(A, B, **changes)
    assert found == where
    assert words in message


def test_an_adapter_may_come_from_an_object_store() -> None:
    assert problems(ModelEntry("org/A", adapters=(Adapter("x", "s3://bucket/folder/x"),))) == []
    assert problems(ModelEntry("org/A", adapters=(Adapter("x", "http://host/x"),)))


def test_a_service_without_a_model() -> None:
    text = "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: x}\nspec: {models: []}\n"
    with pytest.raises(UsageError, match=r"x\.yaml:4: spec\.model: required field is missing"):
        load(text, source="x.yaml")
    with pytest.raises(UsageError, match=r"spec\.models\[0\]\.engine\.image: unknown field"):
        load(text.replace("[]", "[{id: a, engine: {image: b}}]"), source="x.yaml")
