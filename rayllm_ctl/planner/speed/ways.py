"""The ways to bring the weights to the pods, compared for the replicas of a plan, and the one that is recommended."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.kube.quantities import GIB, format_duration
from rayllm_ctl.model.plan.plan import Band, StartupPlan, StorageKind, StoragePlan, StorageWay
from rayllm_ctl.model.spec.model_storage import Caches
from rayllm_ctl.planner.speed.engineinit import EngineStart
from rayllm_ctl.planner.speed.loading import MEMORY_RATE, Origin, add, divide
from rayllm_ctl.planner.speed.startup import PROCESS, later_init, startup

SMALL = 10 * GIB
"""Weights that each pod may as well download: in 20 s at the typical rate."""

_WORTH_A_BUCKET = 120.0
"""Seconds that streaming has to save at each start to be worth a bucket and a package in the image."""

_COMPARED: tuple[tuple[Origin, str, str], ...] = (
    (Origin("hub"), "the Hub at each start", "default"),
    (Origin("hub-cache"), "RWX claim, Hub at each start", "storage.model.hub.cache"),
    (Origin("claim", "hub"), "RWX claim", "--mirror claim/NAME"),
    (Origin("claim-on-disk", "hub"), "RWO claim, one node", "--mirror claim/NAME"),
    (Origin("bucket-copy", "hub"), "bucket, client in the image", "--mirror s3://BUCKET/PATH"),
    (
        Origin("bucket-stream", "hub"),
        "bucket, runai streamer",
        "--mirror s3://BUCKET/PATH and load: stream",
    ),
    (Origin("image"), "model image, Kubernetes 1.35", "storage.model.image"),
)

_EACH_POD: frozenset[StorageKind] = frozenset({"hub"})


def compare_ways(
    files_bytes: float,
    origin: Origin,
    engine: EngineStart,
    *,
    nodes: int,
    replicas: int,
    caches: Caches | None,
    counted: bool,
) -> StoragePlan:
    """The ways for `replicas` replicas, each of whose pods, one a node, reads the weights.

    counted: whether the size is that of the checkpoint's files, or derived from the model's config.
    """
    size, pods = int(files_bytes), nodes * replicas
    ways = () if origin.way == "path" else tuple(_ways(size, origin, engine, nodes, pods, caches))
    recommended, reason = _recommended(ways, size, replicas, pods)
    warm = add(PROCESS, divide(size / nodes, MEMORY_RATE), later_init(engine, caches))
    return StoragePlan(size, counted, replicas, pods, origin.way, ways, recommended, reason, warm)


def _ways(
    size: int, chosen: Origin, engine: EngineStart, nodes: int, pods: int, caches: Caches | None
) -> Iterator[StorageWay]:
    for each, needs, setting in _COMPARED:
        origin = chosen if chosen.way == each.way else each  # files that are there need no mirror
        if origin.way == "bucket-stream" and not engine.prepares:
            continue  # the streamer is vLLM's
        if origin.way == "claim-on-disk" and nodes > 1:
            continue
        start = startup(size, origin, engine, nodes=nodes, caches=caches)
        assert start.further is not None
        downloaded = size * pods if origin.way in _EACH_POD else size if _asks_the_hub(origin) else 0
        read = 0 if origin.way in _EACH_POD else size * pods
        yield StorageWay(origin.way, _first(start), start.further, downloaded, read, needs, setting)


def _asks_the_hub(origin: Origin) -> bool:
    """Whether the files are downloaded from the Hub once for all pods."""
    return origin.way == "hub-cache" or origin.mirror == "hub"


def _first(start: StartupPlan) -> Band:
    return start.total if start.model_download is None else add(start.model_download, start.total)


def _recommended(ways: tuple[StorageWay, ...], size: int, replicas: int, pods: int) -> tuple[StorageKind | None, str]:
    """The way that is worth its effort, and why."""
    if not ways:
        return None, ""
    by_way = {one.way: one for one in ways}
    if pods == 1:
        return "hub", f"one pod: it downloads {_gib(size)} at each start"
    if size < SMALL:
        return "hub", f"each of {pods} pods downloads {_gib(size)}, which takes seconds"
    who = f"{replicas} replica{'' if replicas == 1 else 's'}" + (
        f" of {pods // replicas} pods" if pods > replicas else ""
    )
    all_download = f"{who} download{'s' if replicas == 1 else ''} {_gib(size * pods)}"
    stream, claim = by_way.get("bucket-stream"), by_way["claim"]
    saved = claim.further.typical - stream.further.typical if stream is not None else 0.0
    they = "it downloads" if replicas == 1 else "they download"
    if stream is not None and saved >= _WORTH_A_BUCKET:
        return "bucket-stream", (
            f"{all_download}; with {stream.setting} {they} {_gib(size)} once, and each start takes "
            f"{format_duration(saved)} less than from a network file system"
        )
    return "claim", f"{all_download}; with {claim.setting} {they} {_gib(size)} once"


def _gib(size: float) -> str:
    return f"{size / GIB:,.0f} GiB" if size >= 10 * GIB else f"{size / GIB:,.1f} GiB"
