"""The small images that every node has beside the serving image: sandbox, DNS, operator, and a Redis."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from e2e import versions
from e2e.cluster import build, cache, modules, nodeconfig
from e2e.cluster.layout import IMAGE_PREFIX
from e2e.images import redis
from e2e.images.oci import Image, Layer, write_archive

COREDNS: Final = f"{IMAGE_PREFIX}/coredns:{versions.COREDNS}"
KUBERAY_OPERATOR: Final = f"{IMAGE_PREFIX}/kuberay-operator:v{versions.KUBERAY}"
REDIS: Final = f"{IMAGE_PREFIX}/redis:7"

_NOBODY: Final = "65532:65532"


def make() -> list[Image]:
    """The images, packed from the programs, which must have been built or installed."""
    coredns = build.program(modules.COREDNS, "coredns")
    operator = build.program(modules.KUBERAY, "kuberay-operator")
    return [
        _packed(nodeconfig.PAUSE_IMAGE, build.pause(), "/pause", user=_NOBODY),
        # Root in its container: port 53 is a privileged one.
        _packed(COREDNS, coredns, "/coredns", user=None),
        _packed(KUBERAY_OPERATOR, operator, "/manager", user=_NOBODY),
        redis.ensure(REDIS),
    ]


def _packed(ref: str, program: Path, path: str, user: str | None) -> Image:
    def make(out: Path) -> None:
        folder = out / "root"
        folder.mkdir()
        os.link(program, folder / path.lstrip("/"))
        write_archive(ref, out / "image.tar", [Layer(folder)], entrypoint=[path], user=user)
        (folder / path.lstrip("/")).unlink()
        folder.rmdir()

    # The program's own entry in the cache names its version and recipe.
    return Image(ref, cache.ensure("image", program.parent.name, make) / "image.tar")
