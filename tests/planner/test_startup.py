from __future__ import annotations

import pytest

from rayllm_ctl.model.plan.plan import Band, StorageKind
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
from rayllm_ctl.model.spec.service import LLMService, Model, Storage
from rayllm_ctl.planner.speed.engineinit import EngineStart, init_seconds
from rayllm_ctl.planner.speed.loading import MEMORY_RATE, Origin, divide, fetch_seconds, load_seconds, origin_of
from rayllm_ctl.planner.speed.startup import startup

GB = 1e9
GIB = 2**30
DENSE, COMPLEX = EngineStart(), EngineStart(complex_model=True)
HUB, PATH = Origin("hub"), Origin("path")
CLAIM = MirrorClaim("weights")
BUCKET = ObjectStore("s3://models/qwen")


def holds(band: Band, seconds: float) -> bool:
    return band.low <= seconds <= band.high


def test_a_model_on_local_disk_downloads_nothing() -> None:
    plan = startup(16 * GB, PATH, DENSE)
    assert plan.download.high == 0
    assert plan.load.low < plan.load.typical < plan.load.high


def test_measured_starts_lie_inside_the_bands() -> None:
    """Public logs: load and engine init seconds of the sources that the modules name."""
    llama_8b = startup(16.1 * GB, PATH, DENSE)
    assert holds(llama_8b.load, 22)
    assert holds(llama_8b.compile, 39.3)
    glm_flash = startup(305.8 * GIB, PATH, COMPLEX)
    assert holds(glm_flash.load, 226.5)
    assert holds(glm_flash.compile, 467.7)


@pytest.mark.parametrize(
    ("way", "size", "nodes", "seconds"),
    [
        ("claim", 894 * GIB, 2, 43 * 60),  # EFS, modelplane#204
        ("claim", 689 * GB, 1, 435),  # DeepSeek-V3 with prefetch, vllm#36012
        ("path", 16.06 * GB, 1, 48),  # gp3, safetensors
        ("bucket-stream", 16.06 * GB, 1, 4.24),  # S3, run:ai
        ("bucket-stream", 14.2 * GIB, 1, 38.94),  # S3, runai-model-streamer#13
        ("bucket-stream", 61 * GIB, 1, 16),  # KAITO
    ],
)
def test_measured_loads_lie_inside_the_bands(way: StorageKind, size: float, nodes: int, seconds: float) -> None:
    assert holds(load_seconds(way, size, nodes), seconds)


@pytest.mark.parametrize(
    ("way", "size", "seconds"),
    [
        ("hub", 2.47 * GB, 14.6),  # vllm#14063
        ("hub", 14.5 * GB, 31),  # kaito#982
        ("hub-cache", 960 * GB, 31 * 60),  # modelplane#204
        ("image", 17.5 * GB, 300),  # AWS on SOCI
        ("image", 5.4 * GB, 40),  # containerd#8881
        ("bucket-copy", 100 * GB, 200),  # ccd.dev
    ],
)
def test_measured_downloads_lie_inside_the_bands(way: StorageKind, size: float, seconds: float) -> None:
    assert holds(fetch_seconds(way, size), seconds)


def test_files_in_memory_load_fastest() -> None:
    assert holds(divide(16.06 * GB, MEMORY_RATE), 5.3)
    assert divide(GB, MEMORY_RATE).typical < load_seconds("path", GB, 1).typical


def test_eager_engines_start_sooner() -> None:
    compiled = startup(16 * GB, HUB, COMPLEX)
    eager = startup(16 * GB, HUB, EngineStart(complex_model=True, eager=True))
    assert eager.total.typical < compiled.total.typical - 100
    assert holds(eager.compile, 1.71)


@pytest.mark.parametrize("way", ["hub", "hub-cache", "claim", "bucket-copy", "bucket-stream", "image"])
def test_the_wait_limit_outlasts_the_slowest_start(way: StorageKind) -> None:
    for size in (0.5, 16, 140, 1300):
        plan = startup(size * GB, Origin(way), DENSE)
        assert plan.wait_seconds >= max(900, plan.total.high)


def test_each_node_loads_its_share_but_downloads_everything() -> None:
    one = startup(200 * GB, HUB, DENSE)
    two = startup(200 * GB, HUB, DENSE, nodes=2)
    assert two.load.typical == one.load.typical / 2
    assert two.download == one.download


def test_cpu_engines_that_compile_take_minutes() -> None:
    eager = startup(1e6, PATH, EngineStart(eager=True, cpu=True))
    compiled = startup(1e6, PATH, EngineStart(cpu=True))
    assert holds(eager.total, 81)
    assert holds(compiled.total, 209)


def test_compiled_graphs_of_the_first_replica_shorten_the_start_of_the_next() -> None:
    assert holds(init_seconds(DENSE, compiled=True), 34)
    assert holds(init_seconds(DENSE, compiled=True), 48)
    for engine in (DENSE, COMPLEX, EngineStart(cpu=True)):
        kept, none = startup(GB, PATH, engine, caches=Caches("graphs")), startup(GB, PATH, engine)
        assert kept.further is not None
        assert kept.further.typical < kept.total.typical - 20
        assert (none.further, kept.total, kept.wait_seconds) == (none.total, none.total, none.wait_seconds)


def test_a_start_up_plan_saves_the_profile_where_it_is_kept() -> None:
    graphs = startup(GB, PATH, DENSE, caches=Caches("graphs")).further
    both = startup(GB, PATH, DENSE, caches=Caches("graphs", startup_plan=True)).further
    alone = startup(GB, PATH, DENSE, caches=Caches(startup_plan=True))
    assert graphs is not None
    assert both is not None
    assert 0 < graphs.typical - both.typical <= 5.5
    assert alone.further == alone.total
    eager = init_seconds(EngineStart(eager=True), profiled=True)
    assert (eager.low, eager.high) == (0, 40)


def test_an_engine_that_prepares_nothing_has_nothing_to_keep() -> None:
    plan = startup(GB, PATH, EngineStart(prepares=False), caches=Caches("graphs"))
    assert plan.compile == Band(0, 0, 0)
    assert plan.further == plan.total


def test_the_job_of_a_mirror_is_a_figure_of_its_own() -> None:
    plain, mirrored = startup(100 * GB, Origin("claim"), DENSE), startup(100 * GB, Origin("claim", "hub"), DENSE)
    assert plain.model_download is None
    assert (plain.ready, plain.deploy_wait_seconds) == (plain.total, plain.wait_seconds)
    job = mirrored.model_download
    assert job is not None
    assert job.typical == pytest.approx(200)
    assert (mirrored.total, mirrored.wait_seconds) == (plain.total, plain.wait_seconds)
    assert mirrored.ready.typical == pytest.approx(plain.total.typical + 200)
    assert mirrored.deploy_wait_seconds >= mirrored.wait_seconds + job.high


def test_a_shared_hub_cache_is_filled_once() -> None:
    plan = startup(100 * GB, Origin("hub-cache"), DENSE)
    assert plan.further is not None
    assert plan.total.typical - plan.further.typical == pytest.approx(plan.download.typical)


def created(claim: NewClaim) -> ModelStorage:
    return ModelStorage(mirror=Mirror(MirrorTarget(claim=MirrorClaim("w", create=claim))))


@pytest.mark.parametrize(
    ("storage", "origin"),
    [
        (None, HUB),
        (ModelStorage(hub=HubCache("cache")), Origin("hub-cache")),
        (ModelStorage(claim=ModelClaim("weights")), Origin("claim")),
        (created(NewClaim(access_modes=("ReadWriteOnce",))), Origin("claim-on-disk", "hub")),
        (created(NewClaim()), Origin("claim", "hub")),
        (ModelStorage(object_store=BUCKET), Origin("bucket-copy")),
        (ModelStorage(object_store=ObjectStore("s3://b/p", load="stream")), Origin("bucket-stream")),
        (ModelStorage(mirror=Mirror(MirrorTarget(claim=CLAIM))), Origin("claim", "hub")),
        (ModelStorage(mirror=Mirror(MirrorTarget(claim=CLAIM), from_="https://h/m/")), Origin("claim", "hub")),
        (ModelStorage(mirror=Mirror(MirrorTarget(claim=CLAIM), from_="s3://b/p")), Origin("claim", "bucket")),
        (ModelStorage(mirror=Mirror(MirrorTarget(object_store=BUCKET))), Origin("bucket-copy", "hub")),
        (ModelStorage(image=ModelImage("r.io/m:1")), Origin("image")),
    ],
)
def test_the_spec_says_where_the_weights_come_from(storage: ModelStorage | None, origin: Origin) -> None:
    service = LLMService(name="qwen", model=Model("Qwen/Qwen3-8B"), storage=Storage(model=storage))
    assert origin_of(service) == origin


def test_a_folder_of_the_pods_comes_before_all_storage() -> None:
    service = LLMService(name="qwen", model=Model("Qwen/Qwen3-8B", path="/models/q"))
    assert origin_of(service) == PATH
