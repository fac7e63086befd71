"""--serve-config with models of Ray Serve LLM: planned, given GPUs, and rejected like services of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.cli import app
from tests.catalog.hubserver import CONFIG
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI

IMAGE = ("--image", "rayproject/ray-llm:2.60.0-py312-cu130")
H100 = ("--gpu", "H100-80GB")


def text(*configs: dict[str, Any], **application: Any) -> str:
    one = {
        "name": "llms", "import_path": "ray.serve.llm:build_openai_app", "route_prefix": "/",
        "args": {"llm_configs": list(configs)}, **application,
    }  # fmt: skip
    return yaml.safe_dump({"applications": [one]}, sort_keys=False)


def config(model: str = "Qwen/Qwen3-8B", tp: int = 1, pp: int = 1, **fields: Any) -> dict[str, Any]:
    arguments = {"max_model_len": 8192, "tensor_parallel_size": tp, "pipeline_parallel_size": pp}
    arguments |= fields.pop("engine_kwargs", {})
    return {"model_loading_config": {"model_id": model}, "engine_kwargs": arguments, **fields}


class Render:
    """`render --serve-config` of a text."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._file, self._capsys = folder / "chat.yaml", capsys

    def __call__(self, content: str, *flags: str) -> tuple[int, str, str]:
        self._file.write_text(content)
        code = app.run(["render", "--serve-config", str(self._file), "--offline", *IMAGE, *flags])
        out, err = self._capsys.readouterr()
        return code, out, err.replace(f"{self._file.parent}/", "")

    def manifest(self, content: str, *flags: str) -> dict[str, Any]:
        code, out, err = self(content, *flags)
        assert code == 0, err
        found: dict[str, Any] = next(one for one in yaml.safe_load_all(out) if one["kind"] == "RayService")
        return found

    def groups(self, content: str, *flags: str) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self.manifest(content, *flags)["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        return groups


@pytest.fixture
def render(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Render:
    return Render(tmp_path, capsys)


def gpus(group: dict[str, Any]) -> int:
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    return int(limits.get("nvidia.com/gpu", 0))


@pytest.mark.parametrize(
    ("model", "tp", "pp", "replicas"),
    [("meta-llama/Llama-3.3-70B-Instruct", 4, 3, 1), ("Qwen/Qwen3-32B", 4, 1, 2), ("Qwen/Qwen3-8B", 1, 1, 3)],
)
def test_the_cluster_is_that_of_a_service_of_the_model(
    render: Render, capsys: pytest.CaptureFixture[str], model: str, tp: int, pp: int, replicas: int
) -> None:
    deployment = {"autoscaling_config": {"min_replicas": replicas, "max_replicas": replicas}}
    found = render.manifest(text(config(model, tp, pp, deployment_config=deployment)), *H100)
    flags = ("--tp", str(tp), "--pp", str(pp), "--replicas", str(replicas), "--max-model-len", "8192")
    assert app.run(["render", "--model", model, "--name", "chat", "--offline", *IMAGE, *H100, *flags]) == 0
    own = next(one for one in yaml.safe_load_all(capsys.readouterr().out) if one["kind"] == "RayService")
    assert found["spec"]["rayClusterConfig"] == own["spec"]["rayClusterConfig"]
    assert found["metadata"] == own["metadata"]
    assert found["spec"].get("excludeHeadPodFromServeSvc") == own["spec"].get("excludeHeadPodFromServeSvc")
    settings = [yaml.safe_load(one["spec"]["serveConfigV2"])["applications"][0] for one in (found, own)]
    one, other = (item["args"]["llm_configs"][0] for item in settings)
    assert one["engine_kwargs"] == other["engine_kwargs"]
    assert one["accelerator_type"] == other["accelerator_type"]
    times = ("health_check_period_s", "health_check_timeout_s", "graceful_shutdown_timeout_s")
    assert [one["deployment_config"][key] for key in times] == [other["deployment_config"][key] for key in times]


def test_a_replica_over_several_nodes_has_pods_with_whole_tp_groups(render: Render) -> None:
    (group,) = render.groups(text(config("meta-llama/Llama-3.3-70B-Instruct", 4, 3)), *H100)
    assert (group["minReplicas"], group["maxReplicas"], gpus(group)) == (3, 3, 4)


def test_bounds_of_workers_follow_the_replicas_of_the_file(render: Render) -> None:
    def bounds(**deployment: Any) -> tuple[int, int]:
        (group,) = render.groups(text(config(deployment_config=deployment)), *H100)
        return group["minReplicas"], group["maxReplicas"]

    assert bounds() == (1, 1)
    assert bounds(num_replicas=3) == (3, 3)
    assert bounds(autoscaling_config={"min_replicas": 0, "max_replicas": 4}) == (0, 4)
    assert bounds(num_replicas="auto") == (1, 100)
    assert bounds(num_replicas=4, max_surge_percent=50) == (4, 6)
    listed = [{"name": "LLMServer:Qwen--Qwen3-8B", "num_replicas": 5}]
    (group,) = render.groups(text(config(), deployments=listed), *H100)
    assert (group["minReplicas"], group["maxReplicas"]) == (5, 5)


def test_without_an_accelerator_it_says_what_to_add(render: Render) -> None:
    code, out, err = render(text(config(), config("Qwen/Qwen3-32B", 4)))
    assert (code, out) == (2, "")
    words = "names no accelerator, so its GPUs cannot be planned"
    assert err.splitlines()[0].endswith(f"chat.yaml:7: applications[0].args.llm_configs[0]: {words}")
    assert "chat.yaml:13: applications[0].args.llm_configs[1]: names no accelerator" in err
    assert "accelerator_type: H100 in the file (Ray's name), or --gpu H100-80GB" in err


def test_the_accelerator_of_the_file_decides(render: Render) -> None:
    (group,) = render.groups(text(config(accelerator_type="L40S")))
    affinity = json.dumps(group["template"]["spec"]["affinity"])
    assert "NVIDIA-L40S" in affinity
    assert "accelerator_type:L40S" in group["rayStartParams"]["resources"]
    code, _, err = render(text(config(accelerator_type="L40S")), *H100)
    assert code == 2
    assert "no model uses --gpu H100-80GB: the file has L40S" in err


def test_a_type_of_several_gpus_goes_to_all_on_which_the_plan_holds(render: Render) -> None:
    code, out, err = render(text(config(accelerator_type="A100")))
    assert code == 0
    assert "A100 may be A100-40GB or A100-80GB: planned for A100-40GB, and others with as much memory" in err
    assert "A100-SXM4-40GB" in out
    assert "A100-SXM4-80GB" in out
    large = config(
        "meta-llama/Llama-3.3-70B-Instruct", 2, accelerator_type="A100", engine_kwargs={"max_model_len": 4096}
    )
    code, out, err = render(text(large))
    assert code == 0, err
    assert "planned for A100-80GB" in err
    assert "A100-SXM4-40GB" not in out
    code, out, _ = render(text(config(accelerator_type="A100")), "--gpu", "A100-80GB")
    assert "A100-SXM4-40GB" not in out


@pytest.mark.parametrize(
    ("one", "code", "words"),
    [
        (config(tp=3), 1, "TP 3 does not divide the 32 attention heads"),
        (config("Qwen/Qwen3-32B", accelerator_type="L4"), 1, "leave no memory for a KV cache"),
        (config(engine_kwargs={"max_model_len": 1000000}), 1, "exceeds the model's maximum"),
        (config(engine_kwargs={"gpu_memory_utilization": 1.5}), 2, "gpu_memory_utilization: must be greater than 0"),
        (config(engine_kwargs={"dtype": "bf16"}), 2, 'engine_kwargs.dtype: "bf16" is not supported'),
        (config("not a name"), 2, '"not a name" is not a valid model name'),
        (config(accelerator_type="TPU-V6E"), 2, "TPUs cannot be planned"),
        (config(accelerator_type="Intel-GAUDI"), 2, "the memory of Intel-GAUDI is unknown"),
        (config("nobody/nothing"), 1, "nobody/nothing is not in the catalog"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_rejected_with_its_line(render: Render, one: dict[str, Any], code: int, words: str) -> None:
    found, out, err = render(text(one), *(() if "accelerator_type" in one else H100))
    assert (found, out) == (code, "")
    assert words in err
    assert "chat.yaml:" in err


def test_suggestions_are_written_as_fields_of_the_file(render: Render) -> None:
    _, _, err = render(text(config("Qwen/Qwen3-32B", accelerator_type="L4")))
    hint = err.partition("hint: ")[2]
    assert "engine_kwargs.tensor_parallel_size: " in hint
    assert "--tp" not in hint


def test_what_does_not_fit_names_no_flag_that_is_rejected_and_the_gpu_that_a_name_means(render: Render) -> None:
    code, _, err = render(text(config(tp=16, accelerator_type="H100")))
    assert code == 1
    assert "TP 16 exceeds the 8 GPUs of a node with H100-80GB" in err
    assert "--tp" not in err
    _, _, err = render(text(config(engine_kwargs={"kv_cache_memory_bytes": 1, "block_size": 0}, accelerator_type="L4")))
    assert "--engine-arg" not in err


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ({"bundles": [{"GPU": 4}]}, "reserves 4 GPUs for TP 4 × PP 3 = 12"),
        ({"bundle_per_worker": {"GPU": 0.5}}, "shares of a GPU cannot be planned"),
        ({"bundle_per_worker": {"GPU": 1}, "strategy": "STRICT_PACK"}, "STRICT_PACK wants 12 GPUs of one node"),
        ({"bundle_per_worker": {"GPU": 1}, "strategy": "SPREAD"}, "on different nodes"),
    ],
)
def test_a_placement_group_that_does_not_fit_the_replica(render: Render, placement: Any, words: str) -> None:
    model = config("meta-llama/Llama-3.3-70B-Instruct", 4, 3, placement_group_config=placement)
    code, out, err = render(text(model), *H100)
    assert (code, out) == (2, "")
    assert words in err
    assert ".placement_group_config: " in err


def test_a_placement_group_of_the_file_is_kept(render: Render) -> None:
    placement = {"bundles": [{"GPU": 4, "CPU": 16, "slot": 1}] * 3, "strategy": "STRICT_SPREAD"}
    model = config("meta-llama/Llama-3.3-70B-Instruct", 4, 3, placement_group_config=placement)
    found = render.manifest(text(model), *H100)
    settings = yaml.safe_load(found["spec"]["serveConfigV2"])["applications"][0]["args"]["llm_configs"][0]
    assert settings["placement_group_config"] == placement
    (group,) = found["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert int(group["rayStartParams"]["num-cpus"]) >= 17
    assert '"slot": 1' in group["rayStartParams"]["resources"]


def test_a_model_on_cpus(render: Render) -> None:
    one = config("Qwen/Qwen3-0.6B", accelerator_config={"kind": "cpu"})
    found = render.manifest(text(one))
    (group,) = found["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    application = yaml.safe_load(found["spec"]["serveConfigV2"])["applications"][0]
    # Without it vLLM would take a part of the node's memory, not of the pod's.
    assert application["args"]["llm_configs"][0]["engine_kwargs"]["kv_cache_memory_bytes"] > 0
    assert group["groupName"] == "cpu"
    assert gpus(group) == 0
    assert int(group["rayStartParams"]["num-cpus"]) == 3  # the replica, its process, and the ingress


def test_several_models_have_workers_that_no_other_takes(render: Render) -> None:
    found = render.manifest(text(config(), config("Qwen/Qwen3-32B", 4)), *H100)
    groups = {one["groupName"]: one for one in found["spec"]["rayClusterConfig"]["workerGroupSpecs"]}
    assert {name: gpus(group) for name, group in groups.items()} == {"qwen3-8b": 1, "qwen3-32b": 4}
    configs = yaml.safe_load(found["spec"]["serveConfigV2"])["applications"][0]["args"]["llm_configs"]
    for one, name, processes in zip(configs, groups, (1, 4), strict=True):
        assert one["placement_group_config"]["bundle_per_worker"][f"model:{name}"] == 1
        assert f'"model:{name}": {processes}' in groups[name]["rayStartParams"]["resources"]
    assert found["metadata"]["annotations"]["rayllm.io/model"] == "Qwen/Qwen3-8B, Qwen/Qwen3-32B"


def test_an_ingress_that_the_workers_cannot_hold_gets_a_group(render: Render) -> None:
    ingress = {"num_replicas": 40}
    args = {"llm_configs": [config()], "ingress_deployment_config": ingress}
    groups = render.groups(text(args=args), *H100)
    assert [one["groupName"] for one in groups] == ["gpu", "cpu"]
    assert groups[1]["maxReplicas"] == 40


def test_a_builder_of_the_users_own_is_said_not_to_be_planned(render: Render) -> None:
    code, _, err = render(text(config(), import_path="mine:build"))
    assert code == 0
    assert "application llms has llm_configs, and mine:build may not read them: its models are not planned" in err


def test_the_token_of_the_hub_is_for_files_with_models(render: Render) -> None:
    found = render.manifest(text(config()), *H100, "--hf-token-secret", "hf/token")
    for pod in (found["spec"]["rayClusterConfig"][name] for name in ("headGroupSpec",)):
        assert "HF_TOKEN" in json.dumps(pod)
    code, _, err = render(yaml.safe_dump({"applications": [{"import_path": "m:app"}]}), "--hf-token-secret", "hf/token")
    assert code == 2
    assert "has no application with models of Ray Serve LLM" in err


def test_what_is_deployed_has_all_that_was_added(run: Run, tmp_path: Path, api: FakeAPI) -> None:
    first, again = tmp_path / "chat.yaml", tmp_path / "again.yaml"
    first.write_text(text(config(deployment_config={"autoscaling_config": {"max_replicas": 2}})))
    deploy = ("deploy", "--offline", "--name", "chat", "--no-wait", *IMAGE, "--serve-config")
    said = run(*deploy, str(first), *H100)
    assert said.code == 0, str(said)
    assert "added, as for a service that is planned" in said.err
    again.write_text(run("serve-config", "chat").out)
    second = run(*deploy, str(again), *H100)
    assert "rayservice/chat unchanged" in second.err
    assert "added" not in second.err


def test_init_writes_a_service_with_the_same_cluster(render: Render, tmp_path: Path, capsys: Any) -> None:
    deployment = {"autoscaling_config": {"min_replicas": 2, "max_replicas": 3, "target_ongoing_requests": 32}}
    content = text(config("Qwen/Qwen3-32B", 4, deployment_config=deployment))
    own = render.manifest(content, *H100)
    spec = tmp_path / "spec.yaml"
    arguments = ("--from-serve-config", str(tmp_path / "chat.yaml"), "--offline", *IMAGE, *H100)
    assert app.run(["init", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    spec.write_text(out)
    assert app.run(["render", "-f", str(spec), "--offline"]) == 0
    made = next(one for one in yaml.safe_load_all(capsys.readouterr().out) if one["kind"] == "RayService")
    assert made["spec"]["rayClusterConfig"] == own["spec"]["rayClusterConfig"]
    models = [yaml.safe_load(one["spec"]["serveConfigV2"])["applications"][0] for one in (made, own)]
    one, other = (item["args"]["llm_configs"][0]["engine_kwargs"] for item in models)
    assert one == other
    scaling = models[0]["deployments"][0]["autoscaling_config"]
    assert [scaling[key] for key in ("min_replicas", "max_replicas", "target_ongoing_requests")] == [2, 3, 32]


def init(tmp_path: Path, capsys: Any, content: str, *flags: str) -> tuple[int, Any, str]:
    (tmp_path / "chat.yaml").write_text(content)
    code = app.run(["init", "--from-serve-config", str(tmp_path / "chat.yaml"), "--offline", *IMAGE, *flags])
    out, err = capsys.readouterr()
    return code, yaml.safe_load(out), err.replace(f"{tmp_path}/", "")


def test_init_of_several_models_says_what_it_leaves_out(tmp_path: Path, capsys: Any) -> None:
    one = config("a", accelerator_type="L4", runtime_env={"env_vars": {"A": "1"}}, log_engine_metrics=False)
    one["model_loading_config"]["model_source"] = "Qwen/Qwen3-8B"
    other = config("Qwen/Qwen3-32B", 4, deployment_config={"max_ongoing_requests": 9, "num_replicas": 2})
    content = text(one, other, runtime_env={"pip": ["x"]})
    code, spec, err = init(tmp_path, capsys, content, *H100)
    assert code == 0, err
    models = spec["spec"]["models"]
    assert [model["id"] for model in models] == ["Qwen/Qwen3-8B", "Qwen/Qwen3-32B"]
    assert [model["accelerator"]["gpu"] for model in models] == ["L4", "H100-80GB"]
    assert models[1]["replicas"]["max"] == 2
    assert spec["spec"]["engine"]["env"] == {"A": "1"}
    said = [line.split(": ", 1)[1] for line in err.splitlines()]
    assert [line.rsplit("]", 1)[-1].partition(":")[0] for line in said] == [
        ".model_loading_config.model_id", ".log_engine_metrics", ".deployment_config.max_ongoing_requests",
        ".runtime_env.pip",
    ]  # fmt: skip
    assert all("not taken over" in line for line in said)


def test_init_names_each_field_that_it_leaves_out(tmp_path: Path, capsys: Any) -> None:
    one = config(runtime_env={"env_vars": {"A": "1", "B": "${C}"}, "pip": ["x"]}, accelerator_type="L4")
    listed = [
        {"name": "LLMServer:Qwen--Qwen3-8B", "num_replicas": 3, "max_ongoing_requests": 7},
        {"name": "OpenAiIngress", "num_replicas": 2},
    ]
    content = text(one, deployments=listed, runtime_env={"env_vars": {"D": "4"}, "working_dir": "https://h/c.zip"})
    code, spec, err = init(tmp_path, capsys, content)
    assert code == 0, err
    assert spec["spec"]["engine"]["env"] == {"A": "1", "D": "4"}
    assert spec["spec"]["replicas"]["max"] == 3
    application = "applications[0]."
    assert [line.split(": ")[1].removeprefix(application) for line in err.splitlines()] == [
        "args.llm_configs[0].runtime_env.env_vars.B", "args.llm_configs[0].runtime_env.pip",
        "deployments[0].max_ongoing_requests", "deployments[1].num_replicas", "runtime_env.working_dir",
    ]  # fmt: skip


def test_init_says_where_a_token_stands(tmp_path: Path, capsys: Any) -> None:
    code, spec, err = init(tmp_path, capsys, text(config(accelerator_type="L4") | TOKEN))
    assert (code, spec) == (2, None)
    where = "applications[0].args.llm_configs[0].runtime_env.env_vars.HF_TOKEN: a token must be in a Secret"
    assert f"chat.yaml:16: {where}" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (text(config(), import_path="mine:build"), "has no application with models of Ray Serve LLM"),
        (text({"model_loading_config": {"model_id": "m", "model_source": "s3://b/m"}}), "no field for a bucket"),
        (text(config(engine_kwargs={"tensor_paralel_size": 2})), "did you mean tensor_parallel_size?"),
    ],
)
def test_files_that_init_rejects(tmp_path: Path, capsys: Any, content: str, words: str) -> None:
    code, spec, err = init(tmp_path, capsys, content, *H100)
    assert (code, spec) == (2, None)
    assert words in err


def test_init_takes_either_a_spec_or_a_serve_configuration(tmp_path: Path, capsys: Any) -> None:
    code, _, err = init(tmp_path, capsys, text(config()), "--model", "m", "--tp", "2")
    assert code == 2
    assert "--from-serve-config cannot be combined with --model, --tp" in err


GATED = "meta-llama/Llama-3.1-8B-Instruct"
TOKEN = {"runtime_env": {"env_vars": {"HF_TOKEN": "a-token"}}}
REFERENCE = {"runtime_env": {"env_vars": {"HF_TOKEN": "${HF_TOKEN}"}}}


@pytest.mark.parametrize(
    ("fields", "application", "flags", "gated"),
    [
        ({}, {}, (), True),
        ({}, {}, ("--hf-token-secret", "hf/token"), False),
        (TOKEN, {}, (), False),
        (REFERENCE, {}, (), True),
        ({}, REFERENCE, (), True),
        (REFERENCE, {}, ("--hf-token-secret", "hf/token"), False),
        ({}, TOKEN, (), False),
        ({"deployment_config": {"ray_actor_options": TOKEN}}, {}, (), False),
        ({"engine_kwargs": {"hf_token": "hf_x"}}, {}, (), False),
        ({"model_loading_config": {"model_id": GATED, "model_source": "/models/llama"}}, {}, (), False),
        ({"model_loading_config": {"model_id": GATED, "model_source": "s3://bucket/llama"}}, {}, (), False),
    ],
)
def test_a_gated_model_without_a_token_is_announced(
    render: Render, fields: dict[str, Any], application: dict[str, Any], flags: tuple[str, ...], gated: bool
) -> None:
    code, _, err = render(text(config(GATED, **fields), **application), *H100, *flags)
    assert code == 0, err
    assert (f"{GATED} is gated on the Hugging Face Hub" in err) is gated
    written = any("a-token" in str(one) or "hf_x" in str(one) for one in (fields, application))
    assert ("looks like a credential" in err) is written


@pytest.mark.parametrize(
    ("hardware", "flags", "words"),
    [
        ({"accelerator_config": {"kind": "cpu"}}, (), "no public image with Ray and vLLM for CPUs"),
        ({}, ("--gpu", "GH200"), "no public image with Ray and vLLM for arm64"),
    ],
)
def test_nodes_that_the_public_image_does_not_run_on_need_another_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hardware: dict[str, Any], flags: tuple[str, ...], words: str
) -> None:
    file = tmp_path / "chat.yaml"
    file.write_text(text(config("Qwen/Qwen3-0.6B", **hardware)))
    command = ("render", "--serve-config", str(file), "--offline", *flags)
    assert app.run([*command]) == 2
    assert words in capsys.readouterr().err
    assert app.run([*command, "--image", "example.com/own:1"]) == 0
    assert "what example.com/own:1 contains is not known" in capsys.readouterr().err


def test_facts_from_elsewhere_than_the_catalog_are_announced(render: Render, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    code, _, err = render(
        text(config("a/b", engine_kwargs={"max_model_len": 1024})),
        *H100,
        "--model-config",
        str(tmp_path / "config.json"),
    )
    assert code == 0, err
    assert "the facts of a/b are from config.json" in err
