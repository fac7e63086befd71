from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.changes.labels import named
from rayllm_ctl.changes.serve import explain_serve
from rayllm_ctl.model.observed.changes import Consequence, Running, Unread
from rayllm_ctl.model.text.hint import Hint
from tests.changes.services import MODEL, serve_config, set_at

APP = ("applications", 0)
ENGINE = (*APP, "args", "llm_configs", 0, "engine_kwargs")
DEPLOYMENT = (*APP, "deployments", 0)
SCALING = (*DEPLOYMENT, "autoscaling_config")


def judge(
    change: Callable[[Any], object],
    running: Running = Running(),  # noqa: B008  a frozen value
) -> tuple[list[tuple[str, str]], list[Consequence]]:
    old = serve_config()
    new = copy.deepcopy(old)
    change(new)
    judged, consequences = explain_serve(old, new, running)
    return [(one.path[-1], effect) for one, effect in judged], consequences


def test_settings_of_the_transformers_engine_restart_their_model_alone() -> None:
    def config(batch: int) -> dict[str, Any]:
        args = {"model_loading_config": {"model_id": "org/A"}, "transformers": {"max_batch_size": batch, "gpus": 2}}
        app = {"import_path": "rayllm_ctl.serving.model:build", "args": args, "deployments": []}
        other = {**app, "args": {"model_loading_config": {"model_id": "org/B"}}}
        return {"applications": [{"name": "two-a", **app}, {"name": "two-b", **other}]}

    judged, consequences = explain_serve(config(8), config(4), Running())
    assert [(one.path[-1], effect) for one, effect in judged] == [("max_batch_size", "restart")]
    assert [one.effect for one in consequences] == ["restart", "in-place"]
    assert "LLMServer:org--A" in consequences[0].message
    named_as = named([(replace(judged[0][0], path=("spec", "serveConfigV2", *judged[0][0].path)), judged[0][1])])
    assert named_as[0].field == "max_batch_size"


@pytest.mark.parametrize(
    ("path", "value", "effect"),
    [
        # What rebuilds the application: get_app_code_version.
        ((*ENGINE, "max_num_seqs"), 512, "restart"),
        ((*ENGINE, "enforce_eager"), True, "restart"),
        ((*APP, "import_path"), "my.module:app", "restart"),
        ((*APP, "runtime_env"), {"env_vars": {"A": "1"}}, "restart"),
        ((*APP, "autoscaling_policy"), {"policy_function": "p:f"}, "restart"),
        ((*SCALING, "policy"), {"policy_function": "p:f"}, "restart"),
        ((*DEPLOYMENT, "autoscaling_config"), None, "restart"),
        ((*DEPLOYMENT, "request_router_config"), {"request_router_class": "r:C"}, "restart"),
        # What restarts one deployment: DeploymentVersion.requires_actor_restart.
        ((*DEPLOYMENT, "ray_actor_options"), {"num_cpus": 2}, "restart"),
        ((*DEPLOYMENT, "placement_group_strategy"), "PACK", "restart"),
        ((*DEPLOYMENT, "max_replicas_per_node"), 1, "restart"),
        # What replicas that run take up.
        ((*SCALING, "max_replicas"), 5, "in-place"),
        ((*SCALING, "min_replicas"), 0, "in-place"),
        ((*SCALING, "target_ongoing_requests"), 9, "in-place"),
        ((*SCALING, "upscale_delay_s"), 3, "in-place"),
        ((*DEPLOYMENT, "max_ongoing_requests"), 9, "in-place"),
        ((*DEPLOYMENT, "user_config"), {"a": 1}, "in-place"),
        ((*DEPLOYMENT, "graceful_shutdown_timeout_s"), 9, "in-place"),
        ((*DEPLOYMENT, "health_check_period_s"), 9, "in-place"),
        ((*DEPLOYMENT, "num_replicas"), 3, "in-place"),
        ((*APP, "route_prefix"), "/v2", "in-place"),
        (("logging_config",), {"log_level": "DEBUG"}, "in-place"),
        # What Serve reads only when it starts.
        (("http_options",), {"port": 9000}, "not-rolled-out"),
        (("proxy_location",), "HeadOnly", "not-rolled-out"),
        (("grpc_options",), {"port": 9000}, "not-rolled-out"),
    ],
)
def test_what_becomes_of_a_field(path: tuple[str | int, ...], value: Any, effect: str) -> None:
    judged, _ = judge(set_at(*path, value=value))
    assert judged == [(path[-1], effect)]


def test_an_application_that_comes_or_goes() -> None:
    other = {"name": "other", "import_path": "a:b"}
    judged, consequences = judge(lambda config: config["applications"].append(other))
    assert judged == [("[other]", "created")]
    assert [one.effect for one in consequences] == ["created"]
    judged, consequences = judge(lambda config: config["applications"].clear())
    assert judged == [("[qwen]", "deleted")]
    assert consequences == [Consequence("deleted", "Serve deletes application qwen: its replicas stop", outage=True)]


def restart_of(running: Running, *path: str | int, value: Any = 1) -> Consequence:
    _, consequences = judge(set_at(*(path or (*ENGINE, "max_num_seqs")), value=value), running)
    assert [one.effect for one in consequences] == ["restart"]
    return consequences[0]


@pytest.mark.parametrize(
    ("replicas", "outage", "words"),
    [
        (1, True, f"{MODEL} (1 replica), OpenAiIngress (1 replica); {MODEL} is unavailable for about 40 s"),
        (2, False, f"{MODEL} (2 replicas, 1 at a time), OpenAiIngress (2 replicas, 1 at a time); "
                   "the others keep answering, about 80 s in total"),
        (11, False, f"{MODEL} (11 replicas, 2 at a time), OpenAiIngress (11 replicas, 2 at a time); "
                    "the others keep answering, about 4 min in total"),
        (0, False, "there are no running replicas"),
    ],
)  # fmt: skip
def test_how_replicas_restart(replicas: int, outage: bool, words: str) -> None:
    running = Running(replicas={f"qwen/{MODEL}": replicas, "qwen/OpenAiIngress": replicas}, start_seconds=40)
    found = restart_of(running)
    assert found.outage is outage
    assert words in found.message


def test_replicas_that_could_not_be_counted_may_be_one() -> None:
    unread = Unread("no answer within 8 s", Hint("rayllm-ctl status qwen"))
    old = serve_config()
    for one in old["applications"][0]["deployments"]:
        one["autoscaling_config"] |= {"min_replicas": 4, "max_replicas": 8}
    new = copy.deepcopy(old)
    set_at(*ENGINE, "max_num_seqs", value=1)(new)
    _, (found,) = explain_serve(old, new, Running(clusters=("qwen-aaaaa",), unread=unread, start_seconds=40))
    assert found.outage
    assert found.message.endswith(
        f"{MODEL}, OpenAiIngress; how many of them run is unknown: no answer within 8 s; a deployment with one replica "
        "is unavailable for about 40 s"
    )
    assert found.hints == (Hint("rayllm-ctl status qwen"),)
    for one in (one for side in (old, new) for one in side["applications"][0]["deployments"]):
        one["max_surge_percent"] = 100
    _, (found,) = explain_serve(old, new, Running(clusters=("qwen-aaaaa",), unread=unread))
    assert not found.outage, "new replicas start first, however many run"


def test_without_a_cluster_the_fewest_replicas_are_assumed() -> None:
    found = restart_of(Running())
    assert found.outage
    assert found.message.endswith(f"{MODEL} is unavailable until the new one is ready")


def test_a_changed_deployment_restarts_alone() -> None:
    found = restart_of(Running(), *DEPLOYMENT, "ray_actor_options", value={"num_cpus": 2})
    assert MODEL in found.message
    assert "OpenAiIngress" not in found.message


def test_with_a_surge_new_replicas_start_first() -> None:
    old = serve_config()
    for one in old["applications"][0]["deployments"]:
        one["max_surge_percent"] = 100
    new = copy.deepcopy(old)
    set_at(*ENGINE, "max_num_seqs", value=1)(new)
    _, (found,) = explain_serve(old, new, Running())
    assert not found.outage
    assert f"{MODEL} (1 replica, new ones first)" in found.message


def test_a_model_of_another_name_replaces_the_deployment() -> None:
    def rename(config: Any) -> None:
        app = config["applications"][0]
        app["args"]["llm_configs"][0]["model_loading_config"]["model_id"] = "small"
        app["deployments"][0]["name"] = "LLMServer:small"

    _, consequences = judge(rename)
    assert [one.outage for one in consequences] == [True, True]
    assert f"deployment LLMServer:small replaces {MODEL}" in consequences[1].message


def test_the_file_without_a_list_of_applications_is_no_failure() -> None:
    assert explain_serve({}, {"applications": None}, Running()) == ([], [])
    judged, _ = explain_serve(
        {"applications": [{"import_path": "a:b"}]}, {"applications": [{"import_path": "a:c"}]}, Running()
    )
    assert [effect for _, effect in judged] == ["restart"]


def llm_service(**options: Any) -> dict[str, Any]:
    """A service whose replicas stand in its llm_configs, as in Ray's own examples."""
    config = {
        "model_loading_config": {"model_id": "org/a.b"},
        "engine_kwargs": {"max_model_len": 8192},
        "deployment_config": options,
    }
    app = {"name": "llms", "import_path": "ray.serve.llm:build_openai_app", "args": {"llm_configs": [config]}}
    return {"applications": [app]}


def longer_context(config: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(config)
    for key, item in changed["applications"][0]["args"].items():
        if key != "ingress_deployment_config":
            (item[0] if isinstance(item, list) else item)["engine_kwargs"]["max_model_len"] = 16384
    return changed


@pytest.mark.parametrize(
    ("options", "outage", "words"),
    [
        ({"autoscaling_config": {"min_replicas": 1, "max_replicas": 1}}, True, "LLMServer:org--a_b (1 replica)"),
        ({"autoscaling_config": {"max_replicas": 4}}, True, "LLMServer:org--a_b (1 replica)"),
        ({"autoscaling_config": {"min_replicas": 0, "max_replicas": 4}}, True, "LLMServer:org--a_b (1 replica)"),
        ({"num_replicas": 1}, True, "LLMServer:org--a_b (1 replica)"),
        ({"num_replicas": "auto"}, True, "LLMServer:org--a_b (1 replica)"),
        ({}, True, "LLMServer:org--a_b (1 replica)"),
        ({"autoscaling_config": {"min_replicas": 2, "max_replicas": 4}}, True, "OpenAiIngress is unavailable"),
        ({"name": "chat", "num_replicas": 1}, True, "LLMServer:chat (1 replica)"),
    ],
)
def test_replicas_of_llm_configs_count(options: dict[str, Any], outage: bool, words: str) -> None:
    old = llm_service(**options)
    judged, (found,) = explain_serve(old, longer_context(old), Running())
    assert [effect for _, effect in judged] == ["restart"]
    assert found.outage is outage
    assert words in found.message


def test_replicas_of_llm_configs_answer_meanwhile_if_there_are_two_of_each() -> None:
    old = llm_service(autoscaling_config={"min_replicas": 2, "max_replicas": 4})
    old["applications"][0]["args"]["ingress_deployment_config"] = {"num_replicas": 2}
    _, (found,) = explain_serve(old, longer_context(old), Running())
    assert not found.outage


def test_what_the_file_lists_of_a_deployment_wins_over_llm_configs() -> None:
    old = llm_service(num_replicas=1)
    old["applications"][0]["deployments"] = [
        {"name": "LLMServer:org--a_b", "autoscaling_config": {"min_replicas": 3, "max_replicas": 3}},
        {"name": "OpenAiIngress", "num_replicas": 2},
    ]
    _, (found,) = explain_serve(old, longer_context(old), Running())
    assert not found.outage
    assert "LLMServer:org--a_b (3 replicas, 1 at a time)" in found.message


@pytest.mark.parametrize(
    ("builder", "keys", "names"),
    [
        ("ray.serve.llm.build_openai_app", ("llm_configs",), ("LLMServer:a",)),
        ("ray.serve.llm:build_dp_openai_app", ("llm_config",), ("DPServer:a",)),
        ("ray.serve.llm:build_pd_openai_app", ("prefill_config", "decode_config"), ("Prefill:a", "Decode:a")),
    ],
)
def test_every_builder_of_ray_is_recognised(builder: str, keys: tuple[str, ...], names: tuple[str, ...]) -> None:
    one = {"model_loading_config": {"model_id": "a"}, "engine_kwargs": {"max_model_len": 1}}
    args = {key: [one] if key == "llm_configs" else copy.deepcopy(one) for key in keys}
    old = {"applications": [{"name": "x", "import_path": builder, "args": args}]}
    judged, (found,) = explain_serve(old, longer_context(old), Running())
    assert found.outage
    assert all(f"{name} (1 replica)" in found.message for name in names)
    below = [(replace(one, path=("spec", "serveConfigV2", *one.path)), effect) for one, effect in judged]
    assert {change.field for change in named(below)} == {"max_model_len"}


@pytest.mark.parametrize(
    ("deployments", "words"),
    [
        ([{"name": "A"}], "A (number of replicas unknown); A may be unavailable"),
        ([], "it may be unavailable until new replicas are ready"),
        ([{"name": "A", "autoscaling_config": {"min_replicas": 0}}], "A is unavailable"),
    ],
)
def test_an_unknown_number_of_replicas_may_be_one(deployments: list[Any], words: str) -> None:
    old = {"applications": [{"name": "x", "import_path": "m:app", "deployments": deployments}]}
    new = {"applications": [{"name": "x", "import_path": "m:other", "deployments": deployments}]}
    _, (found,) = explain_serve(old, new, Running())
    assert found.outage
    assert words in found.message
