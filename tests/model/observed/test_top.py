"""The load of replicas, from what was recorded of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.model.observed.health import QueueState
from rayllm_ctl.model.observed.ray_metrics import PodGPUs
from rayllm_ctl.model.observed.top import LoadMeter, ReplicaLoad, ReplicaLook, ServiceLoad, ServiceLook
from rayllm_ctl.model.observed.vllm_metrics import NO_METRICS
from rayllm_ctl.model.text.json_form import to_json
from tests.model.metrics import ASKED, UNASKED, recorded

TOO_EARLY = "tokens/s are known after the next report of Ray, which comes every 10 s"


def replica(name: str, text: str | None, **more: Any) -> ReplicaLook:
    return ReplicaLook("tiny", name, "w1", "n1", True, text, text, **more)


def looked(*looks: ReplicaLook, interval: float | None = 10.0) -> ServiceLook:
    return ServiceLook(looks, interval)


def only(load: ServiceLoad) -> ReplicaLoad:
    assert load.replicas is not None
    (row,) = load.replicas
    return row


def test_a_replica_of_serve_from_its_load_to_its_idleness() -> None:
    meter = LoadMeter()
    first = meter.load(looked(replica(ASKED, recorded("ray-busy"))), 0.0)
    row = only(first)
    assert (row.running, row.waiting, row.kv_cache_usage) == (3, 1, 0.25)
    assert (row.prompt_tokens_per_second, row.generation_tokens_per_second) == (None, None)
    assert (row.model, row.replica, row.pod, row.node) == ("tiny", ASKED, "w1", "n1")
    assert row.gpus == PodGPUs(2, 0.9, 145_736 * 2**20, 163_118 * 2**20)
    assert first.problems == (TOO_EARLY,)
    assert meter.rates_missing
    # 750 and 375 tokens since then, of one report.
    done = meter.load(looked(replica(ASKED, recorded("ray-done"))), 6.0)
    row = only(done)
    assert (row.running, row.waiting, row.kv_cache_usage) == (0, 0, 0.0)
    assert (row.prompt_tokens_per_second, row.generation_tokens_per_second) == (75.0, 37.5)
    assert done.problems == ()
    assert not meter.rates_missing
    # The gauges are gone, the counters are not, and Serve has no request for it.
    row = only(meter.load(looked(replica(ASKED, recorded("ray-idle"))), 8.0))
    assert (row.running, row.waiting, row.kv_cache_usage) == (0, 0, 0.0)
    assert (row.prompt_tokens_per_second, row.generation_tokens_per_second) == (0.0, 0.0)


def test_an_idle_engine_needs_no_second_reading() -> None:
    meter = LoadMeter()
    row = only(meter.load(looked(replica(ASKED, recorded("ray-idle"))), 0.0))
    assert (row.running, row.generation_tokens_per_second) == (0, 0.0)
    assert not meter.rates_missing


def test_an_engine_that_makes_no_step_with_requests_is_not_idle() -> None:
    load = LoadMeter().load(looked(replica(ASKED, recorded("ray-stuck"))), 0.0)
    row = only(load)
    assert (row.running, row.waiting, row.kv_cache_usage) == (None, None, None)
    assert (row.prompt_tokens_per_second, row.generation_tokens_per_second) == (0.0, 0.0)
    assert load.problems == (f"the engine makes no step, with 1 request in the replica: {ASKED} in w1",)


def test_of_an_engine_that_says_nothing_only_idleness_is_known() -> None:
    meter = LoadMeter()
    load = meter.load(looked(replica(UNASKED, recorded("ray-busy"))), 0.0)
    row = only(load)
    assert (row.running, row.waiting) == (0, 0)
    assert (row.kv_cache_usage, row.prompt_tokens_per_second, row.generation_tokens_per_second) == (None, None, None)
    assert load.problems == (f"{NO_METRICS}: {UNASKED} in w1",)
    assert not meter.rates_missing
    busy = recorded("ray-busy").replace(f'replica="{UNASKED}"}} 0.0', f'replica="{UNASKED}"}} 2.0')
    row = only(meter.load(looked(replica(UNASKED, busy)), 2.0))
    assert (row.running, row.waiting) == (None, None)
    # With its first report it is an engine of vLLM, which has counted from 0.
    now = busy.replace(f'ReplicaId="{ASKED}"', f'ReplicaId="{UNASKED}"')
    row = only(meter.load(looked(replica(UNASKED, now)), 4.0))
    assert (row.running, row.prompt_tokens_per_second, row.generation_tokens_per_second) == (3, 73.0, 36.5)


def test_series_without_a_replica_are_of_the_only_one_in_the_pod() -> None:
    text = recorded("ray-busy").replace(f'ReplicaId="{ASKED}",', "")
    assert only(LoadMeter().load(looked(replica(ASKED, text)), 0.0)).running == 3
    several = LoadMeter().load(looked(replica(ASKED, text), replica(UNASKED, text)), 0.0)
    assert several.replicas is not None
    assert [row.running for row in several.replicas] == [None, 0]


def test_vllms_own_server() -> None:
    meter = LoadMeter()
    look = ReplicaLook("tiny", None, "s1", "n1", False, recorded("vllm"), None)
    first = meter.load(looked(look, interval=None), 0.0)
    row = only(first)
    assert (row.running, row.waiting, row.kv_cache_usage, row.gpus) == (3, 1, 0.25, None)
    assert first.problems == ("no GPUs: the pods request none", "tokens/s are known from the second reading on")
    later = recorded("vllm").replace("12345.0", "12445.0").replace("67890.0", "67900.0")
    row = only(meter.load(looked(replace(look, engine=later), interval=None), 4.0))
    assert (row.prompt_tokens_per_second, row.generation_tokens_per_second) == (25.0, 2.5)
    without = meter.load(looked(replace(look, engine="up 1\n"), interval=None), 8.0)
    assert only(without).running is None
    assert without.problems[0] == f"{NO_METRICS}: s1"


def test_several_engines_of_a_replica_count_together() -> None:
    """As with data parallelism: the fullest KV cache counts."""
    second = recorded("vllm").replace('engine="0"', 'engine="1"').replace("} 0.25", "} 0.75")
    look = ReplicaLook("tiny", None, "s1", "n1", False, recorded("vllm") + second, None)
    row = only(LoadMeter().load(looked(look, interval=None), 0.0))
    assert (row.running, row.waiting, row.kv_cache_usage) == (6, 2, 0.75)


@pytest.mark.parametrize("has_gpus", [True, None])
def test_gpus_that_ray_does_not_report(has_gpus: bool | None) -> None:
    text = "".join(line for line in recorded("ray-idle").splitlines(keepends=True) if "ray_node_g" not in line)
    looks = [replace(replica(ASKED, text), has_gpus=has_gpus, pod=pod) for pod in ("w1", "w2")]
    load = LoadMeter().load(looked(*looks), 0.0)
    assert load.problems == ("Ray's metrics have no GPU figures: w1, w2",)


def test_what_could_not_be_read_is_not_known() -> None:
    meter = LoadMeter()
    look = ServiceLook((replica(ASKED, None),), 10.0, problems=("pod w1 did not answer",))
    load = meter.load(look, 0.0)
    row = only(load)
    assert (row.running, row.prompt_tokens_per_second, row.kv_cache_usage, row.gpus) == (None, None, None, None)
    assert load.problems == ("pod w1 did not answer",)
    assert not meter.rates_missing


def test_as_json() -> None:
    look = ServiceLook((replica(ASKED, recorded("ray-idle")),), 10.0, QueueState(3, 12))
    assert to_json(LoadMeter().load(look, 0.0)) == {
        "replicas": [{
            "model": "tiny", "replica": ASKED, "running": 0, "waiting": 0,
            "promptTokensPerSecond": 0.0, "generationTokensPerSecond": 0.0, "kvCacheUsage": 0.0,
            "gpus": {
                "count": 2, "utilization": 0.9, "memoryUsedBytes": 152815271936, "memoryTotalBytes": 171041619968,
            },
            "pod": "w1", "node": "n1",
        }],
        "queue": {"pending": 3, "running": 12, "maxPending": None},
        "problems": [],
    }  # fmt: skip
