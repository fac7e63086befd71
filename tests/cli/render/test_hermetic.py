"""`render` depends on what is typed and on the spec alone, and says what else it was told to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rayllm_ctl.cli import app
from tests.catalog.hubserver import COMMIT, CONFIG, Hub, running

MODEL = "Qwen/Qwen3-32B"
RENDER = ("render", "--model", MODEL, "--gpu", "H100-80GB", "--tp", "4")
GATED = ("--model", "meta-llama/Llama-3.3-70B-Instruct", "--gpu", "H100-80GB", "--tp", "4")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running(Hub()) as started:
        monkeypatch.setenv("HF_ENDPOINT", started.address)
        started.add(MODEL, config=CONFIG)
        yield started


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = app.run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def config_in(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))


def test_neither_machine_nor_network_changes_a_byte(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = run(capsys, *RENDER)
    config_in(tmp_path / MODEL)
    cache = tmp_path / "hf" / "hub" / "models--Qwen--Qwen3-32B"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(COMMIT)
    config_in(cache / "snapshots" / COMMIT)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    assert before[0] == 0
    assert run(capsys, *RENDER) == run(capsys, *RENDER, "--offline") == before
    assert "max_model_len: 40960" in before[1]
    assert hub.seen == []


def test_a_price_list_of_this_machine_does_not_choose_the_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    before = run(capsys, "render", "--model", "Qwen/Qwen3-8B")
    (tmp_path / "rayllm-ctl").mkdir()
    prices = tmp_path / "rayllm-ctl" / "prices.yaml"
    prices.write_text("prices: {H100-80GB: 0.01}")
    assert run(capsys, "render", "--model", "Qwen/Qwen3-8B") == before
    named = run(capsys, "render", "--model", "Qwen/Qwen3-8B", "--prices", str(prices))
    assert "nvidia-h100-80gb" in named[1]
    assert "nvidia-h100-80gb" not in before[1]


def test_variables_of_the_environment_are_ignored_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = run(capsys, *RENDER)
    monkeypatch.setenv("RAYLLM_REPLICAS", "3")
    monkeypatch.setenv("RAYLLM_OFFLINE", "1")
    code, out, err = run(capsys, *RENDER)
    assert (code, out) == before[:2]
    assert err == "ignored: RAYLLM_REPLICAS (--replicas 3); render depends on its flags and files alone\n"
    monkeypatch.setenv("RAYLLM_TP", "2")
    assert "TP 2 × PP 1" in run(capsys, "plan", "--model", MODEL, "--gpu", "H100-80GB")[1]


def test_a_configuration_file_does_not_change_a_byte_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = run(capsys, *RENDER)
    config = tmp_path / "config.yaml"
    config.write_text("context: prod\nimage: registry.example/llm:1\ntp: 2\n")
    monkeypatch.setenv("RAYLLM_CONFIG", str(config))
    code, out, err = run(capsys, *RENDER)
    assert (code, out) == before[:2]
    where = f"{config}:2 (--image registry.example/llm:1)"
    assert err == f"ignored: {where}; render depends on its flags and files alone\n"
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(out)
    monkeypatch.setenv("RAYLLM_NAMESPACE", "llm")
    assert run(capsys, "diff", "--local", str(rendered), str(rendered))[0] == 0


def test_what_the_catalog_lacks_is_read_only_if_asked_for_and_its_source_said(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("a/b", config=CONFIG)
    unknown = ("render", "--model", "a/b", "--gpu", "L4")
    code, out, err = run(capsys, *unknown)
    assert (code, out) == (1, "")
    assert "--from-hub" in err
    assert hub.seen == []
    code, out, err = run(capsys, *unknown, "--from-hub")
    assert (code, "max_model_len: 2048" in out) == (0, True)
    assert err == f"the facts of a/b are from hub {hub.address.removeprefix('http://')}, commit {COMMIT[:7]}\n"
    config_in(tmp_path / "mine")
    code, _, err = run(capsys, *unknown, "--model-config", str(tmp_path / "mine"))
    assert (code, err) == (0, f"the facts of a/b are from {tmp_path / 'mine' / 'config.json'}\n")


@pytest.mark.parametrize("command", ["render", "deploy --dry-run=client"])
def test_a_gated_model_without_a_token_is_announced(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *command.split(), *GATED)
    assert (code, "kind: RayService" in out) == (0, True)
    assert "Llama-3.3-70B-Instruct is gated" in err
    assert "--hf-token-secret NAME/KEY" in err
    assert run(capsys, *command.split(), *GATED, "--hf-token-secret", "hf/token")[2] == ""
    assert "is gated" not in run(capsys, *command.split(), *GATED, "--model-path", "/models/llama")[2]


def test_a_hub_that_wants_a_token_is_not_passed_over(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.mode = "gated"
    for model in ("meta-llama/Llama-3.3-70B-Instruct", "a/b"):
        code, out, err = run(capsys, "plan", "--model", model, "--gpu", "H100-80GB", "--from-hub")
        assert (code, out) == (1, "")
        assert f"{model} is gated or private" in err
        assert "--hf-token-secret NAME/KEY" in err


def test_the_plan_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "plan", *GATED, "-o", "json")
    (warning,) = json.loads(out)["warnings"]
    assert "is gated on the Hugging Face Hub" in warning
    _, _, err = run(capsys, "render", "--model", "Qwen/Qwen3-8B", "--gpu", "A100")
    assert err.startswith("GPU A100 is read as A100-80GB")
