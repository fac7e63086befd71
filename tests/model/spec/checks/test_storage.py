"""What model storage and caches reject, and what contradicts them elsewhere in a spec."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from rayllm_ctl.model.kube.model_downloads import VOLUME_NAMES
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.checks.batch import validate_batch
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.checks.storage.mounts import CACHE_VARIABLES, HUB_VARIABLES
from rayllm_ctl.model.spec.model_storage import Caches, Mirror, MirrorClaim, MirrorTarget, ModelStorage
from rayllm_ctl.model.spec.service import Engine, LLMService, Model, Storage
from rayllm_ctl.model.text.problems import Problem
from rayllm_ctl.specfile import load
from rayllm_ctl.specfile.reader import read_document
from rayllm_ctl.specfile.tree import read_tree
from rayllm_ctl.specfile.write import to_yaml
from tests.model.services import services, services_of_several

HUB = {"hub": {"cache": "c"}}
CLAIM = {"claim": {"name": "c"}}
STREAM = {"objectStore": {"uri": "s3://bucket/a", "load": "stream"}}
RWO = {"accessModes": ["ReadWriteOnce"]}


def judged(spec: dict[str, Any], **storage: Any) -> list[Problem]:
    """What the checks say of a service with this storage."""
    whole = {"model": {"id": "m"}, **({"storage": storage} if storage else {}), **spec}
    if "models" in spec:
        del whole["model"]
    document = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": "q"}, "spec": whole}
    return validate(load_unchecked(document))


def load_unchecked(document: dict[str, Any]) -> LLMService:
    service, problems = read_document(read_tree(json.dumps(document), "spec"), LLMService)
    assert problems == []
    assert service is not None
    return service


def places(problems: list[Problem]) -> list[str]:
    return [problem.where.removeprefix("spec.") for problem in problems]


@pytest.mark.parametrize(
    ("storage", "where", "message", "hint"),
    [
        ({"model": {}}, "storage.model", "exactly one of hub, claim, mirror, objectStore, image, not 0", ""),
        ({"model": {**HUB, **CLAIM}}, "storage.model", "not 2", ""),
        ({"model": {"mirror": {"to": {}}}}, "storage.model.mirror.to", "exactly one of claim, objectStore", ""),
        ({"model": {"claim": {"name": "A"}}}, "storage.model.claim.name", "PersistentVolumeClaim", ""),
        ({"model": {"hub": {"cache": "a_b"}}}, "storage.model.hub.cache", "PersistentVolumeClaim", ""),
        ({"caches": {"compile": ""}}, "storage.caches.compile", "PersistentVolumeClaim", ""),
        ({"caches": {"create": {}}}, "storage.caches.compile", "required", "--compile-cache"),
        ({"caches": {"startupPlan": True}}, "storage.caches.compile", "required", "--compile-cache"),
        (
            {"model": {"mirror": {"to": {"objectStore": {"uri": "s3://bucket/a", "anonymous": True}}}}},
            "storage.model.mirror.to.objectStore.anonymous",
            "takes credentials to write",
            "--storage-secret",
        ),
    ],
)
def test_ways_and_claims(storage: dict[str, Any], where: str, message: str, hint: str) -> None:
    [problem] = judged({}, **storage)
    assert problem.where == f"spec.{where}"
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("way", "field"),
    [
        (HUB, "hub.cache"),
        (CLAIM, "claim.name"),
        ({"mirror": {"to": {"claim": {"name": "c", "create": {}}}}}, "mirror.to.claim.name"),
    ],
)
def test_pods_have_a_claim_once(way: dict[str, Any], field: str) -> None:
    created: list[dict[str, Any]] = [{}, {"create": {}}]
    for create in created:
        [problem] = judged({}, model=way, caches={"compile": "c", **create})
        assert problem.where == "spec.storage.caches.compile"
        assert f"claim c is also spec.storage.model.{field}" in problem.message
    volumes = [
        {"name": name, "mountPath": f"/{name}", "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in (("first", "other"), ("second", "c"), ("third", "other"))
    ]
    assert places(judged({}, model=way, volumes=volumes)) == ["storage.volumes[1].persistentVolumeClaim"]
    assert judged({}, model=way, caches={"compile": "d"}) == []


@pytest.mark.parametrize("path", ["", " ", "/a", "a/", "../a", "a/../b", "a//b", ".", "a\nb"])
def test_a_path_is_a_folder_below_the_root(path: str) -> None:
    assert places(judged({}, model={"claim": {"name": "c", "path": path}})) == ["storage.model.claim.path"]
    assert places(judged({}, model={"image": {"reference": "r/a", "path": path}})) == ["storage.model.image.path"]


@pytest.mark.parametrize("uri", ["s3://bucket", "gs://my-bucket/a/b.c/", "s3://b.u.c/models--Qwen--Qwen3/x=y/..a"])
def test_folders_of_buckets(uri: str) -> None:
    assert judged({}, model={"objectStore": {"uri": uri}}) == []
    assert judged({}, model={"mirror": {"from": uri, "to": CLAIM}}) == []


@pytest.mark.parametrize(
    ("uri", "message", "hint"),
    [
        ("azure://container/a", "azure:// is not supported: Ray reads azure:// and abfss://", "s3:// or gs://"),
        ("abfss://c@account/a", "abfss:// is not supported", "spec.storage.model.claim"),
        ("az://container/a", "only az://", "spec.storage.model.claim"),
        ("s3://anonymous@bucket/a", "Ray's form of a public bucket", "anonymous: true"),
        ("s3://bu/a", "is not a folder of a bucket", "s3://BUCKET/PATH"),
        ("s3://bucket/../a", "is not a folder of a bucket", ""),
        ("s3://bucket/*", "is not a folder of a bucket", ""),
        ("s3://bucket//a", "is not a folder of a bucket", ""),
        ("https://host/a", "is not a folder of a bucket", ""),
        ("/models/a", "is not a folder of a bucket", ""),
        ("hf", "is not a folder of a bucket", ""),
    ],
)
def test_other_addresses_of_buckets_are_rejected(uri: str, message: str, hint: str) -> None:
    [problem] = judged({}, model={"objectStore": {"uri": uri}})
    assert problem.where == "spec.storage.model.objectStore.uri"
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize("uri", ["s3://user:pass@bucket/a", "https://user:pass@host/a/"])
def test_credentials_in_an_address_are_not_repeated(uri: str) -> None:
    for model in ({"objectStore": {"uri": uri}}, {"mirror": {"from": uri, "to": CLAIM}}):
        problem = judged({}, model=model)[0]
        assert problem.message == "contains credentials"
        assert "pass" not in problem.hint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("hf://Qwen/Qwen3-8B", "the repository is spec.model.id"),
        ("http://host/a/", "http:// is not supported"),
        ("https://host/a?token=b", "is not the address of a folder"),
        ("ftp://host/a", "hf, s3://bucket/folder, gs://bucket/folder or https://host/folder/"),
        ("azure://container/a", "azure:// is not supported"),
    ],
)
def test_sources_of_mirrors(source: str, message: str) -> None:
    problems = judged({}, model={"mirror": {"from": source, "to": CLAIM}})
    assert places(problems) == ["storage.model.mirror.from"]
    assert message in problems[0].message


def test_a_mirror_keeps_its_files_elsewhere() -> None:
    for source, target, rejected in (
        ("s3://bucket/a", "s3://bucket/a/", True),
        ("s3://bucket/a", "s3://bucket/a/b", True),
        ("s3://bucket", "s3://bucket/a", True),
        ("s3://bucket/a", "s3://bucket/ab", False),
        ("hf", "s3://bucket/a", False),
    ):
        found = judged({}, model={"mirror": {"from": source, "to": {"objectStore": {"uri": target}}}})
        assert places(found) == (["storage.model.mirror.to.objectStore.uri"] if rejected else [])


@pytest.mark.parametrize(
    ("store", "field"),
    [
        ({"endpoint": "http://a:b@minio"}, "endpoint"),
        ({"region": "eu central"}, "region"),
        ({"secret": "AKIA/abc"}, "secret"),
        ({"secret": "a", "anonymous": True}, "anonymous"),
    ],
)
def test_access_to_buckets(store: dict[str, Any], field: str) -> None:
    [problem] = judged({}, model={"objectStore": {"uri": "s3://bucket/a", **store}})
    assert problem.where == f"spec.storage.model.objectStore.{field}"
    assert "AKIA" not in problem.message
    assert "a:b" not in problem.message
    mirrored = judged({}, model={"mirror": {"from": "s3://bucket/a", **store, "to": CLAIM}})
    assert places(mirrored) == [f"storage.model.mirror.{field}"]


def test_what_has_no_effect_is_rejected() -> None:
    access = {"endpoint": "http://minio:9000", "region": "r", "secret": "s"}
    google = judged({}, model={"objectStore": {"uri": "gs://bucket/a", **access}})
    assert [problem.message for problem in google] == ["has no effect with gs"] * 2
    hub = judged({}, model={"mirror": {**access, "to": CLAIM}})
    assert [problem.message for problem in hub] == ["has no effect with hf"] * 3
    assert hub[-1].hint == "spec.model.tokenSecret (--hf-token-secret NAME/KEY)"
    web = judged({}, model={"mirror": {"from": "https://host/", "anonymous": True, "to": CLAIM}})
    assert places(web) == ["storage.model.mirror.anonymous"]


def created(**fields: Any) -> dict[str, Any]:
    return {"mirror": {"to": {"claim": {"name": "c", "create": fields}}}}


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"size": "200"}, "size", "200 bytes"),
        ({"size": "much"}, "size", "is not a valid quantity"),
        ({"size": "0Gi"}, "size", "greater than 0"),
        ({"storageClass": "A"}, "storageClass", "StorageClass"),
        ({"accessModes": []}, "accessModes", "at least one"),
        ({"accessModes": ["ReadWriteMany", "ReadWriteMany"]}, "accessModes", "twice"),
        ({"accessModes": ["ReadOnlyMany"]}, "accessModes", "is created is empty"),
        ({"accessModes": ["ReadWriteOncePod"]}, "accessModes", "head and workers are several"),
        ({"accessModes": ["ReadWriteOncePod", "ReadWriteMany"]}, "accessModes", "cannot be combined with other modes"),
    ],
)
def test_claims_that_are_created(fields: dict[str, Any], where: str, message: str) -> None:
    [problem] = judged({}, model=created(**fields))
    assert problem.where == f"spec.storage.model.mirror.to.claim.create.{where}"
    assert message in problem.message


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"replicas": {"min": 1, "max": 2}}, "up to 2 replicas"),
        ({"replicas": {"count": 3}}, "up to 3 replicas"),
        ({"parallelism": {"pipeline": 2}}, "a replica spans nodes"),
        ({"parallelism": {"tensor": 16, "acrossNodes": True}}, "a replica spans nodes"),
        ({"models": [{"id": "a"}, {"id": "b"}]}, "several models"),
        ({"gateway": {}}, "the ingress"),
        ({"model": {"id": "m", "adapters": [{"id": "a", "path": "/adapters/a"}]}}, "the ingress"),
        ({"workerGroups": [{"name": "spot"}]}, "spec.workerGroups"),
    ],
)
def test_a_claim_of_one_node_for_pods_on_several(spec: dict[str, Any], why: str) -> None:
    for storage in ({"model": created(**RWO)}, {"caches": {"compile": "c", "create": RWO}}):
        [problem] = judged(spec, **storage)
        assert problem.where.endswith(".create.accessModes")
        assert why in problem.message
        assert problem.hint.startswith("accessModes: [ReadWriteMany]")
    pinned = {**spec, "scheduling": {"nodeSelector": {"kubernetes.io/hostname": "n1"}}}
    assert judged(pinned, model=created(**RWO)) == []
    assert judged({}, model=created(**RWO)) == []


@pytest.mark.parametrize("way", [HUB, CLAIM, {"mirror": {"to": CLAIM}}, STREAM, {"image": {"reference": "r/a"}}])
def test_another_place_of_the_files(way: dict[str, Any]) -> None:
    [problem] = judged({"model": {"id": "m", "path": "/mnt/a"}}, model=way)
    assert problem.where == "spec.model.path"
    assert f"spec.storage.model.{next(iter(way))}" in problem.message
    assert places(judged({"engine": {"args": {"download_dir": "/a"}}}, model=way)) == ["engine.args.download_dir"]
    revised = places(judged({"model": {"id": "m", "revision": "v1"}}, model=way))
    assert revised == ([] if {*way} & {"hub", "mirror"} else ["model.revision"])


def test_a_revision_of_a_mirrored_bucket() -> None:
    mirror = {"mirror": {"from": "s3://bucket/a", "to": CLAIM}}
    assert places(judged({"model": {"id": "m", "revision": "v1"}}, model=mirror)) == ["model.revision"]


def test_several_models() -> None:
    two = {"models": [{"id": "a"}, {"id": "b", "revision": "v1"}]}
    assert judged(two, model=HUB) == []
    assert judged(two, model={"mirror": {"to": CLAIM}}) == []
    assert judged(two, model={"mirror": {"to": {"objectStore": {"uri": "s3://bucket"}}}}) == []
    plain = {"models": [{"id": "a"}, {"id": "b"}]}
    for way in (CLAIM, STREAM, {"image": {"reference": "r/a"}}):
        assert places(judged(plain, model=way)) == [f"storage.model.{next(iter(way))}"]
    assert places(judged(plain, model={"mirror": {"from": "s3://bucket", "to": CLAIM}})) == [
        "storage.model.mirror.from"
    ]
    folder = {"mirror": {"to": {"claim": {"name": "c", "path": "a"}}}}
    assert places(judged(plain, model=folder)) == ["storage.model.mirror.to.claim.path"]
    assert places(judged({"models": [{"id": "a", "path": "/mnt"}, {"id": "b"}]}, model=HUB)) == ["models[0].path"]


@pytest.mark.parametrize("mode", ["rayservice", "raycluster"])
def test_every_way_is_valid_in_every_mode(mode: str) -> None:
    for way in (HUB, CLAIM, {"mirror": {"to": CLAIM}}, STREAM, {"image": {"reference": "r/a"}}):
        assert judged({"mode": mode}, model=way, caches={"compile": "compiled", "startupPlan": True}) == []


def test_adapters_beside_the_model() -> None:
    for path in ("/models/adapters/a", "/adapters/a", "s3://bucket/a"):
        assert judged({"model": {"id": "m", "adapters": [{"id": "a", "path": path}]}}, model=CLAIM) == []


def test_engine_transformers() -> None:
    transformers = {"engine": {"kind": "transformers"}}
    assert judged(transformers, model={"objectStore": {"uri": "s3://bucket/a"}}) == []
    assert places(judged(transformers, model=STREAM)) == ["storage.model.objectStore.load"]
    mirror = {"mirror": {"to": {"objectStore": STREAM["objectStore"]}}}
    assert places(judged(transformers, model=mirror)) == ["storage.model.mirror.to.objectStore.load"]
    assert places(judged(transformers, caches={"compile": "c"})) == ["storage.caches.compile"]
    beside = {"models": [{"id": "a"}, {"id": "b", "engine": {"kind": "transformers"}}]}
    assert judged(beside, caches={"compile": "c"}) == []


def args(**given: Any) -> dict[str, Any]:
    return {"engine": {"args": given}}


@pytest.mark.parametrize("name", ["auto", "safetensors", "sharded_state", "dummy"])
def test_stream_is_a_format_of_its_own(name: str) -> None:
    spec = {**args(load_format=name), "parallelism": {"tensor": 2}}
    assert places(judged(spec, model=STREAM)) == ["engine.args.load_format"]
    assert judged(spec, model={"objectStore": {"uri": "s3://bucket/a"}}) == []


def test_the_formats_of_the_streamer() -> None:
    assert judged(args(load_format="runai_streamer"), model=STREAM) == []
    sharded = {**args(load_format="RunAI_Streamer_Sharded"), "parallelism": {"tensor": 2}}
    assert judged(sharded, model=STREAM) == []
    assert judged(args(load_format="runai_streamer"), model=CLAIM) == []


@pytest.mark.parametrize("name", ["sharded_state", "runai_streamer_sharded"])
def test_files_of_one_tensor_parallel_size(name: str) -> None:
    [problem] = judged(args(load_format=name), model=CLAIM)
    assert problem.where == "spec.parallelism.tensor"
    assert "--tp" in problem.hint
    spread = {**args(load_format=name), "parallelism": {"tensor": 2, "pipeline": 2}}
    assert places(judged(spread, model=CLAIM)) == ["parallelism.pipeline"]
    of_one = {"models": [{"id": "a"}, {"id": "b", **args(load_format=name)}]}
    assert places(judged(of_one)) == ["models[1].parallelism.tensor"]


@pytest.mark.parametrize("name", ["fastsafetensors", "instanttensor"])
def test_loaders_of_cuda(name: str) -> None:
    assert judged(args(load_format=name)) == []
    assert places(judged({**args(load_format=name), "accelerator": {"kind": "cpu"}})) == ["engine.args.load_format"]


@pytest.mark.parametrize(
    ("extra", "where"),
    [
        ({"distributed": True, "concurrency": 1, "memory_limit": -1}, ""),
        ({"distributed": 1}, ".distributed"),
        ({"concurrency": 0}, ".concurrency"),
        ({"concurrency": True}, ".concurrency"),
        ({"memory_limit": -2}, ".memory_limit"),
        ({"memory_limit": "5Gi"}, ".memory_limit"),
        ({"memoryLimit": 5}, ".memoryLimit"),
        ({"pattern": "a"}, ".pattern"),
        ([1], ""),
    ],
)
def test_settings_of_the_streamer(extra: Any, where: str) -> None:
    given = {"engine": {"args": {"model_loader_extra_config": extra}}}
    found = places(judged(given, model=STREAM))
    valid = isinstance(extra, dict) and not where
    assert found == ([] if valid else [f"engine.args.model_loader_extra_config{where}"])
    # Without the streamer they are those of another loader.
    assert judged(given, model=CLAIM) == []
    explicit = args(load_format="runai_streamer", model_loader_extra_config=extra)
    assert len(judged(explicit)) == len(found)


def test_a_misspelled_setting_has_a_hint() -> None:
    [problem] = judged(args(model_loader_extra_config={"memoryLimit": 5}), model=STREAM)
    assert problem.hint == "memory_limit"
    sharded = {
        **args(load_format="sharded_state", model_loader_extra_config={"pattern": 1}),
        "parallelism": {"tensor": 2},
    }
    assert [problem.message for problem in judged(sharded)] == ["must be a string"]


def volume(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "mountPath": path, "secret": {"secretName": "s"}}


@pytest.mark.parametrize("path", ["/models", "/models/", "/models/hub", "/caches", "/caches/a"])
def test_paths_of_the_storage(path: str) -> None:
    volumes = [volume("v", path)]
    both = {"model": HUB, "caches": {"compile": "d"}}
    assert places(judged({}, volumes=volumes, **both)) == ["storage.volumes[0].mountPath"]
    assert judged({}, volumes=volumes) == []
    assert judged({}, volumes=[volume("v", f"/my{path}")], **both) == []
    assert judged({}, volumes=[volume("v", f"/{path.split('/')[1]}-of-mine")], **both) == []
    if path.startswith("/models"):
        assert judged({}, volumes=volumes, model=STREAM) == []


@pytest.mark.parametrize("name", VOLUME_NAMES)
def test_volumes_of_the_storage(name: str) -> None:
    volumes = [volume(name, "/data")]
    for storage in ({"model": STREAM}, {"model": HUB}, {"caches": {"compile": "d"}}):
        rejected = storage["model"] != STREAM if "model" in storage else True
        assert places(judged({}, volumes=volumes, **storage)) == (["storage.volumes[0].name"] if rejected else [])
    assert judged({}, volumes=volumes) == []


@pytest.mark.parametrize(
    ("storage", "names"),
    [
        ({"model": HUB}, HUB_VARIABLES),
        ({"caches": {"compile": "d"}}, CACHE_VARIABLES),
        ({"model": {"objectStore": {**STREAM["objectStore"], "endpoint": "http://m:1"}}}, ("AWS_ENDPOINT_URL",)),
        ({"model": {"objectStore": {**STREAM["objectStore"], "region": "r"}}}, ("AWS_REGION", "AWS_DEFAULT_REGION")),
        ({"model": {"objectStore": {**STREAM["objectStore"], "anonymous": True}}}, ("RUNAI_STREAMER_S3_UNSIGNED",)),
    ],
)
def test_variables_of_the_storage(storage: dict[str, Any], names: tuple[str, ...]) -> None:
    """Who sets a variable of the storage elsewhere would not know which value has an effect: it is rejected."""
    for name in names:
        assert places(judged({"engine": {"env": {name: "a"}}}, **storage)) == [f"engine.env.{name}"]
        pods = {"pods": {"head": {"env": [{"name": name, "value": "a"}]}}}
        assert places(judged(pods, **storage)) == ["pods.head.env[0].name"]
        assert judged(pods) == []


def test_credentials_of_a_streamed_bucket() -> None:
    key = {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    pods = {"pods": {"worker": {"env": [key]}}}
    assert judged(pods, model=STREAM) == []
    with_secret = {"objectStore": {**STREAM["objectStore"], "secret": "s"}}
    assert places(judged(pods, model=with_secret)) == ["pods.worker.env[0].name"]
    copied = {"objectStore": {"uri": "s3://bucket/a", "secret": "s"}}
    assert judged(pods, model=copied) == []
    google = {"objectStore": {"uri": "gs://bucket/a", "secret": "s", "load": "stream"}}
    assert judged(pods, model=google) == []
    path = {"engine": {"env": {"GOOGLE_APPLICATION_CREDENTIALS": "/a"}}}
    assert places(judged(path, model=google)) == ["engine.env.GOOGLE_APPLICATION_CREDENTIALS"]


def test_the_startup_plan() -> None:
    caches = {"compile": "c", "startupPlan": True}
    assert places(judged({"accelerator": {"kind": "cpu"}}, caches=caches)) == ["storage.caches.startupPlan"]
    assert places(judged(args(kv_cache_memory_bytes=1), caches=caches)) == ["storage.caches.startupPlan"]
    cpus = {"models": [{"id": "a", "accelerator": {"kind": "cpu"}}]}
    assert places(judged(cpus, caches=caches)) == ["storage.caches.startupPlan"]
    assert judged(cpus, caches={"compile": "c"}) == []


def test_a_file_with_from_is_written_as_it_was_read() -> None:
    target = MirrorTarget(claim=MirrorClaim("models"))
    service = LLMService(
        "q",
        Model("org/A"),
        engine=Engine(),
        storage=Storage(model=ModelStorage(mirror=Mirror(target, "s3://bucket/a")), caches=Caches("d")),
    )
    text = to_yaml(service)
    assert "from: s3://bucket/a" in text
    assert load(text, source="q.yaml") == service
    default = to_yaml(LLMService("q", Model("m"), storage=Storage(model=ModelStorage(mirror=Mirror(target)))))
    assert "from" not in default


@settings(max_examples=25)
@given(services() | services_of_several())
def test_the_services_of_other_tests_are_valid(service: LLMService) -> None:
    assert validate(service) == []


BATCH = """\
apiVersion: rayllm.io/v1alpha1
kind: BatchJob
metadata: {name: q}
spec:
  model: {id: m}
  input: {paths: ['s3://bucket/in.txt']}
  output: {path: 's3://bucket/out'}
"""


def job(text: str) -> list[str]:
    batch, problems = read_document(read_tree(BATCH + text, "q.yaml"), BatchJob)
    assert problems == []
    assert batch is not None
    return places(validate_batch(batch))


def test_batch_jobs_have_the_same_checks() -> None:
    assert job("  storage: {model: {mirror: {to: {claim: {name: c}}}}, caches: {compile: d, startupPlan: true}}") == []
    assert job("  storage: {model: {claim: {name: A}}}") == ["storage.model.claim.name"]
    several = "  concurrency: {max: 2}\n"
    created = "  storage: {model: {hub: {cache: c, create: {accessModes: [ReadWriteOnce]}}}}"
    assert job(several + created) == ["storage.model.hub.create.accessModes"]
    assert job(created) == []


def test_the_data_and_the_streamed_weights_of_a_batch_job() -> None:
    stream = "model: {objectStore: {uri: 's3://bucket/a', load: stream, endpoint: 'http://minio:9000', secret: a}}"
    assert job(f"  storage: {{{stream}}}") == ["storage.endpoint", "storage.credentialsSecret"]
    assert job(f"  storage: {{endpoint: 'http://minio:9000', credentialsSecret: a, {stream}}}") == []
    copied = stream.replace("load: stream", "load: copy")
    assert job(f"  storage: {{{copied}}}") == []


def test_pods_of_an_existing_raycluster() -> None:
    spec = "  cluster: pool\n  accelerator: {gpu: L4}\n"
    assert job(f"{spec}  storage: {{model: {{hub: {{cache: c}}}}, caches: {{compile: d}}}}") == [
        "storage.model",
        "storage.caches",
    ]
