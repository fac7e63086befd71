"""The krew manifest, checked as krew does (internal/index/validation/validate.go), and the archives that it names."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl import __version__
from scripts import krew

HOMEPAGE = "https://git.example/rayllm-ctl"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    (tmp_path / f"rayllm_ctl-{__version__}-py3-none-any.whl").write_bytes(b"wheel")
    return tmp_path


def wheels(wheel: Path, platforms: tuple[str, ...], python: str, folder: Path) -> None:
    shutil.copy(wheel, folder)
    (folder / f"native-1-cp{python.replace('.', '')}-{platforms[0]}.whl").write_bytes(platforms[0].encode())


def test_the_manifest_is_one_that_krew_accepts(dist: Path) -> None:
    *archives, path = krew.write(dist, HOMEPAGE, wheels)
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    assert path.name == f"{found['metadata']['name']}.yaml" == "rayllm.yaml"
    assert (found["apiVersion"], found["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    spec = found["spec"]
    assert spec["version"] == f"v{__version__}"
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-[\w.]+)?(\+[\w.]+)?", spec["version"])
    assert "\n" not in spec["shortDescription"]
    assert len(spec["shortDescription"]) <= 50
    assert spec["description"]
    assert spec["homepage"] == HOMEPAGE
    assert len(spec["platforms"]) == len(archives) == len(krew.PLATFORMS)
    for platform, archive in zip(spec["platforms"], archives, strict=True):
        assert platform["selector"]["matchLabels"].keys() == {"os", "arch"}
        assert platform["uri"] == f"{HOMEPAGE}/releases/download/v{__version__}/{archive.name}"
        assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        assert platform.keys() == {"selector", "uri", "sha256", "bin"}
        with tarfile.open(archive) as tar:
            names = set(tar.getnames())
            assert tar.getmember(platform["bin"]).mode == 0o755
            assert tar.getmember("kubectl_complete-rayllm").linkname == platform["bin"]
        assert {"LICENSE", f"wheels/rayllm_ctl-{__version__}-py3-none-any.whl"} <= names
        assert sum(name.startswith("wheels/native-") for name in names) == len(krew.PYTHONS)


def test_archives_are_the_same_bytes_each_time(dist: Path) -> None:
    first = [path.read_bytes() for path in krew.write(dist, HOMEPAGE, wheels)]
    assert [path.read_bytes() for path in krew.write(dist, HOMEPAGE, wheels)] == first


def test_the_plugin_runs_from_where_krew_links_it(tmp_path: Path) -> None:
    """With an environment as the first run makes it, and none for completion before that."""
    store, bin_folder = tmp_path / "store", tmp_path / "bin"
    for folder in (store, bin_folder):
        folder.mkdir()
    shutil.copy(krew.PLUGIN, store)
    (bin_folder / "kubectl-rayllm").symlink_to(store / "kubectl-rayllm")
    (store / "kubectl_complete-rayllm").symlink_to("kubectl-rayllm")
    (bin_folder / "kubectl_complete-rayllm").symlink_to(store / "kubectl_complete-rayllm")

    def run(name: str) -> str:
        done = subprocess.run([bin_folder / name, "a b"], capture_output=True, text=True, check=True)
        return done.stdout

    assert run("kubectl_complete-rayllm") == ""
    programs = store / "environment" / "bin"
    programs.mkdir(parents=True)
    for name in ("kubectl-rayllm", "kubectl_complete-rayllm"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $# $1"\n')
        (programs / name).chmod(0o755)
    (store / "environment" / "complete").touch()
    assert run("kubectl-rayllm") == "kubectl-rayllm 1 a b\n"
    assert run("kubectl_complete-rayllm") == "kubectl_complete-rayllm 1 a b\n"


def test_the_supported_versions_of_python_are_those_of_the_package() -> None:
    package = (krew.ROOT / "pyproject.toml").read_text()
    assert tuple(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', package)) == krew.PYTHONS
