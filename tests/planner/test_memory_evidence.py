"""A band's width follows from what is known about its case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.planner.memory import MemoryEstimate
from rayllm_ctl.planner.memory import evidence as known
from tests.planner.known import estimated, facts_of

GIB = 2**30
ROWS = json.loads((Path(__file__).parent.parent / "data/measured.json").read_text(encoding="utf-8"))
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def width(found: MemoryEstimate) -> float:
    band = found.plan.kv_cache_bytes
    return (band.high - band.low) / GIB


def reasons(found: MemoryEstimate) -> list[str]:
    return [line.text for line in found.formulas if line.name == "spread"]


def test_what_dozens_of_logs_show_adds_nothing() -> None:
    assert reasons(estimated(LLAMA, "H100-80GB", "0.19.0")) == []
    assert width(estimated(LLAMA, "H100-80GB", "0.19.0")) < 0.5


@pytest.mark.parametrize(
    ("model", "gpu", "version", "settings", "said"),
    [
        (LLAMA, "B200", "0.19.0", {}, "the first model runner on B200"),
        (LLAMA, "H100-80GB", "0.20.0", {}, "vLLM 0.20 on H100-80GB"),
        (LLAMA, "H100-80GB", "0.19.0", {"tensor": 8}, "TP 8 on H100-80GB"),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", "L4", "0.19.0", {}, "latent attention on L4 in vLLM 0.19"),
        ("deepseek-ai/DeepSeek-V3.2", "H200-141GB", "0.19.0", {"tensor": 8}, "sparse latent attention"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "H200-141GB", "0.19.0", {"tensor": 2}, "recurrent layers"),
        ("Qwen/Qwen3-14B-AWQ", "A100-80GB", "0.19.0", {}, "weights in awq on A100-80GB"),
    ],
)
def test_what_no_log_shows_widens_the_band_and_is_named(
    model: str, gpu: str, version: str, settings: dict[str, Any], said: str
) -> None:
    found = estimated(facts_of(model), gpu, version, **settings)
    assert any(f"no measured row for {said}" in reason for reason in reasons(found))
    assert all("KV cache -" in reason for reason in reasons(found))


def test_the_less_is_known_the_wider_the_band() -> None:
    measured, version, gpu, all_of_it = (
        width(estimated("deepseek-ai/DeepSeek-V2-Lite-Chat", card, release))
        for card, release in (
            ("H100-80GB", "0.19.0"),
            ("H100-80GB", "0.20.0"),
            ("A100-80GB", "0.20.0"),
            ("RTX-PRO-6000", "0.20.0"),
        )
    )
    assert measured < version < gpu < all_of_it


def _estimate(row: dict[str, Any]) -> MemoryEstimate:
    return estimated(
        facts_of(row["model"]),
        row["gpu"],
        row["vllm"] or "0.29.0",
        length=row["maxModelLen"],
        tensor=row["tensor"],
        pipeline=row["pipeline"],
        utilization=row.get("utilization", 0.9 if (row["vllm"] or "0.29") < "0.20" else 0.92),
        kv=row.get("kvCacheDtype", "auto"),
        dtype=row.get("dtype", "bfloat16"),
        quantization=row.get("quantization"),
        tokens=row.get("maxNumBatchedTokens"),
        seqs=row.get("maxNumSeqs"),
        eager=bool(row.get("args")),
    )


@pytest.mark.parametrize("campaign", [True, False], ids=["only H100 0.19 known", "H100 0.15 to 0.19 not known"])
def test_bands_hold_for_logs_that_are_left_out(campaign: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the logs of one campaign as the only evidence, the bands of all others hold; and the other way round."""
    logs = known.LOGS[:1] if campaign else known.LOGS[1:]
    monkeypatch.setattr(known, "LOGS", logs)
    rows = [row for row in ROWS if "kvGiB" in row["judged"] and row["outcome"] == "ok"]
    others = [row for row in rows if (row["gpu"] == "H100-80GB" and row["vllm"] == "0.19.0") != campaign]
    assert len(others) > 10
    inside = 0
    for row in others:
        band = _estimate(row).plan.kv_cache_bytes
        inside += band.low / GIB - 0.006 <= row["kvGiB"] <= band.high / GIB + 0.006
    assert inside / len(others) >= 0.95
