"""`init`: a file that is planned and rendered as what it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.cli import app
from rayllm_ctl.cli.options import RESULT_FORMATS, TABLE_FORMATS
from rayllm_ctl.specfile import load_file
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


SMALL = ("init", "--offline", "Qwen/Qwen3-8B", "--gpu", "L4")


def test_a_new_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "qwen.yaml"
    text = printed(capsys, *SMALL)
    assert app.run([*SMALL, "-o", str(file)]) == 0
    assert capsys.readouterr() == ("", f"{file} written\n")
    assert file.read_text(encoding="utf-8") == text


def test_a_dash_is_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert printed(capsys, *SMALL, "-o", "-") == printed(capsys, *SMALL)
    assert app.run(["bundle", "qwen", "-o", "-"]) == 2
    assert '"-" is standard output' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [SMALL, ("bundle", "qwen"), ("bench", "report", "result.json")])
@pytest.mark.parametrize("form", [*RESULT_FORMATS, *TABLE_FORMATS, "diff", "markdown"])
def test_a_format_is_not_a_path(
    words: tuple[str, ...],
    form: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("result.json").write_text("{}", encoding="utf-8")
    assert app.run([*words, "-o", form]) == 2
    assert f"hint: -o ./{form}    # a file of this name" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["result.json"]
    assert app.run([*SMALL, "-o", "./json"]) == 0
    assert Path("json").is_file()


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [("mine.yaml", 2, "exists and is not overwritten"), ("none/new.yaml", 1, "cannot be written: no such file")],
)
def test_a_file_that_exists_is_kept(
    name: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text("mine", encoding="utf-8")
    assert app.run([*SMALL, "-o", str(tmp_path / name)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{tmp_path / name} {message}" in err
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {"mine.yaml": "mine"}


GATEWAY = (*SMALL, "--gateway")


def test_keys_and_limits_of_a_gateway_can_be_uncommented(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, *GATEWAY)
    each = [
        ("    # keys: {}\n",),
        ("    # limits:\n    #   perAddress:\n    #     requests: '60/minute'\n    #     tokens: '100000/hour'\n",),
    ]
    for blocks in (*each, (*each[0], *each[1])):
        changed = text
        for block in blocks:
            assert block in text
            changed = changed.replace(block, block.replace("# ", ""))
        file = tmp_path / "spec.yaml"
        file.write_text(changed, encoding="utf-8")
        gateway = load_file(file).gateway
        assert gateway is not None
        assert (gateway.keys is not None, gateway.limits is not None) == (each[0][0] in blocks, each[1][0] in blocks)
        printed(capsys, "render", "--offline", "-f", str(file))


def test_what_is_given_of_a_gateway_is_no_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(printed(capsys, *GATEWAY).replace("# keys: {}", "keys: {}"), encoding="utf-8")
    text = printed(capsys, "init", "--offline", "-f", str(file))
    assert "    keys: {}\n" in text
    assert "# keys" not in text
    assert "    # limits:\n" in text


def test_what_does_not_fit_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    code = app.run(["init", "--offline", "--model", "Qwen/Qwen3-32B", "--gpu", "T4", "--tp", "1"])
    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert "leave no memory for a KV cache\nnothing was written\n" in err
