"""Folders of manifests: whole or not at all, and nobody else's files are touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.workflows.outputdir import MARK, texts, write
from tests.render.test_specs import SPECS


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def actions(folder: Path, services: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {str(written.path.relative_to(folder)): written.action for written in write(folder, services)}


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_file_per_object_and_a_kustomization_that_lists_them(tmp_path: Path) -> None:
    found = actions(tmp_path, {"a": texts([config_map("x"), config_map("y")])})
    assert found == dict.fromkeys(("a/configmap-x.yaml", "a/configmap-y.yaml", "a/kustomization.yaml"), "created")
    kustomization = yaml.safe_load((tmp_path / "a" / "kustomization.yaml").read_text())
    assert kustomization["resources"] == ["configmap-x.yaml", "configmap-y.yaml"]
    assert yaml.safe_load((tmp_path / "a" / "configmap-x.yaml").read_text()) == config_map("x")


def test_the_next_rendering_changes_only_what_differs_and_removes_its_own_files(tmp_path: Path) -> None:
    actions(tmp_path, {"a": texts([config_map("x"), config_map("y")])})
    (tmp_path / "a" / "mine.yaml").write_text("kind: Mine\n")
    (tmp_path / "a" / "notes.txt").write_text(MARK)
    before = (tmp_path / "a" / "configmap-x.yaml").stat().st_mtime_ns
    found = actions(tmp_path, {"a": texts([config_map("x"), config_map("z")])})
    assert found == {
        "a/configmap-x.yaml": "unchanged", "a/configmap-z.yaml": "created", "a/kustomization.yaml": "configured",
        "a/configmap-y.yaml": "removed",
    }  # fmt: skip
    assert (tmp_path / "a" / "configmap-x.yaml").stat().st_mtime_ns == before
    assert {"a/mine.yaml", "a/notes.txt"} <= set(content(tmp_path))


def test_a_file_of_somebody_else_is_not_overwritten_and_nothing_else_is_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kustomization.yaml").write_text("resources: []\n")
    with pytest.raises(UsageError, match=r"a/kustomization\.yaml was not written by rayllm-ctl"):
        actions(tmp_path, {"b": texts([config_map("x")]), "a": texts([config_map("x")])})
    assert content(tmp_path) == {"a/kustomization.yaml": "resources: []\n"}


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actions(tmp_path, {"a": texts([config_map("x", k="old"), config_map("y", k="old")])})
    before, original = content(tmp_path), Path.write_text

    def full(self: Path, text: str, **more: str) -> int:
        if "configmap-y" in self.name:
            raise OSError(28, "No space left on device", str(self))
        return original(self, text, **more)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UserError, match="No space left on device"):
        actions(tmp_path, {"a": texts([config_map("x", k="new"), config_map("y", k="new")])})
    assert content(tmp_path) == before


def render(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = app.run(["render", "--offline", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_files_hold_the_objects_that_render_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = {yaml.safe_load(spec.read_text())["metadata"]["name"]: spec for spec in SPECS}
    files = [argument for spec in named.values() for argument in ("-f", str(spec))]
    assert render(capsys, *files, "--output-dir", str(tmp_path))[0] == 0
    printed = list(yaml.safe_load_all(render(capsys, *files)[1]))
    written = [
        yaml.safe_load((path.parent / name).read_text())
        for path in tmp_path.rglob("kustomization.yaml")
        for name in yaml.safe_load(path.read_text())["resources"]
    ]
    assert len(written) == len(printed)
    assert all(item in printed for item in written)
    again = render(capsys, *files, "--output-dir", str(tmp_path))[1]
    assert {line.rsplit(" ", 1)[1] for line in again.splitlines()} == {"unchanged"}


def test_a_rejected_spec_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(SPECS[0].read_text().replace("kind: LLMService", "kind: LLMServices"))
    code, out, _ = render(capsys, "-f", str(SPECS[0]), "-f", str(bad), "--output-dir", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert not (tmp_path / "out").exists()


def test_two_services_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = render(capsys, "-f", str(SPECS[0]), "-f", str(SPECS[0]), "--output-dir", str(tmp_path))
    assert code == 2
    assert "two spec files describe service" in err
    assert list(tmp_path.iterdir()) == []


def test_output_formats_are_for_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = render(capsys, "-f", str(SPECS[0]), "-o", "json", "--output-dir", str(tmp_path))
    assert code == 2
    assert "--output-dir writes YAML files" in err
