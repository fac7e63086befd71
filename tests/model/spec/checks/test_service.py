"""What is refused in a service, with the path to it."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest
from hypothesis import given, settings

from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.ray_options import Authentication, FaultTolerance, RayLogging, RayOptions, Upgrade
from rayllm_ctl.model.spec.security import Security
from rayllm_ctl.model.spec.serve_options import Serve
from rayllm_ctl.model.spec.service import (
    Accelerator,
    Engine,
    LLMService,
    Load,
    Model,
    Parallelism,
    PodResources,
    Replicas,
    Resources,
    Scheduling,
    Storage,
    Toleration,
    Volume,
)
from rayllm_ctl.model.text.problems import Problem
from tests.model.services import services

INCREMENTAL = Upgrade("NewClusterWithIncrementalUpgrade", step_size_percent=10, interval=10, gateway_class_name="istio")
GOOD = LLMService("qwen", Model("Qwen/Qwen3-32B"))


def only_problem(**changes: Any) -> Problem:
    problems = validate(dataclasses.replace(GOOD, **changes))
    assert len(problems) == 1, problems
    return problems[0]


@settings(max_examples=15)
@given(services())
def test_good_services_have_no_problem(service: LLMService) -> None:
    assert validate(service) == []


@pytest.mark.parametrize(
    ("changes", "where", "words"),
    [
        ({"mode": "raycluster", "replicas": Replicas(0, 1)}, "spec.replicas.min", "mode raycluster"),
        ({"mode": "raycluster", "replicas": Replicas(1, 3)}, "spec.replicas.max", "no autoscaler knows its load"),
        ({"mode": "raycluster", "replicas": Replicas(2, 2, upscale_delay=1)}, "spec.replicas.upscaleDelay",
         "has no autoscaler"),
        ({"mode": "raycluster", "accelerator": Accelerator("cpu"), "parallelism": Parallelism(2)},
         "spec.parallelism.tensor", "does not support CPUs"),
        ({"mode": "raycluster", "engine": Engine(args={"port": 80})}, "spec.engine.args.port", "port 8000"),
        ({"engine": Engine(args={"distributed_executor_backend": "mp"})},
         "spec.engine.args.distributed_executor_backend", "Ray Serve LLM chooses it"),
        ({"name": "x" * 48}, "metadata.name", "47 characters, not 48"),
        ({"name": "Qwen"}, "metadata.name", "DNS-1035"),
        ({"name": "1x"}, "metadata.name", "DNS-1035"),
        (
            {"serve": Serve("HeadOnly"), "upgrade": INCREMENTAL},
            "spec.serve.proxyLocation",
            "send requests to workers as well",
        ),
        ({"namespace": "A"}, "metadata.namespace", "not a valid namespace"),
        ({"model": Model("")}, "spec.model.id", "not a valid model name"),
        ({"model": Model("/models/x")}, "spec.model.id", "not a valid model name"),
        ({"model": Model("a/b/c")}, "spec.model.id", "not a valid model name"),
        ({"model": Model("m", path="models")}, "spec.model.path", "absolute"),
        ({"model": Model("m", path="/a/../b")}, "spec.model.path", "absolute"),
        ({"model": Model("m", path="/a/" + "x" * 256)}, "spec.model.path", "absolute"),
        ({"model": Model("m", revision="main", path="/m")}, "spec.model.revision", "spec.model.path"),
        ({"engine": Engine(image="a b")}, "spec.engine.image", "not a valid image"),
        ({"engine": Engine(image="user:pass@host/image")}, "spec.engine.image", "not a valid image"),
        ({"engine": Engine(vllm_version="latest")}, "spec.engine.vllmVersion", "not a valid version"),
        ({"engine": Engine(ray_version="2")}, "spec.engine.rayVersion", "not a valid version"),
        ({"engine": Engine(ray_version="2.55.1")}, "spec.engine.rayVersion", "2.56 or newer"),
        ({"engine": Engine(max_model_len=0)}, "spec.engine.maxModelLen", "at least 1"),
        ({"engine": Engine(max_num_seqs=2**31)}, "spec.engine.maxNumSeqs", "less than"),
        ({"engine": Engine(dtype="bf16")}, "spec.engine.dtype", "is not supported (supported values: auto,"),
        ({"engine": Engine(kv_cache_dtype="fp7")}, "spec.engine.kvCacheDtype", "is not supported (supported values"),
        ({"engine": Engine(quantization="FP 8")}, "spec.engine.quantization", "not a valid quantization"),
        ({"engine": Engine(gpu_memory_utilization=0.0)}, "spec.engine.gpuMemoryUtilization", "greater than 0"),
        ({"engine": Engine(gpu_memory_utilization=1.01)}, "spec.engine.gpuMemoryUtilization", "at most 1"),
        ({"engine": Engine(gpu_memory_utilization=float("nan"))}, "spec.engine.gpuMemoryUtilization", "greater than 0"),
        ({"engine": Engine(max_num_seqs=64, max_num_batched_tokens=32)}, "spec.engine.maxNumBatchedTokens", "64"),
        ({"parallelism": Parallelism(tensor=0)}, "spec.parallelism.tensor", "at least 1"),
        ({"parallelism": Parallelism(pipeline=-1)}, "spec.parallelism.pipeline", "at least 1"),
        ({"replicas": Replicas(-1, 1)}, "spec.replicas.min", "at least 0"),
        ({"replicas": Replicas(0, 0)}, "spec.replicas.max", "at least 1"),
        ({"replicas": Replicas(3, 2)}, "spec.replicas.min", "3 is greater than spec.replicas.max (2)"),
        ({"replicas": Replicas(target_ongoing_requests=0)}, "spec.replicas.targetOngoingRequests", "at least 1"),
        ({"replicas": Replicas(upscale_delay=-1.0)}, "spec.replicas.upscaleDelay", "must be at least 0"),
        ({"replicas": Replicas(look_back_period=0.0)}, "spec.replicas.lookBackPeriod", "greater than 0"),
        ({"replicas": Replicas(1, 3, initial=4)}, "spec.replicas.initial", "4 is not between spec.replicas.min (1)"),
        ({"replicas": Replicas(1, 3, initial=0)}, "spec.replicas.initial", "not between"),
        ({"replicas": Replicas(1, 3, downscale_to_zero_delay=1.0)}, "spec.replicas.downscaleToZeroDelay", "no effect"),
        ({"replicas": Replicas(look_back_period=9.0, metrics_interval=9.0)}, "spec.replicas.metricsInterval", "9s"),
        ({"replicas": Replicas(upscaling_factor=0.0)}, "spec.replicas.upscalingFactor", "greater than 0"),
        ({"replicas": Replicas(downscaling_factor=-1.0)}, "spec.replicas.downscalingFactor", "greater than 0"),
        ({"replicas": Replicas(aggregation_function=cast(Any, "median"))}, "spec.replicas.aggregationFunction", "mean"),
        ({"scheduling": Scheduling(ray_resources={"a b": 1})}, "spec.scheduling.rayResources.a b", "valid name"),
        ({"scheduling": Scheduling(ray_resources={"GPU": 1})}, "spec.scheduling.rayResources.GPU", "Ray's own"),
        ({"scheduling": Scheduling(ray_resources={"accelerator_type:H100": 1})},
         "spec.scheduling.rayResources.accelerator_type:H100", "Ray's own"),
        ({"scheduling": Scheduling(ray_resources={"a": 1.5})}, "spec.scheduling.rayResources.a", "whole number"),
        ({"scheduling": Scheduling(ray_resources={"a": 0})}, "spec.scheduling.rayResources.a", "not 0"),
        ({"load": Load(rate=float("inf"))}, "spec.load.rate", "at most 1000000, not inf"),
        ({"load": Load(concurrency=0)}, "spec.load.concurrency", "at least 1"),
        ({"resources": Resources(worker=PodResources(memory="16 GB"))}, "spec.resources.worker.memory", "quantity"),
        ({"resources": Resources(worker=PodResources(memory="10"))}, "spec.resources.worker.memory", "10 bytes"),
        ({"resources": Resources(head=PodResources(memory="16k"))}, "spec.resources.head.memory", "at least 1Mi"),
        ({"resources": Resources(worker=PodResources(memory="2Pi"))}, "spec.resources.worker.memory", "at most 1Pi"),
        ({"load": Load(calibration="a\0b")}, "spec.load.calibration", "is not a path"),
        ({"resources": Resources(ingress=PodResources(memory="4"))}, "spec.resources.ingress.memory", "4 bytes"),
        ({"resources": Resources(worker=PodResources(cpu="16Gi"))}, "spec.resources.worker.cpu", "17,179,869,184 CPUs"),
        ({"resources": Resources(head=PodResources(cpu="0"))}, "spec.resources.head.cpu", "greater than 0"),
        ({"scheduling": Scheduling({"a/b/c": "x"})}, "spec.scheduling.nodeSelector.a/b/c", "label key"),
        ({"scheduling": Scheduling({"pool": "a b"})}, "spec.scheduling.nodeSelector.pool", "label value"),
        ({"scheduling": Scheduling(tolerations=(Toleration("k", effect=cast("Any", "Never")),))},
         "spec.scheduling.tolerations[0].effect", "NoSchedule"),
        ({"accelerator": Accelerator("cpu", "L4")}, "spec.accelerator.gpu", "CPU services"),
        ({"accelerator": Accelerator("cpu"), "parallelism": Parallelism(pipeline=2)},
         "spec.parallelism.pipeline", "one pod"),
        ({"accelerator": Accelerator("cpu"), "parallelism": Parallelism(tensor=2, across_nodes=True)},
         "spec.parallelism.acrossNodes", "CPU services"),
        ({"parallelism": Parallelism(across_nodes=True)},
         "spec.parallelism.acrossNodes", "requires spec.parallelism.tensor"),
        ({"accelerator": Accelerator("cpu"), "engine": Engine(gpu_memory_utilization=0.5)},
         "spec.engine.gpuMemoryUtilization", "CPU services"),
    ],
)  # fmt: skip
def test_what_is_refused(changes: dict[str, Any], where: str, words: str) -> None:
    problem = only_problem(**changes)
    assert problem.where == where
    assert words in problem.message


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("tensor_parallel_size", "--tp"),
        ("tensor-parallel-size", "--tp"),
        ("--max-model-len", "--max-model-len"),
        ("hf_token", "--hf-token-secret"),
        ("model", "spec.model"),
        ("served_model_name", "spec.model.id"),
        ("enable-prefix-caching", "enable_prefix_caching"),
        ("1x", "not a valid engine argument name"),
    ],
)
def test_engine_arguments_that_cannot_be_given(argument: str, words: str) -> None:
    problem = only_problem(engine=Engine(args={argument: 1}))
    assert problem.path == ("spec", "engine", "args", argument)
    assert words in f"{problem.message} {problem.hint}"


def test_misspelled_words_get_the_nearest() -> None:
    assert only_problem(engine=Engine(dtype="bfloat61")).hint == "did you mean bfloat16?"
    assert only_problem(model=Model("a/b ")).hint == "without the spaces around it: a/b"
    assert only_problem(engine=Engine(dtype="fp8")).hint.startswith("--quantization fp8")


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "MYTOKEN",
        "apikey",
        "client-secret",
        "DB_PASS",
        "PASS",
        "db.pass",
        "DB_PWD",
        "REDIS_AUTH",
        "AUTH",
        "CREDENTIAL",
        "GIT_CREDENTIALS",
    ],
)
def test_variables_that_would_hold_a_secret_are_refused_without_their_value(name: str) -> None:
    problem = only_problem(engine=Engine(env={name: "hunter2"}))
    assert "hunter2" not in f"{problem.message} {problem.hint}"


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "SSL_KEY_FILE",
        "MONKEY",
        "KEYBOARD",
        "OMP_NUM_THREADS",
        "BYPASS",
        "COMPASS",
        "PASS_THROUGH",
        "PWD",
        "OLDPWD",
        "RAY_AUTH_MODE",
        "AUTHOR",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GIT_CREDENTIALS_FILE",
    ],
)
def test_variables_that_only_sound_like_a_secret_pass(name: str) -> None:
    assert validate(dataclasses.replace(GOOD, engine=Engine(env={name: "x"}))) == []


@pytest.mark.parametrize(
    "url", ["postgres://u:hunter2@db:5432/x", "see http://:hunter2@proxy/", "redis+tls://a.b:hunter2%20@h"]
)
def test_urls_with_a_password_are_credentials(url: str) -> None:
    for engine in (Engine(env={"DB": url}), Engine(args={"hf_overrides": {"a": [url]}})):
        problem = only_problem(engine=engine)
        assert "credential" in problem.message
        assert "hunter2" not in f"{problem.message} {problem.hint}"


@pytest.mark.parametrize("url", ["http://host:8080/a@b", "https://user@host/", "s3://bucket/x:y@z", "12:30@noon"])
def test_urls_without_a_password_pass(url: str) -> None:
    assert validate(dataclasses.replace(GOOD, engine=Engine(env={"URL": url}))) == []


def test_tokens_are_found_and_never_repeated() -> None:
    token = "hf_" + "a1B2" * 8
    for changes in (
        {"engine": Engine(env={"FOO": f"x {token}"})},
        {"engine": Engine(args={"hf_overrides": {"a": [token]}})},
        {"model": Model("m", token_secret=SecretKey(token, "token"))},
        {"model": Model("m", token_secret=SecretKey("a", token + "/"))},
    ):
        problem = only_problem(**changes)
        assert token not in f"{problem} {problem.hint}"


@pytest.mark.parametrize("text", ["\0", "\x7f", "\x80", "\ud800", "\uffff"])
def test_control_characters_that_kubernetes_refuses(text: str) -> None:
    assert "control characters" in only_problem(engine=Engine(env={"A": f"x{text}"})).message


def test_arguments_without_a_form_in_json_are_refused() -> None:
    for value in (float("nan"), ["\ud800"], {"a": float("-inf")}):
        assert "no form in JSON" in only_problem(engine=Engine(args={"seed": value})).message


@pytest.mark.parametrize(
    ("volume", "where"),
    [
        (Volume("A", "/m", config_map="d"), "name"),
        (Volume("shared-mem", "/m", config_map="d"), "name"),
        (Volume("m", "m", config_map="d"), "mountPath"),
        (Volume("m", "/", config_map="d"), "mountPath"),
        (Volume("m", "/dev/shm", config_map="d"), "mountPath"),
        (Volume("m", "/a:b", config_map="d"), "mountPath"),
        (Volume("m", "/m", host_path="d"), "hostPath"),
        (Volume("autoscaler-token", "/m", config_map="d"), "name"),
        (Volume("m", "/m", persistent_volume_claim="A_b"), "persistentVolumeClaim"),
        (Volume("m", "/m", config_map="c", read_only=False), "readOnly"),
    ],
)
def test_volumes_that_are_refused(volume: Volume, where: str) -> None:
    found = only_problem(storage=Storage((volume,)), security=Security("privileged"))
    assert found.where == f"spec.storage.volumes[0].{where}"


def test_a_volume_has_one_source() -> None:
    assert "not 0" in only_problem(storage=Storage((Volume("m", "/m"),))).message
    assert "not 2" in only_problem(storage=Storage((Volume("m", "/m", config_map="d", secret="s"),))).message


def test_volumes_do_not_share_names_or_places() -> None:
    one = Volume("m", "/m", config_map="d")
    problems = validate(dataclasses.replace(GOOD, storage=Storage((one, dataclasses.replace(one, mount_path="/m/")))))
    assert [problem.where for problem in problems] == [
        "spec.storage.volumes[1].name",
        "spec.storage.volumes[1].mountPath",
    ]


def test_all_problems_are_found_at_once() -> None:
    service = LLMService("Q", Model("m"), parallelism=Parallelism(0, 0), replicas=Replicas(2, 1))
    assert [str(problem).split(":")[0] for problem in validate(service)] == [
        "metadata.name",
        "spec.parallelism.tensor",
        "spec.parallelism.pipeline",
        "spec.replicas.min",
    ]


@pytest.mark.parametrize(
    ("ray", "where", "message"),
    [
        (RayOptions(Authentication("none", "mine")), "authentication.secretName", "has no effect without"),
        (RayOptions(Authentication("token", "Mine")), "authentication.secretName", "is not a valid name"),
        (RayOptions(idle_timeout=0.5), "idleTimeout", "whole number of seconds of at least 1, not 0.5 s"),
        (
            RayOptions(logging=RayLogging(backup_count=0)),
            "logging.backupCount",
            "between 1 and 2147483647, not 0",
        ),
        (RayOptions(logging=RayLogging(rotate_bytes="much")), "logging.rotateBytes", "is not a valid quantity"),
        (RayOptions(fault_tolerance=FaultTolerance("redis")), "faultTolerance.redisAddress", "is not a valid address"),
        (
            RayOptions(fault_tolerance=FaultTolerance("r:6379", SecretKey("P@ss", "w0rd"))),
            "faultTolerance.passwordSecret",
            "not the password itself",
        ),
    ],
)
def test_ray_options(ray: RayOptions, where: str, message: str) -> None:
    problem = only_problem(ray=ray)
    assert problem.where == f"spec.ray.{where}"
    assert message in problem.message


def test_a_password_in_the_address_of_a_redis_is_not_repeated() -> None:
    problem = only_problem(ray=RayOptions(fault_tolerance=FaultTolerance("redis://:s3cret@redis:6379")))
    assert "s3cret" not in f"{problem} {problem.hint}"
    assert "passwordSecret" in problem.hint


def test_logging_is_stated_once() -> None:
    logging = RayLogging(encoding="JSON")
    problem = only_problem(ray=RayOptions(logging=logging), engine=Engine(env={"RAY_LOGGING_CONFIG_ENCODING": "TEXT"}))
    assert problem.where == "spec.engine.env.RAY_LOGGING_CONFIG_ENCODING"


INCREMENTAL = Upgrade("NewClusterWithIncrementalUpgrade", None, 10, 30.0, "istio")


@pytest.mark.parametrize(
    ("upgrade", "where", "message"),
    [
        (Upgrade(step_size_percent=10), "stepSizePercent", "has no effect with strategy NewCluster"),
        (Upgrade("None", interval=5.0), "interval", "has no effect with strategy None"),
        (dataclasses.replace(INCREMENTAL, interval=None), "interval", "is required with strategy"),
        (dataclasses.replace(INCREMENTAL, step_size_percent=0), "stepSizePercent", "between 1 and 100, not 0"),
        (dataclasses.replace(INCREMENTAL, max_surge_percent=101), "maxSurgePercent", "between 1 and 100, not 101"),
        (dataclasses.replace(INCREMENTAL, gateway_class_name="A B"), "gatewayClassName", "is not a valid name"),
        (Upgrade(deletion_delay=-1.0), "deletionDelay", "at least 0, not -1 s"),
    ],
)
def test_upgrades(upgrade: Upgrade, where: str, message: str) -> None:
    problem = only_problem(upgrade=upgrade)
    assert problem.where == f"spec.upgrade.{where}"
    assert message in problem.message


def test_an_incremental_upgrade_is_valid() -> None:
    assert validate(dataclasses.replace(GOOD, upgrade=INCREMENTAL)) == []
