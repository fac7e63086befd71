"""A sweep over tensor parallelism on claimed GPUs, with a stand-in for the engine."""

from __future__ import annotations

import re
import signal
from functools import partial
from pathlib import Path

from e2e.harness import ENDS_SOON_FLAGS, STAND_IN_FLAGS, Bench, Target

SWEPT = "meta-llama/Llama-3.1-8B-Instruct"
"""A model that fits on one GPU, and whose heads four divide."""


def is_gone(bench: Bench, kind: str) -> bool:
    return not bench.items(kind)


def test_a_sweep_of_tp_1_2_4(claimed: Target, shared: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    command = (
        "bench", "sweep", "--model", SWEPT, "--model-path", "/models/tiny", "--gpu", "H100-80GB", "--offline",
        "--image", claimed.image, *STAND_IN_FLAGS, *ENDS_SOON_FLAGS, "--cpu", "2", "--memory", "3Gi", "--name", "swept",
        "--requests", "4", "--concurrency", "2", "--output-tokens", "8",
        "--output-dir", str(folder), "-n", shared.namespace,
    )  # fmt: skip
    found = shared.run(*command, "--tp", "1,2,3,4", "-o", "json", timeout=900).json()
    states = {one["values"]["parallelism.tensor"]: one["state"] for one in found["variants"]}
    assert states == {1: "measured", 2: "measured", 3: "rejected", 4: "measured"}, found
    for one in found["variants"]:
        if one["state"] == "rejected":
            assert one["reason"]["code"] == "tensor-parallel-heads"
            continue
        assert one["gpus"] == {"min": one["values"]["parallelism.tensor"], "max": one["values"]["parallelism.tensor"]}
        assert one["result"]["requests"]["succeeded"] == 4, one["result"]["errorMessages"]
        assert 0 < one["startupSeconds"] < 300
    for kind in ("rayservices", "rayclusters", "pods", "jobs"):
        shared.wait(f"no {kind} are left", partial(is_gone, shared, kind), timeout=90)

    again = shared.run(*command, "--tp", "1,2,4", timeout=120)  # nothing is missing
    print(f"\n{again.out}")
    assert re.match(r" +tensor +requests/s .*\n +1 +[0-9.]+.*\n +2 +[0-9.]+.*\n +4 +[0-9.]+", again.out), again.out
    page = tmp_path / "page.html"
    shared.run("bench", "report", str(folder), "--output", str(page))
    assert page.read_text().count("<svg") >= 6

    process = shared.start(*command, "--tp", "1,8")
    shared.wait("the variant is deployed", lambda: shared.items("rayservices"), timeout=60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 130, err
    assert re.search(r"\n +8 +interrupted", out), out
    assert re.search(r"\n +1 +[0-9.]+", out), out
    assert not shared.items("rayservices")
    assert not shared.items("pods")
