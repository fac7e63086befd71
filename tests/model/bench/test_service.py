"""What looks at a service come to, and vLLM's metrics in them."""

from __future__ import annotations

from rayllm_ctl.model.bench.service import LoadLook, during, steady_replicas
from rayllm_ctl.model.observed.vllm_metrics import NO_METRICS, EngineFigures, engine_figures


def figures(running: int = 0, waiting: int = 0, **preemptions: float) -> EngineFigures:
    return EngineFigures(running, waiting, running / 10, preemptions)


def test_only_what_happened_during_the_load_counts() -> None:
    looks = [
        (10.0, LoadLook(replicas=7, wanted=7)),
        (98.0, LoadLook(replicas=1, wanted=1, engine=figures(0, 0, a=5))),
        (104.0, LoadLook(replicas=1, wanted=3, engine=figures(8, 20, a=6))),
        (112.0, LoadLook(replicas=2, wanted=3, engine=figures(12, 3, a=6, b=2), queued=4)),
        (131.0, LoadLook(replicas=3, wanted=3, engine=figures(9, 0, b=3))),
        (900.0, LoadLook(replicas=1, wanted=1)),
    ]
    found = during(looks, begin=100.0, seconds=40.0)
    assert found["scaling"] == [{"atSeconds": 12.0, "from": 1, "to": 2}, {"atSeconds": 31.0, "from": 2, "to": 3}]
    assert [sample["atSeconds"] for sample in found["samples"]] == [0.0, 4.0, 12.0, 31.0]
    # Engine a is gone with its one preemption, b is new.
    assert [sample["preemptions"] for sample in found["samples"]] == [0, 1, 3, 4]
    assert found["max"] == {
        "replicas": 3, "wanted": 3, "running": 12, "waiting": 20, "kvCacheUsage": 1.2, "preemptions": 4, "queued": 4,
    }  # fmt: skip
    assert found["problems"] == []
    assert steady_replicas(found) is None


def test_what_is_not_known_is_null_and_said_once() -> None:
    looks = [(float(at), LoadLook(replicas=2, problems=("not permitted to get pods/proxy",))) for at in range(3)]
    found = during(looks, 0.0, 2.0)
    assert found["problems"] == ["not permitted to get pods/proxy"]
    assert found["max"]["running"] is found["max"]["preemptions"] is found["samples"][0]["waiting"] is None
    assert steady_replicas(found) == 2
    assert during([(0.0, LoadLook(replicas=1))], 0.0, 1.0)["problems"] == [NO_METRICS]
    assert steady_replicas(None) is None


RAY = """\
# HELP ray_vllm_num_requests_running Number of requests in model execution batches.
ray_vllm_num_requests_running{ReplicaId="r1",engine="0",model_name="m"} 3.0
ray_vllm_num_requests_running{ReplicaId="gone",engine="0",model_name="m"} 9.0
ray_vllm_num_requests_waiting{ReplicaId="r1",engine="0",model_name="m"} 2.0
ray_vllm_num_requests_waiting_by_reason{ReplicaId="r1",engine="0",reason="capacity"} 2.0
ray_vllm_kv_cache_usage_perc{ReplicaId="r1",engine="0",model_name="m"} 0.81239
"""


def test_rays_metrics_without_those_of_replicas_that_ended() -> None:
    second = RAY.replace('"r1"', '"r2"') + 'ray_vllm_num_preemptions_total{ReplicaId="r2",engine="0"} 4.0\n'
    found = engine_figures({"p1": RAY, "p2": second}, ["r1", "r2"])
    assert found is not None
    assert (found.running, found.waiting, found.kv_cache_usage) == (6, 4, 0.8124)
    # Ray exports a counter once it was counted up: the first replica has preempted nothing.
    assert found.preemptions == {"p1/r1/0": 0.0, "p2/r2/0": 4.0}
    assert engine_figures({"p1": RAY}, ["r3"]) is None


def test_vllms_own_metrics() -> None:
    text = (
        'vllm:num_requests_running{engine="0",model_name="a b"} 1.0 1700000000\n'
        'vllm:num_requests_waiting{engine="0"} nonsense\nvllm:num_preemptions_total{engine="0"} 2.0'
    )
    assert engine_figures({"": text}) == EngineFigures(1, 0, None, {"//0": 2.0})
    assert engine_figures({"": "up 1\n"}) is None
