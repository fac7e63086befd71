"""A load that has no effect is named by every command that plans, not by `plan` alone."""

from __future__ import annotations

import pytest

from rayllm_ctl.cli import app

MODEL = ("Qwen/Qwen3-0.6B", "--offline", "--image", "x:1", "--engine")


@pytest.mark.parametrize("command", [("render",), ("deploy", "--dry-run=client"), ("plan",)])
@pytest.mark.parametrize("engine", [("vllm", "--accelerator", "cpu"), ("transformers", "--accelerator", "cpu"),
                                    ("transformers", "--gpu", "L4")])  # fmt: skip
@pytest.mark.parametrize("load", [("--rate", "3"), ("--concurrency", "3"), ("--ttft", "1s")])
def test_a_load_that_is_ignored_is_named_once(
    command: tuple[str, ...], engine: tuple[str, ...], load: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run([*command, *MODEL, *engine, *load]) == 0
    out, err = capsys.readouterr()
    assert (out if command == ("plan",) else err).count("the load is ignored") == 1
    assert app.run([*command, *MODEL, *engine]) == 0
    assert "ignored" not in "".join(capsys.readouterr())
