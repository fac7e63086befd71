"""`plan --plot`: what the picture shows of a plan."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

QWEN = ("--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--tp", "2", "--offline")


def texts(file: Path) -> list[str]:
    """The texts of a picture, which matplotlib notes beside their outlines."""
    return re.findall("<!-- (.*?) -->", file.read_text())


def drawn(run: Run, file: Path, *flags: str) -> tuple[list[str], dict[str, Any]]:
    """The texts of the picture and the plan."""
    result = run("plan", *flags, "--plot", str(file), "-o", "json")
    assert f"{file} written\n" in result.err, str(result)
    return texts(file), json.loads(result.out)


def gib(size: float) -> str:
    return f"{size / 2**30:.1f}"


def test_the_parts_of_the_memory_are_labelled_with_their_sizes(run: Run, tmp_path: Path) -> None:
    shown, plan = drawn(run, tmp_path / "plan.svg", *QWEN)
    memory = plan["memory"]
    cache = [gib(memory["kvCacheBytes"][end]) for end in ("typical", "low", "high")]
    assert {
        "Qwen/Qwen3-32B: fits on 2 × H100-80GB",
        f"{gib(memory['totalBytes'])} GiB",
        f"weights {gib(memory['weightsBytes'])}",
        f"activations {gib(memory['activationBytes'])}",
        f"graphs {gib(memory['cudaGraphBytes'])}",
        f"non-torch {gib(memory['nonTorchBytes'])}",
        f"KV cache {cache[0]} ({cache[1]}–{cache[2]})",
    } <= set(shown)
    assert {gib(memory["weightsBytes"]), cache[0]} <= set(shown), "inside the bar"


def test_the_curve_runs_from_one_request_to_as_many_as_a_replica_holds(run: Run, tmp_path: Path) -> None:
    shown, plan = drawn(run, tmp_path / "plan.svg", *QWEN)
    speed = plan["throughput"]
    curve = speed["curve"]
    numbers = [point["concurrency"] for point in curve]
    held = speed["concurrencyAtLoad"]
    assert (numbers[0], numbers[-1]) == (1, held["high"])
    assert numbers == sorted(set(numbers))
    assert {held["low"], held["typical"]} <= set(numbers)
    assert curve[0]["figures"] == speed["oneRequest"]
    planned = next(point for point in curve if point["concurrency"] == speed["load"]["concurrency"])
    assert planned["figures"] == speed["atLoad"]
    rates = [point["figures"]["outputTokensPerSecond"]["typical"] for point in curve]
    assert rates == sorted(rates)
    assert {
        "output tokens/s", "TTFT, s", "TPOT, ms", "likely", "in nine of ten cases",
        f"planned: {speed['load']['concurrency']:g} in flight",
        "One replica, prompts of 4,096 and answers of 1,024 tokens",
    } <= set(shown)  # fmt: skip


def test_equal_plans_give_equal_bytes_without_a_date(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    for file in (first, second):
        drawn(run, file, *QWEN)
    assert first.read_bytes() == second.read_bytes()
    assert "<dc:date>" not in first.read_text()


def test_the_suffix_is_the_format(run: Run, tmp_path: Path) -> None:
    assert run("plan", *QWEN, "--plot", str(tmp_path / "plan.PNG")).code == 0
    assert (tmp_path / "plan.PNG").read_bytes().startswith(b"\x89PNG")


def test_a_model_that_does_not_fit_has_a_bar_and_no_curve(run: Run, tmp_path: Path) -> None:
    result = run(
        "plan", "--model", "Qwen/Qwen3-32B", "--gpu", "L4", "--tp", "2", "--offline", "--plot", str(tmp_path / "p.svg")
    )
    shown = texts(tmp_path / "p.svg")
    assert result.code == 1
    assert {"Qwen/Qwen3-32B: does not fit on 2 × L4", "22.0 GiB", "weights 30.6"} <= set(shown)
    assert "TTFT, s" not in shown
    assert not any(text.startswith(("KV cache", "left")) for text in shown)


def test_several_models_have_a_bar_and_a_line_each(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(
        "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: two}\nspec:\n  models:\n"
        "    - {id: Qwen/Qwen3-32B, accelerator: {gpu: H100-80GB}}\n    - {id: Qwen/Qwen3-8B, accelerator: {gpu: L4}}\n"
    )
    assert run("plan", "-f", str(tmp_path / "two.yaml"), "--offline", "--plot", str(tmp_path / "p.svg")).code == 0
    shown = texts(tmp_path / "p.svg")
    for model in ("qwen3-32b", "qwen3-8b"):
        assert shown.count(model) == 2, "a bar and a line of the legend"
    assert "KV cache" in shown


def test_each_gpu_of_the_transformers_engine_has_a_bar(run: Run, tmp_path: Path) -> None:
    model = ("--model", "Qwen/Qwen3-8B", "--gpu", "L4", "--engine", "transformers", "--max-model-len", "32768")
    assert run("plan", *model, "--offline", "--plot", str(tmp_path / "p.svg")).code == 0
    assert {"GPU 0", "GPU 1", "weights", "margin"} <= set(texts(tmp_path / "p.svg"))


def test_the_plan_of_a_batch_job_is_drawn_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "apiVersion: rayllm.io/v1alpha1\nkind: BatchJob\nmetadata: {name: job}\nspec:\n  model: {id: Qwen/Qwen3-8B}\n"
        "  accelerator: {gpu: L4}\n  input: {paths: [s3://a/b.jsonl]}\n  output: {path: s3://a/o}\n"
        "  prompt: {template: '{{ text }}'}\n"
    )
    result = run("plan", "-f", str(tmp_path / "job.yaml"), "--offline", "--plot", str(tmp_path / "p.svg"))
    assert result.code == 0, str(result)
    shown = texts(tmp_path / "p.svg")
    assert {"Qwen/Qwen3-8B: fits on 2 × L4", "TTFT, s"} <= set(shown)


def test_what_cannot_be_drawn_is_said(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, says in (("p.jpg", "expected a name that ends in .png or .svg"), ("no/p.svg", "there is no directory")):
        result = run("plan", *QWEN, "--plot", str(tmp_path / name))
        assert (result.code, result.out) == (2, "")
        assert says in result.err
    cpu = run(
        "plan", "--model", "Qwen/Qwen3-0.6B", "--accelerator", "cpu", "--offline", "--plot", str(tmp_path / "p.svg")
    )
    assert cpu.code == 1
    assert "nothing was drawn, since the plan has no GPU memory" in cpu.err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    missing = run("plan", *QWEN, "--plot", str(tmp_path / "p.svg"))
    assert missing.code == 2
    assert "the package matplotlib, which the extra bench installs" in missing.err
    assert [file.name for file in tmp_path.iterdir()] == ["kubeconfig"]


def test_without_plot_the_curve_has_few_points(run: Run) -> None:
    speed = json.loads(run("plan", *QWEN, "-o", "json").out)["throughput"]
    numbers = [point["concurrency"] for point in speed["curve"]]
    assert numbers == [1, 4, 16, speed["concurrencyAtLoad"]["typical"]]
    assert speed["curve"][0]["figures"] == speed["oneRequest"]
    assert speed["curve"][-1]["figures"] == speed["atLoad"]


def test_the_load_is_a_point_of_the_curve(run: Run) -> None:
    speed = json.loads(run("plan", *QWEN, "--concurrency", "7", "-o", "json").out)["throughput"]
    assert 7 in [point["concurrency"] for point in speed["curve"]]
    assert speed["load"]["concurrency"] == 7
    text = run("plan", *QWEN, "--concurrency", "7").out
    (marked,) = [line for line in text.splitlines() if line.endswith("planned load")]
    assert marked.split()[0] == "7"


def test_a_load_between_two_numbers_has_a_row_of_its_own(run: Run) -> None:
    text = run("plan", *QWEN, "--concurrency", "5", "--replicas", "2").out
    (marked,) = [line for line in text.splitlines() if line.endswith("planned load")]
    assert marked.split()[0] == "2.5"


def test_an_arrival_rate_decides_how_many_requests_are_in_flight(run: Run) -> None:
    """Little's law: requests in flight are their rate x the time of each."""

    def planned(rate: str) -> tuple[float, float]:
        found = json.loads(run("plan", *QWEN, "--rate", rate, "--replicas", "1", "-o", "json").out)["throughput"]
        load, figures = found["load"], found["atLoad"]
        each = figures["ttftSeconds"]["typical"] + load["outputTokens"] * figures["tpotSeconds"]["typical"]
        assert figures["requestsPerSecond"]["typical"] * each == pytest.approx(load["concurrency"], rel=0.05)
        return load["concurrency"], figures["requestsPerSecond"]["typical"]

    (few, slow), (many, fast) = planned("0.2"), planned("0.6")
    assert few < many
    assert slow == pytest.approx(0.2, rel=0.05)
    assert fast == pytest.approx(0.6, rel=0.05)
