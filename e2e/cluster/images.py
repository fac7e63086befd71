"""The images that every node has: the serving image, sandbox, DNS, operator, and a Redis."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e import versions
from e2e.cluster import build, cache, modules, nodeconfig
from e2e.cluster.layout import IMAGE_PREFIX
from e2e.cluster.modules import Module
from e2e.cluster.progress import Progress
from e2e.images import redis, serving
from e2e.images.oci import Image, Layer, write_archive

COREDNS: Final = f"{IMAGE_PREFIX}/coredns:{versions.COREDNS}"
KUBERAY_OPERATOR: Final = f"{IMAGE_PREFIX}/kuberay-operator:v{versions.KUBERAY}"
REDIS: Final = f"{IMAGE_PREFIX}/redis:7"
SERVING: Final = "serving image"

_NOBODY: Final = "65532:65532"


@dataclass(frozen=True)
class Planned:
    """An image that nodes have. `key` tells what it is made from, `module` is the one whose program it holds, if it is
    one of those; `make` makes it, once that has been built."""

    name: str
    key: str
    module: Module | None
    make: Callable[[Progress], Image]


def plan() -> list[Planned]:
    """All images of a node. The programs of redis.NEEDS must be installed."""
    return [
        Planned(SERVING, serving.key(), None, serving.ensure),
        Planned(REDIS, redis.key(REDIS), None, lambda _: redis.ensure(REDIS)),
        _packed(KUBERAY_OPERATOR, modules.KUBERAY, "kuberay-operator", "/manager", user=_NOBODY),
        _packed(nodeconfig.PAUSE_IMAGE, modules.KUBERNETES, "pause", "/pause", user=_NOBODY),
        # Root in its container: port 53 is a privileged one.
        _packed(COREDNS, modules.KUBERNETES, "coredns", "/coredns", user=None),
    ]


def _packed(ref: str, module: Module, name: str, path: str, user: str | None) -> Planned:
    key = f"{name}-{module.key}"

    def make(out: Path) -> None:
        folder = out / "root"
        folder.mkdir()
        os.link(build.program(module, name), folder / path.lstrip("/"))
        write_archive(ref, out / "image.tar", [Layer(folder)], entrypoint=[path], user=user)
        (folder / path.lstrip("/")).unlink()
        folder.rmdir()

    return Planned(ref, key, module, lambda _: Image(ref, cache.ensure("image", key, make) / "image.tar"))
