"""`batch init`: a file that is planned and rendered as what it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.cli import app
from tests.conftest import Golden

SPECS = sorted((Path(__file__).parents[2] / "render" / "batchspecs").glob("*.yaml"))
SMALL = (
    "batch", "init", "--offline", "Qwen/Qwen3-8B", "--gpu", "L4", "--input", "s3://bucket/news/*.jsonl",
    "--output-path", "s3://bucket/summaries/", "--prompt", "Summarize: {{ text }}",
)  # fmt: skip


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = app.run(list(arguments))
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def test_output(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    golden.check("batch/init.yaml", printed(capsys, *SMALL))


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_what_it_writes_is_rendered_the_same(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(printed(capsys, "batch", "init", "--offline", "-f", str(spec)), encoding="utf-8")
    assert printed(capsys, "render", "--offline", "-f", str(file)) == printed(
        capsys, "render", "--offline", "-f", str(spec)
    )


def test_a_new_file_is_written_and_one_that_exists_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    text = printed(capsys, *SMALL)
    assert app.run([*SMALL, "-o", str(file)]) == 0
    assert capsys.readouterr() == ("", f"{file} written\n")
    assert app.run([*SMALL, "--name", "other", "-o", str(file)]) == 2
    assert f"{file} exists and is not overwritten" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == text


def test_a_job_that_cannot_run_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([*SMALL, "--max-model-len", "1m"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "exceeds the model's maximum of 40,960" in err


def test_a_hint_names_this_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["batch", "init", "Qwen/Qwen3-8B"]) == 2
    assert "hint: rayllm-ctl batch init Qwen/Qwen3-8B --input " in capsys.readouterr().err
