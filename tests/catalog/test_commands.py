"""`models` and `gpus` as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from rayllm_ctl.cli.app import group
from rayllm_ctl.errors import UserError


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def run(name: str, *arguments: str) -> Result:
    result = CliRunner().invoke(group, [name, *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_the_table_of_gpus_fits_80_columns() -> None:
    lines = run("gpus").stdout.splitlines()
    assert len(lines) > 40
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", ["models", "gpus"])
def test_a_table_is_at_most_100_columns_wide(name: str) -> None:
    lines = run(name).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("NAME ")
    assert not any(line.endswith(" ") for line in lines)


def test_models_are_filtered_by_name_and_architecture() -> None:
    names = [line.split()[0] for line in run("models", "QWEN3-VL").stdout.splitlines()[1:]]
    assert "Qwen/Qwen3-VL-8B-Instruct" in names
    assert all("qwen3-vl" in name.lower() for name in names)
    falcon = [line.split()[0] for line in run("models", "falconfor").stdout.splitlines()[1:]]
    assert "tiiuae/falcon-7b" in falcon
    llama = ["llama" in line.split()[0].lower() for line in run("models", "llama").stdout.splitlines()[1:]]
    assert llama == sorted(llama, reverse=True)
    assert {True, False} == set(llama)


def test_one_model() -> None:
    text = run("models", "qwen/qwen3-30b-a3b").stdout
    assert text.startswith("Qwen/Qwen3-30B-A3B  Qwen3MoeForCausalLM\n")
    assert "parameters  30.5B (" in text
    assert "layers      48 full attention" in text
    assert "experts     128, 8 of them per token" in text
    assert "source      ai-dynamo/aiconfigurator@" in text


def test_a_model_with_several_kinds_of_layers() -> None:
    text = run("models", "google/gemma-3-27b-it").stdout
    assert "kind        sliding window, multimodal" in text
    assert "52 attention to the last 1,024, 10 full attention" in text


def test_models_for_machines() -> None:
    listed = json.loads(run("models", "Qwen3-32B", "-o", "json").stdout)
    assert listed["kind"] == "ModelList"
    one = json.loads(run("models", "Qwen/Qwen3-32B", "-o", "json").stdout)
    assert one["summary"]["parameters"] == 32_762_123_264
    assert one["summary"]["contextLength"] == 40960
    assert one["config"]["architectures"] == ["Qwen3ForCausalLM"]
    assert yaml.safe_load(run("models", "Qwen/Qwen3-32B", "-o", "yaml").stdout) == one
    assert [row for row in listed["items"] if row["id"] == "Qwen/Qwen3-32B"] == [one["summary"]]


def test_wide_says_where_from() -> None:
    line = next(line for line in run("models", "phi-4", "-o", "wide").stdout.splitlines() if "microsoft/phi-4 " in line)
    assert "Phi3ForCausalLM" in line
    assert "public hyper-parameters" in line


def test_gpus_are_filtered_by_name_alias_and_architecture() -> None:
    names = [line.split()[0] for line in run("gpus", "hopper").stdout.splitlines()[1:]]
    assert {"H100-80GB", "H200-141GB", "GH200-96GB"} <= set(names)
    assert "A100-80GB" not in names


def test_one_gpu_by_an_alias() -> None:
    text = run("gpus", "h100").stdout
    assert text.startswith("H100-80GB  NVIDIA Hopper, compute capability 9.0\n")
    assert "memory      79.2 GiB, as torch reports it" in text
    assert "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3" in text
    assert "gcp a3-highgpu-8g " in text
    assert re.search(r"\n  USD/h +6\.88  aws\n", text)
    assert re.search(r"\n  prices +built-in, aws: 2026-\d\d-\d\d, aws/karpenter-provider-aws@\w+\n +azure: 2026-", text)


def test_gpus_for_machines() -> None:
    listed = json.loads(run("gpus", "-o", "json").stdout)
    one = json.loads(run("gpus", "L4", "-o", "json").stdout)
    assert {key: value for key, value in one.items() if key not in ("apiVersion", "kind")} in listed["items"]
    assert one["memoryBytes"] == 23_654_532_382
    assert one["computeCapability"] == [8, 9]
    assert yaml.safe_load(run("gpus", "l4", "-o", "yaml").stdout) == one


def test_own_prices_are_used(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("prices: {L4: 0.11}")
    assert "0.11  any" in run("gpus", "L4", "--prices", str(path)).stdout
    assert any(
        line.startswith("L4 ") and line.endswith(" 0.11")
        for line in run("gpus", "--prices", str(path)).stdout.splitlines()
    )


def test_nothing_but_data_on_standard_output() -> None:
    result = run("gpus")
    assert "USD/H" in result.stderr
    assert len(result.stdout.splitlines()) == 1 + len(json.loads(run("gpus", "-o", "json").stdout)["items"])


@pytest.mark.parametrize(("name", "hint"), [("models", "rayllm-ctl models"), ("gpus", "rayllm-ctl gpus")])
def test_what_is_not_there(name: str, hint: str) -> None:
    with pytest.raises(UserError, match="zzzz") as caught:
        run(name, "zzzz")
    assert any(hint in line for line in caught.value.hints)
