"""Folders of code as ConfigMaps."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.serveconfig.code import MAX_BYTES, read_code


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__SLASH__", "/").replace("__DOT__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_nested_packages_have_keys_that_kubernetes_takes(tmp_path: Path) -> None:
    write(
        tmp_path, app__DOT__py="1", pkg__SLASH____DOT__hidden="no", pkg__SLASH__mod__DOT__py="2", pkg__mod__DOT__py="3"
    )
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "app.pyc").write_bytes(b"\0\xff")
    code = read_code(tmp_path)
    assert {code.paths[key]: text for key, text in code.data.items()} == {
        "app.py": "1",
        "pkg/mod.py": "2",
        "pkg__mod.py": "3",
    }
    assert len(code.data) == 3


def test_the_digest_changes_with_the_files_and_with_nothing_else(tmp_path: Path) -> None:
    before = read_code(write(tmp_path / "a", app__DOT__py="1")).digest
    assert read_code(write(tmp_path / "b", app__DOT__py="1")).digest == before
    assert read_code(write(tmp_path / "b", app__DOT__py="2")).digest != before


def test_what_a_config_map_cannot_hold_is_rejected_with_alternatives(tmp_path: Path) -> None:
    write(tmp_path, app__DOT__py="x" * (MAX_BYTES + 1))
    with pytest.raises(UsageError) as caught:
        read_code(tmp_path)
    assert "too large for a ConfigMap: 1 files, 1,048,577 bytes of at most 1,048,576" in caught.value.message
    assert "--image" in caught.value.hints[0]
    assert "working_dir" in caught.value.hints[1]


def test_folders_that_are_none_or_hold_no_code(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        read_code(tmp_path / "absent")
    with pytest.raises(UsageError, match=r"x\.\.\. cannot be read: File name too long"):
        read_code(tmp_path / ("x" * 300))
    with pytest.raises(UsageError, match="contains no Python file"):
        read_code(write(tmp_path, README__DOT__md="x"))
    (tmp_path / "app.py").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_code(tmp_path)
