"""A sweep over tensor parallelism: services on simulated nodes, and the load of real Jobs."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from e2e.harness import SCHEDULED_ON_SIMULATED, Bench, Object, Target
from e2e.running import Running
from e2e.simulate.shapes import MARK, SIMULATED
from e2e.simulated import hold_on_each_node

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.slow]

SWEPT = "meta-llama/Llama-3.1-8B-Instruct"
"""A model that fits on one GPU, and whose heads four divide."""


HEAD = "/spec/rayClusterConfig/headGroupSpec/template/spec"


def spec(image: str) -> Object:
    """A service on simulated nodes, with its head, in a namespace whose other pods run."""
    of_head = {"nodeSelector": {SIMULATED: "true"}, "tolerations": [{"key": MARK, "operator": "Exists"}]}
    patch = [{"op": "add", "path": f"{HEAD}/{name}", "value": value} for name, value in of_head.items()]
    return {
        "apiVersion": "rayllm.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "swept"},
        "spec": {
            "model": {"id": SWEPT},
            "accelerator": {"gpu": "H100-80GB"},
            "engine": {"image": image},
            "scheduling": SCHEDULED_ON_SIMULATED,
            "patches": [{"target": {"kind": "RayService"}, "patch": patch}],
        },
    }


def is_gone(bench: Bench, kind: str) -> bool:
    return not bench.items(kind)


def test_a_sweep_of_tp_1_2_4(claimed: Target, shared: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec(claimed.image)))
    command = (
        "bench", "sweep", "-f", str(file), "--offline",
        "--requests", "4", "--concurrency", "2", "--output-tokens", "8",
        "--output-dir", str(folder), "-n", shared.namespace,
    )  # fmt: skip
    found = shared.run(*command, "--tp", "1,2,3,4", "-o", "json").json()
    states = {one["values"]["parallelism.tensor"]: one["state"] for one in found["variants"]}
    assert states == {1: "measured", 2: "measured", 3: "rejected", 4: "measured"}, found
    for one in found["variants"]:
        if one["state"] == "rejected":
            assert one["reason"]["code"] == "tensor-parallel-heads"
            continue
        assert one["gpus"] == {"min": one["values"]["parallelism.tensor"], "max": one["values"]["parallelism.tensor"]}
        [result] = one["result"]["runs"]
        assert result["requests"]["succeeded"] == 4, result["errorMessages"]
        assert one["startupSeconds"] > 0
    for kind in ("rayservices", "rayclusters", "pods", "jobs"):
        shared.wait(f"no {kind} are left", partial(is_gone, shared, kind), timeout=300)

    again = shared.run(*command, "--tp", "1,2,4")  # nothing is missing
    print(f"\n{again.out}")
    assert re.match(r" +tensor +requests/s .*\n +1 +[0-9.]+.*\n +2 +[0-9.]+.*\n +4 +[0-9.]+", again.out), again.out
    page = tmp_path / "page.html"
    shared.run("bench", "report", str(folder), "--output", str(page))
    assert page.read_text().count("<svg") >= 6

    hold_on_each_node(shared, {"nvidia.com/gpu": "1"})  # the next variant waits for as long as it may
    sweep = Running(shared, *command, "--tp", "1,8")
    shared.wait("the variant is deployed", lambda: shared.items("pods", "ray.io/is-ray-node=yes"), timeout=300)
    sweep.interrupt()
    code, err = sweep.ended()
    assert code == 130, err
    out = "".join(sweep.out)
    assert re.search(r"\n +8 +interrupted", out), out
    assert re.search(r"\n +1 +[0-9.]+", out), out
    assert not shared.items("rayservices")
    assert not shared.items("pods", "ray.io/is-ray-node=yes")
