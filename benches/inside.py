"""Runs a script of benches/ beside Ray, in the root file system of the serving image, without a network."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster.progress import to_stderr
from e2e.images import rootfs, serving

ROOT = Path(__file__).parents[1]


def run(
    files: Sequence[str | Path], argument: str, environment: Mapping[str, str], packages: Path | None = None
) -> int:
    """The exit code of the first file, a script, with its lines that begin with "bench: " on standard output.

    Beside it are the other files (those without a folder are of benches/), rayllm_ctl.serving and .loadtest, the
    stand-in for engines, and the tiny model in `tiny`. packages: a folder of further Python packages.
    """
    base, model = serving.ensure_base(to_stderr()), serving.ensure_model(to_stderr())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if packages is not None:
            shutil.copytree(packages, folder, dirs_exist_ok=True)
        shutil.copytree(model, folder / "tiny")
        shutil.copytree(ROOT / "e2e/images/engine/rayllm_standin", folder / "rayllm_standin")
        for package in ("serving", "loadtest"):
            shutil.copytree(ROOT / "rayllm_ctl" / package, folder / "rayllm_ctl" / package)
        (folder / "rayllm_ctl/__init__.py").touch()
        serving.name_vllm(folder)
        for file in files:
            shutil.copy(ROOT / "benches" / file, folder)
        command = ["python3", f"/mnt/{files[0]}", argument]
        inside = rootfs.start_inside(
            base, command, mnt=folder, env={**serving.ENV, "PYTHONPATH": "/mnt", **environment}
        )
        assert inside.stdout is not None
        for line in inside.stdout:
            # Ray's own lines go elsewhere.
            measured = line.startswith("bench: ")
            (sys.stdout if measured else sys.stderr).write(line.removeprefix("bench: "))
        return inside.wait()
