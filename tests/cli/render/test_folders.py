"""render --output-dir: what is written, replaced, removed, and left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rayllm_ctl.cli import app

SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: @NAME@}
spec:
  model: {id: tiny, path: /models/tiny}
  engine: {image: example.com/vllm-cpu:1, maxModelLen: 1024, env: {A: "$(HOSTNAME) ünï"}}
  accelerator: {kind: cpu}
"""
EXPOSED = SPEC + "  exposure: {ingress: {host: tiny.example.com}}\n"


def write(tmp_path: Path, *specs: str) -> int:
    arguments = ["render", "--offline", "--output-dir", str(tmp_path / "out")]
    for number, text in enumerate(specs):
        (tmp_path / f"{number}.yaml").write_text(text, encoding="utf-8")
        arguments += ["-f", str(tmp_path / f"{number}.yaml")]
    return app.run(arguments)


def contents(tmp_path: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(tmp_path / "out")): path.read_bytes()
        for path in sorted((tmp_path / "out").rglob("*"))
        if path.is_file()
    }


def test_a_folder_per_service_with_what_stdout_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = EXPOSED.replace("@NAME@", "a"), SPEC.replace("@NAME@", "b")
    assert write(tmp_path, first, second) == 0
    assert capsys.readouterr().out == ""
    found = contents(tmp_path)
    assert list(found) == [
        "a/ingress-a.yaml", "a/kustomization.yaml", "a/rayservice-a.yaml", "b/kustomization.yaml", "b/rayservice-b.yaml"
    ]  # fmt: skip
    assert yaml.safe_load(found["a/kustomization.yaml"])["resources"] == ["ingress-a.yaml", "rayservice-a.yaml"]
    assert "$(HOSTNAME) ünï".encode() in found["b/rayservice-b.yaml"]
    assert app.run(["render", "--offline", "-f", str(tmp_path / "0.yaml"), "-f", str(tmp_path / "1.yaml")]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == [
        yaml.safe_load(found[name]) for name in ("a/rayservice-a.yaml", "a/ingress-a.yaml", "b/rayservice-b.yaml")
    ]


def test_a_folder_without_changes_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(tmp_path, SPEC.replace("@NAME@", "a")) == 0
    capsys.readouterr()
    assert write(tmp_path, SPEC.replace("@NAME@", "a"), SPEC.replace("@NAME@", "b")) == 0
    lines = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'out/a'} unchanged" in lines
    assert f"{tmp_path / 'out/b'} unchanged" not in lines


def test_stale_files_of_ours_are_removed_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(tmp_path, EXPOSED.replace("@NAME@", "a")) == 0
    (tmp_path / "out/a/README.md").write_text("mine")
    (tmp_path / "out/a/patch.yaml").write_text("mine: 1\n")
    capsys.readouterr()
    assert write(tmp_path, SPEC.replace("@NAME@", "a")) == 0
    said, *lines = capsys.readouterr().err.splitlines()
    assert said.startswith("what example.com/vllm-cpu:1 contains is not known")
    written = [line.rpartition("/")[2] for line in lines]
    assert written == ["rayservice-a.yaml written", "kustomization.yaml written", "ingress-a.yaml removed"]
    assert set(contents(tmp_path)) == {"a/README.md", "a/patch.yaml", "a/kustomization.yaml", "a/rayservice-a.yaml"}


def test_nothing_is_written_if_a_file_of_others_is_in_the_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out/b").mkdir(parents=True)
    (tmp_path / "out/b/kustomization.yaml").write_text("resources: []\n")
    before = contents(tmp_path)
    assert write(tmp_path, SPEC.replace("@NAME@", "a"), SPEC.replace("@NAME@", "b")) == 2
    assert "kustomization.yaml exists and was not written by rayllm-ctl" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_nothing_is_written_after_a_rejection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(tmp_path, SPEC.replace("@NAME@", "a"), SPEC.replace("@NAME@", "b").replace("1024", "-1")) == 2
    assert "maxModelLen" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_two_services_of_one_name_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(tmp_path, SPEC.replace("@NAME@", "a"), EXPOSED.replace("@NAME@", "a")) == 2
    assert "two services or jobs are named a" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write(tmp_path, SPEC.replace("@NAME@", "a")) == 0
    before = contents(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "out/a/rayservice-a.yaml")

    monkeypatch.setattr(Path, "replace", full)
    assert write(tmp_path, SPEC.replace("@NAME@", "a").replace("1024", "512")) == 1
    assert contents(tmp_path) == before


def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = SPEC.replace("@NAME@", "a"), SPEC.replace("@NAME@", "b")
    assert write(tmp_path, first, second) == 0
    before, original = contents(tmp_path), Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if "rayservice-b" in self.name:
            raise OSError(28, "No space left on device", str(self))
        return original(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert write(tmp_path, first.replace("1024", "512"), second.replace("1024", "512")) == 1
    assert "cannot be written: no space left on device" in capsys.readouterr().err
    assert contents(tmp_path) == before
