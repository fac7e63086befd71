"""The rules of Ray Serve LLM for its llm_configs, by the fields of one version of Ray."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rayllm_ctl.catalog.rayserve import fields, releases
from rayllm_ctl.catalog.releases import RELEASES, resolve_release
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.service import Engine
from rayllm_ctl.serveconfig.check import read_serve_config

HEAD = """applications:
- name: llms
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {model_id: m, model_source: org/m}
"""


def read(text: str, ray: str = "2.60.0") -> tuple[str, ...]:
    return read_serve_config(text, "f", fields(resolve_release(Engine(ray_version=ray)))).notes


def rejected(text: str, ray: str = "2.60.0") -> str:
    with pytest.raises(UsageError) as caught:
        read(text, ray)
    return "\n".join((caught.value.message, *caught.value.hints))


def config(*lines: str) -> str:
    return HEAD + "".join(f"      {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("accelerator_type: A100-80GB", '"A100-80GB" is not an accelerator type of Ray 2.60.0\ndid you mean A100?'),
        ("accelerator_type: h100", "did you mean H100?"),
        ("tensor_parallel_size: 4", "tensor_parallel_size: unknown field of Ray Serve LLM 2.60.0\nengine_kwargs."),
        ("min_replicas: 4", "deployment_config.autoscaling_config.min_replicas"),
        ("model_id: x", "model_loading_config.model_id"),
        ("max_ongoing_requests: 4", "deployment_config.max_ongoing_requests"),
        ("engine_kwarg: {}", "did you mean engine_kwargs?"),
        ("use_cpu: true", "accelerator_config: {kind: cpu}"),
        ("resources_per_bundle: {GPU: 1}", "placement_group_config.bundle_per_worker"),
        ("llm_engine: VLLM", "did you mean vLLM?"),
        ("engine_kwargs: {tensor_paralel_size: 2}", "unknown engine argument of vLLM 0.29.0\ndid you mean tensor_"),
        ("engine_kwargs: {tensor_parallel_size: '2'}", 'tensor_parallel_size: must be an integer, not "2"'),
        ("engine_kwargs: {enforce_eager: 1}", "must be true or false"),
        ("engine_kwargs: {model: x}", "engine_kwargs.model: cannot be set"),
        ("engine_kwargs: {data_parallel_size: 2}", "data_parallel_size: cannot be set"),
        ("engine_kwargs: {distributed_executor_backend: mp}", '"mp" is not supported'),
        ("engine_kwargs: {disable_log_stats: true}", "the engine's metrics need it\nlog_engine_metrics: false"),
        ("deployment_config: {autoscaling_config: {min_replica: 1}}", "did you mean min_replicas?"),
        ("deployment_config: {autoscaling_config: {max_replicas: 0}}", "max_replicas: must be at least 1, not 0"),
        ("deployment_config: {autoscaling_config: {min_replicas: 2}}", "2 is greater than max_replicas, which is 1"),
        ("deployment_config: {autoscaling_config: {min_replicas: 3, max_replicas: 2}}", "3 is greater than max_rep"),
        ("deployment_config: {num_replica: 1}", "unknown option of a deployment in Ray 2.60.0\ndid you mean num_rep"),
        ("deployment_config: {min_replicas: 1}", "autoscaling_config.min_replicas"),
        ("deployment_config: {num_replicas: 2, autoscaling_config: {}}", 'must be "auto" or left out'),
        ("deployment_config: {placement_group_strategy: PACK}", "placement_group_config"),
        ("deployment_config: {max_replicas_per_node: 1}", "cannot be set"),
        ("deployment_config: {ray_actor_options: {num_gpu: 1}}", "did you mean num_gpus?"),
        ("placement_group_config: {strategy: PACK}", "must have either bundle_per_worker or bundles"),
        ("placement_group_config: {bundles: [{GPU: -1}]}", "must be at least 0"),
        ("placement_group_config: {bundles: [{GPU: 1}], strategy: pack}", '"pack" is not supported'),
        ("placement_group_config: {bundles: [{GPU: 1}], topology_strategy: {}}", "topology_strategy: unknown field"),
        ("accelerator_config: {kind: npu}", "must be cpu, gpu or tpu"),
        ("accelerator_config: {kind: gpu, topology: 2x2}", "topology: unknown field"),
        ("lora_config: {dynamic_lora_loading_path: /adapters}", "is not the address of a bucket"),
        ("model_loading_config: {model_source: a/b}", "model_loading_config.model_id: required field is missing"),
        ("model_loading_config: {model_id: m, path: /x}", "path: unknown field of Ray Serve LLM 2.60.0\nmodel_source"),
        ("model_loading_config: {model_id: m, model_source: {bucket_uri: /x}}", "is not the address of a bucket"),
        ("runtime_env: {env_vars: {A: 1}}", "env_vars.A: expected a string"),
        ("experimental_configs: {num_router_replicas: 2}", "was removed\ningress_deployment_config beside llm_configs"),
    ],
)
def test_what_is_rejected_with_the_line_and_what_was_meant(line: str, words: str) -> None:
    said = rejected(config(line))
    assert said.startswith("f:7: applications[0].args.llm_configs[0]")
    assert words in said


def test_what_ray_documents_and_does_not_read_is_noted() -> None:
    (note,) = read(config("experimental_configs: {num_ingress_replicas: 2}"))
    assert note.startswith("f:7: ")
    assert "Ray reads it nowhere" in note


def test_cpus_have_no_accelerator_type() -> None:
    said = rejected(config("accelerator_type: L4", "accelerator_config: {kind: cpu}"))
    assert "accelerator_type: cannot be combined with CPUs" in said
    said = rejected(config("accelerator_type: TPU-V6E", "accelerator_config: {kind: gpu}"))
    assert "is not of the kind gpu" in said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("{}", "args.llm_configs: required field is missing"),
        ("{llm_configs: []}", "must contain the configuration of a model"),
        ("{llm_configs: [/etc/model.yaml]}", "is the path of a file in the pods"),
        ("{llm_configs: {model_id: m}}", "must be a list"),
        ("{llm_config: []}", "did you mean llm_configs?"),
        ("{llm_configs: [{model_loading_config: {model_id: m}}], ingress_cls_config: {cls: x}}", "cls: unknown field"),
        ("{llm_configs: [{model_loading_config: {model_id: m}}, {model_loading_config: {model_id: m}}]}",
         '"m" is the id of another model'),
    ],
)  # fmt: skip
def test_the_arguments_of_the_builder(args: str, words: str) -> None:
    builder = "applications:\n- import_path: ray.serve.llm.build_openai_app\n"
    said = rejected(f"{builder}  args: {args}\n")
    assert words in said
    assert said.startswith("f:3: " if args != "{}" else "f:")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LLMServer:n", "did you mean LLMServer:m?"),
        ("LLMServer", ""),
        ("m", "did you mean LLMServer:m?"),
        ("OpenAIIngress", "did you mean OpenAiIngress?"),
        ("Ingress", "did you mean OpenAiIngress?"),
    ],
)
def test_options_of_a_deployment_that_the_builder_does_not_make(name: str, meant: str) -> None:
    said = rejected(f"{HEAD}  deployments:\n  - name: OpenAiIngress\n  - name: {name}\n")
    assert said.startswith("f:9: applications[0].deployments[1].name: the application has no deployment ")
    assert f'"{name}" (it has LLMServer:m, OpenAiIngress)' in said
    assert meant in said


def test_deployments_that_the_builder_makes_and_those_of_others_are_taken() -> None:
    named = "  deployments: [{name: 'LLMServer:m'}, {name: OpenAiIngress}]\n"
    assert read(HEAD + named) == ()
    assert read(config("deployment_config: {name: other}") + named.replace(":m", ":other")) == ()
    assert read("applications:\n- import_path: my.app:build\n  deployments: [{name: X}]\n") == ()


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        ("ray.serve.llm:build_dp_openai_app", "in groups that share its experts"),
        ("ray.serve.llm:build_pd_openai_app", "replicas for prefill and others for decode"),
        ("ray.serve.llm:build_llm_deployment", "without an HTTP API"),
        ("ray.serve.llm:build_openapi_app", "is not a builder of Ray 2.60.0"),
    ],
)
def test_builders_that_are_not_supported_say_why(builder: str, words: str) -> None:
    said = rejected(f"applications:\n- import_path: {builder}\n  args: {{llm_config: {{}}}}\n")
    assert said.startswith("f:2: applications[0].import_path: ")
    assert words in said
    assert "ray.serve.llm:build_openai_app" in said


def test_fields_and_types_are_those_of_the_version() -> None:
    surge = config("deployment_config: {max_surge_percent: 10}")
    assert read(surge) == ()
    assert "max_surge_percent: unknown option of a deployment in Ray 2.59.0" in rejected(surge, "2.59.0")
    newer = config("accelerator_type: GB200")
    assert read(newer, "2.58.0") == ()
    assert "is not an accelerator type of Ray 2.57.0" in rejected(newer, "2.57.0")
    assert read(config("accelerator_type: A10")) == ()


def test_the_table_has_every_release_and_says_of_others_what_it_takes() -> None:
    assert tuple(releases()) == tuple(release.ray for release in RELEASES)
    assert (
        fields(resolve_release(Engine(ray_version="2.99.0"))).note
        == f"Ray 2.99.0 is not known: checked as {[*releases()][-1]}"
    )
    assert fields(resolve_release(Engine())).note == ""


def placeholder(text: str) -> list[str]:
    return [line for line in rejected(text).splitlines() if "placeholder" in line]


def test_placeholders_of_models_are_rejected_by_line_and_nothing_else_is_said_of_them() -> None:
    text = config("engine_kwargs:", "  max_model_len: ${MAX_LEN}", "  dtype: '{{ dtype }}'", "accelerator_type: <GPU>")
    assert placeholder(text) == [
        f'f:{line}: applications[0].args.llm_configs[0].{where}: the placeholder "{word}" was not replaced by a value'
        for line, where, word in (
            (8, "engine_kwargs.max_model_len", "${MAX_LEN}"),
            (9, "engine_kwargs.dtype", "{{ dtype }}"),
            (10, "accelerator_type", "<GPU>"),
        )
    ]
    assert len(rejected(text).splitlines()) == 3
    assert placeholder(config("engine_kwargs: {max_model_len: {{ LENGTH }}}")) == [
        "f:7: the placeholder {{ LENGTH }} was not replaced by a value"
    ]


def test_what_ray_expands_and_what_templates_of_chats_contain_is_no_placeholder() -> None:
    text = config(
        "runtime_env: {env_vars: {LD_LIBRARY_PATH: '${LD_LIBRARY_PATH}:/x'}}",
        "engine_kwargs: {chat_template: '{{ messages[0] }}'}",
    )
    assert read(text) == ()


@pytest.mark.parametrize("word", ["${A}", "pre-${A_B:-x}", "$HOME", "{{ a }}", "<your-value>", "$(A)"])
def test_placeholders_of_other_applications_are_noted(word: str) -> None:
    text = f"applications:\n- import_path: m:app\n  args:\n    x: {json.dumps(word)}\n"
    (note,) = read(text)
    assert note.startswith("f:4: applications[0].args.x: the placeholder ")


@pytest.mark.parametrize("word", ["$5", "a < b", "100%", "{a}", "a@b"])
def test_ordinary_text_is_no_placeholder(word: str) -> None:
    assert read(f"applications:\n- import_path: m:app\n  args:\n    x: {json.dumps(word)}\n") == ()


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("{pipp: [x]}", "runtime_env.pipp: unknown field: Ray ignores it (did you mean pip?)"),
        ("{env_var: {A: '1'}}", "runtime_env.env_var: unknown field: Ray ignores it (did you mean env_vars?)"),
        ("{workingdir: https://h/x.zip}", "did you mean working_dir?"),
        ("{config: {setup_timeout: 5}}", "did you mean setup_timeout_seconds?"),
    ],
)
def test_unknown_fields_of_a_runtime_environment_are_noted(env: str, words: str) -> None:
    for place in (f"runtime_env: {env}", f"deployments: [{{name: D, ray_actor_options: {{runtime_env: {env}}}}}]"):
        (note,) = read(f"applications:\n- import_path: m:app\n  {place}\n")
        assert note.startswith("f:3: ")
        assert words in note


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("{pip: {package: [x]}}", "pip.package: unknown field"),
        ("{pip: {packages: [x], pip_chek: true}}", "did you mean pip_check?"),
        ("{uv: {packages: [x], uv_version: 5}}", "uv_version: expected a string"),
        ("{pip: 5}", "pip: expected a list of packages, found 5"),
        ("{pip: [x], conda: base}", "cannot be combined with"),
    ],
)
def test_what_ray_rejects_of_a_runtime_environment(env: str, words: str) -> None:
    assert words in rejected(f"applications:\n- import_path: m:app\n  runtime_env: {env}\n")


@pytest.mark.parametrize(
    ("value", "noted"),
    [("{b, c}", True), ("{b}", True), ("\n      ? b\n      ? c", True), ("{b: , c: }", False), ("{}", False),
     ("\n      b:\n      c:", False), ("{b, c: 1}", False), ("[b, c]", False)],
)  # fmt: skip
def test_sets_are_noted(value: str, noted: bool) -> None:
    notes: Any = read(f"applications:\n- import_path: m:app\n  args:\n    x: {value}\n")
    found = [note for note in notes if "is a mapping with keys and no values" in note]
    assert bool(found) is noted
    assert all("applications[0].args.x" in note and "for a list: [b" in note for note in found)
