"""The ways to the weights, side by side."""

from __future__ import annotations

import pytest

from rayllm_ctl.model.plan.plan import StorageKind, StoragePlan
from rayllm_ctl.model.spec.model_storage import Caches
from rayllm_ctl.planner.speed.engineinit import EngineStart
from rayllm_ctl.planner.speed.loading import Origin
from rayllm_ctl.planner.speed.ways import compare_ways

GIB = 2**30
VLLM = EngineStart()


def compared(
    size: float,
    replicas: int,
    nodes: int = 1,
    way: StorageKind = "hub",
    engine: EngineStart = VLLM,
    caches: Caches | None = None,
) -> StoragePlan:
    return compare_ways(size, Origin(way), engine, nodes=nodes, replicas=replicas, caches=caches, counted=True)


def test_four_replicas_download_four_times_or_once() -> None:
    found = compared(122 * GIB, 4)
    ways = {one.way: one for one in found.ways}
    assert ways["hub"].downloaded_bytes == 488 * GIB
    assert (ways["claim"].downloaded_bytes, ways["claim"].read_bytes) == (122 * GIB, 488 * GIB)
    assert (ways["image"].downloaded_bytes, ways["image"].read_bytes) == (0, 488 * GIB)
    assert found.recommended == "claim"
    assert found.reason == "4 replicas download 488 GiB; with --mirror claim/NAME they download 122 GiB once"
    assert (found.files_bytes, found.pods) == (122 * GIB, 4)


def test_a_mirror_delays_the_first_answer_and_no_later_one() -> None:
    ways = {one.way: one for one in compared(122 * GIB, 4).ways}
    assert ways["claim"].first.typical > ways["hub"].first.typical
    assert ways["claim"].further.typical < ways["hub"].further.typical
    assert ways["bucket-stream"].further.typical < ways["claim"].further.typical


@pytest.mark.parametrize(
    ("size", "replicas", "nodes", "recommended", "says"),
    [
        (61 * GIB, 1, 1, "hub", "one pod: it downloads 61 GiB at each start"),
        (2 * GIB, 8, 1, "hub", "each of 8 pods downloads 2.0 GiB"),
        (756 * GIB, 2, 1, "bucket-stream", "load: stream they download 756 GiB once, and each start takes 7m54s less"),
        (100 * GIB, 1, 2, "claim", "1 replica of 2 pods downloads 200 GiB; with --mirror claim/NAME it downloads 100"),
    ],
)
def test_what_is_recommended(size: int, replicas: int, nodes: int, recommended: StorageKind, says: str) -> None:
    found = compared(size, replicas, nodes)
    assert found.recommended == recommended
    assert says in found.reason


def test_a_folder_of_the_pods_has_no_other_way() -> None:
    found = compared(61 * GIB, 4, way="path")
    assert (found.ways, found.recommended, found.reason) == ((), None, "")
    assert found.files_bytes == 61 * GIB


def test_ways_that_cannot_be_are_left_out() -> None:
    transformers = EngineStart(prepares=False)
    assert "bucket-stream" not in {one.way for one in compared(GIB, 2, engine=transformers).ways}
    assert "claim-on-disk" not in {one.way for one in compared(GIB, 2, nodes=2).ways}
    assert {"bucket-stream", "claim-on-disk"} <= {one.way for one in compared(GIB, 2).ways}


def test_graphs_that_are_kept_shorten_every_later_start() -> None:
    none, kept = compared(61 * GIB, 4), compared(61 * GIB, 4, caches=Caches("graphs"))
    for before, after in zip(none.ways, kept.ways, strict=True):
        assert after.further.typical < before.further.typical
        assert after.first == before.first
    assert kept.page_cache.typical < none.page_cache.typical


def test_files_that_are_in_a_bucket_are_not_downloaded_from_the_hub() -> None:
    there = compare_ways(20 * GIB, Origin("bucket-copy"), VLLM, nodes=1, replicas=2, caches=None, counted=True)
    mirrored = compare_ways(
        20 * GIB, Origin("bucket-copy", "hub"), VLLM, nodes=1, replicas=2, caches=None, counted=True
    )
    [chosen], [before] = ([one for one in plan.ways if one.way == "bucket-copy"] for plan in (there, mirrored))
    assert (chosen.downloaded_bytes, before.downloaded_bytes) == (0, 20 * GIB)
    assert chosen.first.typical < before.first.typical
