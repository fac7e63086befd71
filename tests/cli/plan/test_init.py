"""`init`: a file that is planned and rendered as what it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.cli import app
from tests.conftest import Golden
from tests.render.test_specs import SPECS


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = app.run(list(arguments))
    assert code == 0
    return capsys.readouterr().out


def test_output(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    golden.check("init.yaml", printed(capsys, "init", "--offline", "--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB"))


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_what_it_writes_is_rendered_the_same(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(printed(capsys, "init", "--offline", "-f", str(spec)), encoding="utf-8")
    made = printed(capsys, "render", "--offline", "-f", str(file))
    assert made == printed(capsys, "render", "--offline", "-f", str(spec))
    assert printed(capsys, "init", "--offline", "-f", str(file)).replace(" Planned.", "") == file.read_text(
        encoding="utf-8"
    ).replace(" Planned.", "")


def test_what_does_not_fit_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    code = app.run(["init", "--offline", "--model", "Qwen/Qwen3-32B", "--gpu", "T4", "--tp", "1"])
    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert "leave no memory for a KV cache\nnothing was written\n" in err
