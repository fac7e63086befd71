"""Where the modules of the ingress are, in its processes alone.

All pods mount the code of the models and of Serve's proxies, from a ConfigMap that is named after its content. That of
the ingress is mounted from one whose name never changes, so that no pod has to be replaced for a new gateway. Which
code a process runs stands in a variable of the Serve application's runtime_env: when it changes, Serve replaces the
replicas of the ingress, and nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "RAYLLM_INGRESS_CODE"
"""Its value is the digest of the code; it is not set where the code is in the image."""

MOUNTED: Final = Path("/opt/rayllm/ingress")
"""A folder with a file DIGEST.zip."""

COPIES: Final = Path(tempfile.gettempdir()) / "rayllm-ingress"

WAIT_SECONDS: Final = 150.0
"""The kubelet updates the files of a ConfigMap within a minute and a half (its syncFrequency is a minute)."""

PAUSE_SECONDS: Final = 0.5

logger = logging.getLogger("rayllm.gateway")


def ingress_code(environ: Mapping[str, str], mounted: Path = MOUNTED, copies: Path = COPIES) -> list[str]:
    """The path of this package in the code of the ingress; empty in all other processes. Raises ImportError."""
    digest = environ.get(VARIABLE)
    if not digest:
        return []
    copy = copies / f"{digest}.zip"
    if not copy.exists():
        source = _found(mounted, copy.name)
        copy = copies / source.name
        _copy(source, copy)
    return [str(copy / "rayllm_ctl" / "serving")]


def _found(mounted: Path, name: str) -> Path:
    """The file, once it is there; another one if it does not come.

    After a rollback of the ConfigMap alone a replica runs what there is, which reads the same settings.
    """
    end = time.monotonic() + WAIT_SECONDS
    while not (mounted / name).exists():
        if time.monotonic() > end:
            others = sorted(mounted.glob("*.zip"))
            if not others:
                raise ImportError(
                    f"{mounted / name} does not exist: the ConfigMap NAME-ingress-code is missing, or has other code; "
                    "run rayllm-ctl deploy, or apply its manifests again"
                )
            logger.warning("%s does not exist; %s is used", mounted / name, others[-1])
            return others[-1]
        time.sleep(PAUSE_SECONDS)
    return mounted / name


def _copy(source: Path, target: Path) -> None:
    """The kubelet removes the file when the ConfigMap changes, while processes still import from it.

    A copy that another process of the pod has made meanwhile stays: equal code may be other bytes, and that process has
    read where in the file each module is.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent)
    os.close(descriptor)
    shutil.copyfile(source, name)
    with contextlib.suppress(FileExistsError):
        target.hardlink_to(name)
    Path(name).unlink()
