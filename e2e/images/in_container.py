"""Lay out the serving image inside a container build: `python3 -m e2e.images.in_container DIRECTORY`.

The Containerfile beside this file runs it in Debian's Python, with gcc and binutils. A container build may neither
mount nor unshare, so nothing here enters another root file system: everything is laid out in DIRECTORY, from which the
Containerfile copies it over the base image.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from e2e.cluster.progress import Progress, to_stderr
from e2e.cluster.shell import run
from e2e.images import gateway, packages, serving


def lay_out(root: Path, work: Path, progress: Progress) -> None:
    """Fill `root` (absent) with all that the serving image has above Debian; `work` is a directory for the model.

    Raises RigError where a step fails.
    """
    packages.install(root, progress)
    site = root / packages.SITE_PACKAGES
    progress("serving image: training the tiny model")
    model = work / "tiny"
    said = run([sys.executable, serving.MODEL_SCRIPT, model], env={**os.environ, "PYTHONPATH": str(site)})
    progress(f"serving image: tiny model: {said.strip().splitlines()[-1]}")
    serving.lay_out_top(root, model, passwd=Path("/etc/passwd").read_text())
    gateway.install(site)
    progress("serving image: compiling Python files")
    run([*packages.COMPILE, "-s", root, "-p", "/", site])


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    lay_out(directory, directory.parent, to_stderr())
