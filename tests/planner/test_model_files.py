"""The files of a model: where the engine loads from, what pods mount and are told, claims, and the Job of a mirror."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.quantities import GIB, parse_quantity
from rayllm_ctl.model.plan.deployment import Deployment
from rayllm_ctl.model.plan.plan import Band, Plan, PodSizes, StoragePlan
from rayllm_ctl.model.plan.pods import PodTemplate
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.gateway import Gateway
from rayllm_ctl.model.spec.model_storage import (
    Caches,
    HubCache,
    Mirror,
    MirrorClaim,
    MirrorTarget,
    ModelClaim,
    ModelImage,
    ModelStorage,
    NewClaim,
    ObjectStore,
)
from rayllm_ctl.model.spec.pod_options import AllOf, EnvironmentSource, EnvironmentVariable, PodOptions, Pods
from rayllm_ctl.model.spec.service import (
    Accelerator,
    Engine,
    LLMService,
    Model,
    PodResources,
    Resources,
    Scheduling,
    Storage,
    Toleration,
    Volume,
)
from rayllm_ctl.planner.deployment.claims import folder_size, shared_claims
from rayllm_ctl.planner.deployment.deployment import with_deployment
from rayllm_ctl.planner.deployment.downloads import downloads
from rayllm_ctl.planner.deployment.model_files import model_files
from rayllm_ctl.planner.deployment.pods import streaming_pods
from tests.render.plans import H100, plan

MODEL = Model("Qwen/Qwen3-8B", token_secret=SecretKey("hf", "token"))
BYTES = 10 * GIB
IMAGE = Engine(image="registry.example.com/ray-llm-streamer:1")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

TO_CLAIM = Mirror(MirrorTarget(claim=MirrorClaim("models")))
STREAMED = ModelStorage(object_store=ObjectStore("s3://weights/qwen", load="stream"))


def stored(way: ModelStorage | None = None, caches: Caches | None = None, **parts: Any) -> LLMService:
    service = LLMService("q", MODEL, engine=IMAGE, storage=Storage(model=way, caches=caches))
    return replace(service, **parts)


def planned(service: LLMService, file_bytes: int | None = BYTES, **engine: Any) -> Plan:
    first = plan(replace(service, storage=Storage(service.storage.volumes)), H100, **engine)
    known = None if file_bytes is None else StoragePlan(file_bytes, True, 1, 1, "hub", (), None, "", Band(1, 1, 1))
    bare = replace(first, deployment=None, storage=known)
    return with_deployment(bare, service, resolve_release(service.engine))


def deployed(service: LLMService, file_bytes: int | None = BYTES, **engine: Any) -> Deployment:
    found = planned(service, file_bytes, **engine).deployment
    assert found is not None
    return found


def variables(pod: PodTemplate) -> dict[str, str | None]:
    return {one.name: one.value for one in pod.env}


def mounts(pod: PodTemplate) -> dict[str, bool]:
    return {} if pod.storage is None else {one.path: one.read_only for one in pod.storage.mounts}


def source(deployment: Deployment) -> str:
    assert deployment.serve is not None
    return deployment.serve.model_source


@pytest.mark.parametrize(
    ("way", "loaded", "mounted"),
    [
        (ModelStorage(hub=HubCache("hub")), "Qwen/Qwen3-8B", {"/models/hub": False}),
        (ModelStorage(claim=ModelClaim("c")), "/models", {"/models": True}),
        (ModelStorage(claim=ModelClaim("c", "a/b")), "/models/a/b", {"/models": True}),
        (ModelStorage(image=ModelImage("r/m:1", "m")), "/models/image/m", {"/models/image": True}),
        (ModelStorage(mirror=TO_CLAIM), "/models/Qwen/Qwen3-8B/main", {"/models": True}),
        (ModelStorage(object_store=ObjectStore("s3://b/m/")), "/models/copy", {"/models/copy": True}),
        (STREAMED, "s3://weights/qwen", {}),
    ],
)
def test_engines_load_from_where_pods_have_the_files(way: ModelStorage, loaded: str, mounted: dict[str, bool]) -> None:
    found = deployed(stored(way))
    assert source(found) == loaded
    assert found.serve is not None
    assert found.serve.model_id == "Qwen/Qwen3-8B"
    assert mounts(found.worker.pod) == mounted
    assert found.head.storage is None  # or a claim of one node would hold it there as well


def test_a_revision_is_a_folder_and_no_longer_one_of_the_engine() -> None:
    found = deployed(stored(ModelStorage(mirror=TO_CLAIM), model=replace(MODEL, revision="v2")))
    assert source(found) == "/models/Qwen/Qwen3-8B/v2"
    assert found.serve is not None
    assert found.serve.revision is None
    assert found.storage is not None
    assert found.storage.downloads[0].settings.data["revision"] == "v2"


def test_the_token_is_where_the_hub_is_asked() -> None:
    mirrored = deployed(stored(ModelStorage(mirror=TO_CLAIM)))
    assert mirrored.storage is not None
    (job,) = mirrored.storage.downloads
    assert "HF_TOKEN" in {one.name for one in job.container.env}
    for pod in (mirrored.head, mirrored.worker.pod):
        assert "HF_TOKEN" not in variables(pod)
    assert variables(mirrored.worker.pod)["HF_HUB_OFFLINE"] == "1"
    cached = deployed(stored(ModelStorage(hub=HubCache("hub"))))
    assert {"HF_TOKEN", "HF_HOME"} <= variables(cached.worker.pod).keys()
    assert "HF_HUB_OFFLINE" not in variables(cached.worker.pod)


@pytest.mark.parametrize(
    "args", [{"trust_remote_code": True}, {"speculative_config": {"model": "org/draft"}}, {"tokenizer": "org/tokens"}]
)
def test_an_engine_that_names_something_else_on_the_hub_may_ask_it(args: dict[str, Any]) -> None:
    worker = deployed(stored(ModelStorage(claim=ModelClaim("c")), engine=Engine(args=args))).worker.pod
    assert "HF_TOKEN" in variables(worker)
    assert "HF_HUB_OFFLINE" not in variables(worker)


def test_pods_wait_for_a_mirror_and_for_nothing_else() -> None:
    def waits(way: ModelStorage) -> list[str]:
        storage = deployed(stored(way)).worker.pod.storage
        return [] if storage is None else [one.name for one in storage.init]

    copied, target = ObjectStore("s3://b/m"), MirrorTarget(object_store=ObjectStore("s3://b/m"))
    assert waits(ModelStorage(mirror=TO_CLAIM)) == ["wait-for-model"]
    assert waits(ModelStorage(mirror=Mirror(target))) == ["wait-for-model", "copy-model"]
    assert waits(ModelStorage(object_store=copied)) == ["copy-model"]
    assert waits(ModelStorage(claim=ModelClaim("c"))) == waits(STREAMED) == []


def test_how_a_mirror_reads_its_source_is_nothing_of_serving_pods() -> None:
    def with_source(**source: Any) -> Deployment:
        return deployed(stored(ModelStorage(mirror=replace(TO_CLAIM, from_="s3://b/m", **source))))

    first, second = with_source(secret="a"), with_source(secret="b", endpoint="http://minio:9000")
    assert first.worker_groups == second.worker_groups
    assert first.storage is not None
    assert second.storage is not None
    assert first.storage.downloads != second.storage.downloads


def test_a_gateway_reads_tokenizers_from_the_folder_or_the_hub() -> None:
    def ingress(way: ModelStorage, **parts: Any) -> tuple[Deployment, PodTemplate]:
        found = deployed(stored(way, gateway=Gateway(), **parts))
        return found, found.worker_groups[0].pod

    found, pod = ingress(ModelStorage(mirror=TO_CLAIM))
    assert mounts(pod) == {"/models": True}
    assert pod.storage is not None
    assert pod.storage.init == ()
    assert found.serve is not None
    assert found.serve.tokenizer is None
    assert "HF_TOKEN" not in variables(pod)
    found, pod = ingress(STREAMED)
    assert found.serve is not None
    assert found.serve.tokenizer == "Qwen/Qwen3-8B"
    assert mounts(pod) == {}
    assert "HF_TOKEN" in variables(pod)
    found, pod = ingress(STREAMED, model=Model("qwen"))
    assert found.serve is not None
    assert found.serve.tokenizer == ""


@pytest.mark.parametrize(
    ("file_bytes", "size"), [(1, "1Gi"), (10 * GIB, "11Gi"), (931 * GIB, "1025Gi"), (930 * GIB, "1023Gi")]
)
def test_a_claim_has_the_files_and_a_tenth(file_bytes: int, size: str) -> None:
    assert folder_size(file_bytes) == size
    assert 10 * parse_quantity(size) >= 11 * file_bytes


def test_a_size_that_cannot_be_derived_is_asked_for() -> None:
    way = ModelStorage(mirror=Mirror(MirrorTarget(claim=MirrorClaim("c", create=NewClaim()))))
    with pytest.raises(UsageError, match="size of the model's files, and that of Qwen/Qwen3-8B is not known") as raised:
        deployed(stored(way), None)
    assert "spec.storage.model.mirror.to.claim.create.size: 200Gi" in raised.value.hints
    given = ModelStorage(mirror=Mirror(MirrorTarget(claim=MirrorClaim("c", create=NewClaim("1024Gi")))))
    found = deployed(stored(given), None).storage
    assert found is not None
    assert [claim.size for claim in found.claims] == ["1Ti"]
    assert found.notes == (
        "claim c is created with 1024Gi; whether the model fits is not known: the size of the files of Qwen/Qwen3-8B "
        "is unknown",
    )


def test_a_size_in_which_the_files_do_not_fit_is_rejected() -> None:
    way = ModelStorage(mirror=Mirror(MirrorTarget(claim=MirrorClaim("c", create=NewClaim("9.9Gi")))))
    with pytest.raises(UsageError, match=r"9\.9Gi is too small: the files of Qwen/Qwen3-8B have 10\.0 GiB") as raised:
        deployed(stored(way))
    assert "spec.storage.model.mirror.to.claim.create.size: 11Gi, or auto" in raised.value.hints
    exact = deployed(stored(ModelStorage(hub=HubCache("c", NewClaim("10Gi"))))).storage
    assert exact is not None
    assert exact.claims[0].size == "10Gi"
    assert exact.notes == ()


def test_models_that_share_a_claim_add_up() -> None:
    way = ModelStorage(mirror=Mirror(MirrorTarget(claim=MirrorClaim("c", create=NewClaim()))))
    files = [model_files(stored(way), size, name) for size, name in ((10 * GIB, "a"), (20 * GIB, "b"))]
    (claim,) = shared_claims(one for each in files for one in each.claims)
    assert claim.size == "33Gi"
    fixed = replace(claim, file_bytes=None, size="5Gi")
    assert shared_claims([fixed, fixed]) == (fixed,)


def test_several_models_have_a_folder_each() -> None:
    bucket = Mirror(MirrorTarget(object_store=ObjectStore("s3://b/all/", load="stream")))
    service = stored(ModelStorage(mirror=bucket))
    assert model_files(service, BYTES, "small").source == "s3://b/all/Qwen/Qwen3-8B/main"
    assert model_files(service, BYTES).source == "s3://b/all"


def test_streaming_is_an_argument_of_the_engine_and_counts_in_memory() -> None:
    found = planned(stored(STREAMED))
    assert found.engine is not None
    assert found.engine.args["load_format"] == "runai_streamer"
    assert found.deployment is not None
    assert variables(found.deployment.worker.pod)["RUNAI_STREAMER_MEMORY_LIMIT"] == str(4 * GIB)
    sharded = {"load_format": "runai_streamer_sharded", "model_loader_extra_config": {"memory_limit": 2**30}}
    own = planned(stored(STREAMED, engine=replace(IMAGE, args=sharded)))
    assert own.engine is not None
    assert own.engine.args == sharded
    assert own.deployment is not None
    assert "RUNAI_STREAMER_MEMORY_LIMIT" not in variables(own.deployment.worker.pod)


@pytest.mark.parametrize(
    ("memory", "gpus", "limit", "given", "expected", "buffer"),
    [
        ("80Gi", 1, None, None, "80Gi", 4),  # the page cache's part is free
        ("20Gi", 2, None, None, "24Gi", 4),
        ("80Gi", 1, 100 * GIB, None, "111Gi", 100),
        ("16Gi", 1, None, "16Gi", "16Gi", 4),
        ("13Gi", 1, None, "13Gi", "13Gi", 2),
        ("8Gi", 0, None, None, "12Gi", 4),  # on CPUs the weights themselves fill the memory
    ],
)
def test_memory_of_streaming_workers(
    memory: str, gpus: int, limit: int | None, given: str | None, expected: str, buffer: int
) -> None:
    pods = PodSizes("1", "8Gi", "4", memory, gpus, 1, 1.0)
    sizes = Resources(worker=PodResources(memory=given))
    found, taken = streaming_pods(pods, max(1, gpus), 100 * GIB, limit, sizes)
    assert (found.worker_memory, taken) == (expected, buffer * GIB)


def test_a_self_hosted_public_bucket_is_read_by_path_without_a_signature() -> None:
    store = ObjectStore("s3://b/m", endpoint="http://minio:9000", region="eu", anonymous=True, load="stream")
    found = variables(deployed(stored(ModelStorage(object_store=store))).worker.pod)
    assert found["AWS_ENDPOINT_URL"] == "http://minio:9000"
    assert found["AWS_REGION"] == "eu"
    assert found["RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"] == "0"
    assert found["RUNAI_STREAMER_S3_UNSIGNED"] == "1"
    secret = deployed(stored(ModelStorage(object_store=ObjectStore("s3://b/m", secret="s", load="stream"))))
    keys = {one.name: one.secret for one in secret.worker.pod.env if one.secret is not None}
    assert {name for name, key in keys.items() if key.name == "s"} == {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    }  # fmt: skip
    assert keys["AWS_SESSION_TOKEN"].optional


def test_a_copy_reaches_its_bucket_as_the_workers_would() -> None:
    env = {"HTTPS_PROXY": "http://proxy:3128", "SSL_CERT_FILE": "/etc/ssl/own/ca.crt", "OMP_NUM_THREADS": "4"}
    service = stored(ModelStorage(object_store=ObjectStore("s3://b/m")), engine=Engine(env=env))
    service = replace(
        service, storage=replace(service.storage, volumes=(Volume("ca", "/etc/ssl/own", config_map="company"),))
    )
    pod = deployed(service).worker.pod
    assert pod.storage is not None
    [copy] = pod.storage.init
    assert {one.name: one.value for one in copy.env if one.name in env} == {
        name: value for name, value in env.items() if name != "OMP_NUM_THREADS"
    }
    assert ("ca", "/etc/ssl/own") in {(one.volume, one.path) for one in copy.mounts}


def test_a_key_file_of_google_is_mounted() -> None:
    found = deployed(stored(ModelStorage(object_store=ObjectStore("gs://b/m", secret="s", load="stream")))).worker.pod
    file = variables(found)["GOOGLE_APPLICATION_CREDENTIALS"]
    assert file == variables(found)["RUNAI_STREAMER_GCS_CREDENTIAL_FILE"]
    assert file is not None
    assert file.removesuffix("/credentials.json") in mounts(found)


def affinity_of_job(create: NewClaim | None, **parts: Any) -> dict[str, Any]:
    way = ModelStorage(mirror=Mirror(MirrorTarget(claim=MirrorClaim("c", create=create))))
    (job,) = downloads(stored(way, **parts), H100, BYTES)
    nodes: dict[str, Any] = dict(job.pod.placement.affinity).get("nodeAffinity", {})
    return nodes


def test_a_job_runs_where_the_volume_has_to_be() -> None:
    many, one = NewClaim(), NewClaim(access_modes=("ReadWriteOnce",))
    assert affinity_of_job(many).keys() == affinity_of_job(None).keys() == {PREFERRED}
    assert affinity_of_job(one).keys() == {REQUIRED}
    pinned = Scheduling({"pool": "gpu"}, (Toleration("team"),))
    assert affinity_of_job(one, scheduling=pinned) == {}
    way = ModelStorage(mirror=TO_CLAIM)
    (job,) = downloads(stored(way, scheduling=pinned), H100, BYTES)
    assert job.pod.placement.node_selector == {"pool": "gpu"}
    assert {"team", "nvidia.com/gpu"} <= {one.key for one in job.pod.placement.tolerations}


def test_a_job_that_writes_to_a_bucket_runs_anywhere() -> None:
    way = ModelStorage(mirror=Mirror(MirrorTarget(object_store=ObjectStore("s3://b/m"))))
    (job,) = downloads(stored(way, scheduling=Scheduling({"pool": "gpu"})), H100, BYTES)
    assert (job.pod.placement.node_selector, job.pod.placement.tolerations) == ({}, ())


def test_a_job_gets_what_says_how_the_hub_is_reached() -> None:
    environment = {
        "HF_ENDPOINT": "https://hub", "https_proxy": "http://proxy", "HF_HUB_OFFLINE": "1", "HF_HOME": "/x",
        "VLLM_LOGGING_LEVEL": "DEBUG", "NCCL_DEBUG": "INFO", "PYTHONPATH": "/own",
    }  # fmt: skip
    service = stored(
        ModelStorage(mirror=TO_CLAIM),
        engine=Engine(env=environment),
        pods=Pods(worker=PodOptions(env=(EnvironmentVariable("AWS_ROLE_ARN", "arn"),))),
    )
    volumes = (Volume("ca", "/ca", config_map="ca"), Volume("data", "/data", persistent_volume_claim="data"))
    service = replace(service, storage=replace(service.storage, volumes=volumes))
    (job,) = downloads(service, H100, BYTES)
    found = {one.name: one.value for one in job.container.env if one.secret is None}
    assert found == {
        "AWS_ROLE_ARN": "arn", "HF_ENDPOINT": "https://hub", "HF_HOME": "/tmp/huggingface", "HF_HUB_OFFLINE": "0",
        "PYTHONPATH": "/opt/rayllm/storage/rayllm.zip", "https_proxy": "http://proxy",
    }  # fmt: skip
    assert {"/ca", "/models", "/tmp"} <= {one.path for one in job.container.mounts}
    assert "/data" not in {one.path for one in job.container.mounts}


def test_pods_reach_a_bucket_as_the_job_does() -> None:
    given = {"HTTPS_PROXY": "http://proxy", "SSL_CERT_FILE": "/ca/ca.crt", "HF_ENDPOINT": "https://hub", "A": "b"}
    secrets = (EnvironmentSource(secret_ref=AllOf("s3-access")),)
    to_bucket = Mirror(MirrorTarget(object_store=ObjectStore("s3://b/m", secret="s")))
    for way, containers in ((ModelStorage(mirror=to_bucket), 2), (ModelStorage(mirror=TO_CLAIM), 1)):
        service = stored(way, engine=replace(IMAGE, env=given), pods=Pods(worker=PodOptions(env_from=secrets)))
        volumes = (Volume("ca", "/ca", config_map="ca"), Volume("data", "/data", persistent_volume_claim="data"))
        found = deployed(replace(service, storage=replace(service.storage, volumes=volumes))).worker.pod.storage
        assert found is not None
        assert len(found.init) == containers
        of_bucket = containers == 2
        for container in found.init:
            names = {one.name for one in container.env}
            assert names & set(given) == ({"HTTPS_PROXY", "SSL_CERT_FILE"} if of_bucket else set())
            assert container.env_from == (secrets if of_bucket else ())
            assert ({"/ca", "/data"} & {one.path for one in container.mounts}) == ({"/ca"} if of_bucket else set())
        assert not [one.name for one in found.volumes if one.name == "ca"]  # the pod has it already


def test_a_cache_has_a_folder_for_each_gpu() -> None:
    caches = Caches("compiled", startup_plan=True)
    pod = deployed(stored(caches=caches)).worker.pod
    found = variables(pod)
    assert found["VLLM_CACHE_ROOT"] == "/caches/h100-80gb/vllm"
    assert found["TRITON_CACHE_DIR"] == "/caches/h100-80gb/triton"
    assert found["VLLM_ENABLE_STARTUP_PLAN"] == "1"
    assert mounts(pod) == {"/caches": False}
    assert "VLLM_NIXL_SIDE_CHANNEL_PORT" not in found


def test_a_cache_on_cpus_has_no_start_up_plan() -> None:
    service = stored(caches=Caches("compiled", startup_plan=True), accelerator=Accelerator("cpu"))
    found = variables(deployed(service).worker.pod)
    assert found["VLLM_CACHE_ROOT"] == "/caches/cpu/vllm"
    assert found["VLLM_USE_AOT_COMPILE"] == "0"
    assert "VLLM_ENABLE_STARTUP_PLAN" not in found


def test_what_a_cache_does_not_bring_is_said() -> None:
    caches = Caches("compiled", startup_plan=True)
    ranks = planned(stored(caches=caches, engine=Engine(args={"data_parallel_size": 2})))
    assert any("data-parallel ranks do not share compiled graphs" in note for note in ranks.notes)
    older = planned(stored(caches=caches), vllm_version="0.26.0")
    assert any("vLLM 0.26.0 is older than 0.27.0" in note for note in older.notes)
    assert older.deployment is not None
    assert "VLLM_ENABLE_STARTUP_PLAN" not in variables(older.deployment.worker.pod)


def test_replicas_that_transfer_by_nixl_have_one_port_in_the_key_of_their_graphs() -> None:
    args = {"kv_transfer_config": {"kv_connector": "NixlConnector"}}
    pod = deployed(stored(caches=Caches("compiled"), engine=Engine(args=args))).worker.pod
    assert variables(pod)["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5600"


def test_an_image_lacks_the_streamer() -> None:
    found = planned(stored(STREAMED, engine=Engine()))
    assert not found.runs
    assert "runai-model-streamer[gcs,s3], which rayproject/ray-llm" in found.reasons[0].message
    reads = ModelStorage(claim=ModelClaim("c"))
    by_hand = planned(stored(reads, engine=Engine(args={"load_format": "runai_streamer"})))
    assert "spec.engine.args.load_format: runai_streamer requires" in by_hand.reasons[0].message
