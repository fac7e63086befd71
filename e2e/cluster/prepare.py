"""All that is slow to make the first time: programs and images, side by side."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from e2e.cluster import build, host, images, shell, store
from e2e.cluster.images import Planned
from e2e.cluster.modules import Module
from e2e.cluster.progress import Parts, Progress
from e2e.cluster.state import Options
from e2e.images.oci import Image

_STORE: Final = "image store"
# While one downloads or links, the other compiles. The compiler fills the cores by itself.
_BUILDS_AT_ONCE: Final = 2


def prepare(options: Options, progress: Progress, install: Callable[[], None]) -> Path:
    """Have all programs and images of a cluster of `options`; the template of the nodes' image store.

    `install` is called at once, beside the compiler: it brings what images are made with. When one part fails the rest
    is ended.
    """
    parts = Parts(progress, _missing(options))
    jobs: list[Future[Any]] = []
    with ThreadPoolExecutor(_BUILDS_AT_ONCE) as builders, ThreadPoolExecutor() as packers:
        try:
            built = {module.name: builders.submit(_build, module, parts) for module in build.needed(options)}
            jobs += built.values()
            install()
            planned = images.plan()
            key = store.key(image.key for image in planned)
            template = store.found(key)
            if template is None:
                jobs += [packers.submit(_pack, image, built, parts) for image in planned]
                template = store.make(key, _made(jobs), parts)
                parts.finish(_STORE)
            for job in jobs:
                job.result()
        except BaseException:
            for pool in (builders, packers):
                pool.shutdown(wait=False, cancel_futures=True)
            while not all(job.done() for job in jobs):
                shell.end_running()
                time.sleep(0.1)
            raise
    return template


def _missing(options: Options) -> list[str]:
    """The names of the parts that are still to be made."""
    names = [module.name for module in build.missing(options)]
    if host.missing_packages() or not store.found(store.key(image.key for image in images.plan())):
        names += [images.SERVING, _STORE]
    return names


def _build(module: Module, parts: Parts) -> None:
    build.ensure(module, parts)
    parts.finish(module.name)


def _pack(image: Planned, built: dict[str, Future[None]], parts: Parts) -> Image:
    if image.module:
        built[image.module.name].result()
    made = image.make(parts)
    parts.finish(image.name)
    return made


def _made(jobs: Sequence[Future[Any]]) -> Iterator[Image]:
    """The images among the results of `jobs`, in the order in which they come; what a job raises passes through."""
    for job in concurrent.futures.as_completed(jobs):
        result = job.result()
        if isinstance(result, Image):
            yield result
