"""Metrics of pods, as they were recorded.

ray-*.txt: of a pod with two Serve replicas on Ray 2.60, the lines that matter; GPU figures were set where Ray asks the
driver. One replica counts with vLLM 0.29's classes for Ray and processes a request (busy), has done so (done), has been
idle since (idle), and has a request of which its engine does nothing (stuck); the other one has never been asked.
vllm.txt: vLLM's own names, as prometheus_client writes them.
"""

from __future__ import annotations

from pathlib import Path

ASKED, UNASKED = "zd25t3t0", "atsywcrc"
"""Ids of the replicas in ray-*.txt."""


def recorded(name: str) -> str:
    """The text of a recording."""
    return (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8")
