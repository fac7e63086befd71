"""Load tests and what is beside them, on the cluster."""

from __future__ import annotations

import pytest

from e2e.harness import Bench

pytestmark = [pytest.mark.xdist_group("bench"), pytest.mark.slow]


def test_an_engine_without_a_server(bench: Bench) -> None:
    """vLLM's own benchmarks in a pod like that of a replica. Of weights made up for a larger vocabulary: the latency is
    measured with tokens that the tiny model's has not."""
    flags = bench.tiny(
        "alone", "--engine-arg", "load_format=dummy", "--engine-arg", 'hf_overrides={"vocab_size": 12000}'
    )
    sizes = ("--input-tokens", "32", "--output-tokens", "16", "--concurrency", "4", "--requests", "20")
    result = bench.run("bench", "offline", *flags[1:], *sizes, "-o", "json")
    found = result.json()
    assert found["load"] == {"inputTokens": 32, "outputTokens": 16, "requests": 20, "batch": 4}
    assert found["throughput"]["outputTokensPerSecond"] > 0
    assert 0 < found["batchLatencySeconds"]["p50"] <= found["batchLatencySeconds"]["p99"]
    assert "Job" in result.err
    bench.wait("nothing is left", lambda: not bench.items("jobs"), timeout=90)
