"""The wheel has what the commands need, and works where nothing else of the repository is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rayllm_ctl
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `pip wheel .` builds it, with the backend that is installed."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    [built] = folder.iterdir()
    return built


def test_the_wheel_has_the_files_of_the_package_and_no_others(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "rayllm_ctl"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert names == {name for name in tracked.stdout.splitlines() if (ROOT / name).exists()}


def test_the_wheel_states_which_python_it_needs_and_its_commands(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name.partition(".dist-info/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        metadata = archive.read(inside["METADATA"]).decode()
        commands = archive.read(inside["entry_points.txt"]).decode()
    assert wheel.name == f"rayllm_ctl-{rayllm_ctl.__version__}-py3-none-any.whl"
    assert "\nRequires-Python: <3.15,>=3.11\n" in metadata
    assert "licenses/LICENSE" in inside
    assert {line.partition(" =")[0] for line in commands.splitlines()[1:]} == {
        "rayllm-ctl", "kubectl-rayllm", "kubectl_complete-rayllm",
    }  # fmt: skip


def test_what_the_wheel_installs_plans_and_renders_elsewhere(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
    subprocess.run([*pip, str(tmp_path / "installed"), str(wheel)], capture_output=True, check=True)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed"), "HF_HUB_OFFLINE": "1"}
    code = "import sys, rayllm_ctl.cli.app as app; assert 'installed' in app.__file__; sys.exit(app.run(sys.argv[1:]))"
    for command in ("plan", "render"):
        done = subprocess.run(
            [sys.executable, "-c", code, command, "--model", "Qwen/Qwen3-32B", "--offline"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "Qwen/Qwen3-32B" in done.stdout
