"""The image store of the nodes: every image imported once, and shared by all nodes of all later clusters.

A throw-away containerd imports the images into a template in the cache. A node's store has copies of the template's two
databases, links to its small blobs, and read-only bind mounts of its unpacked layers, made inside the node's mount
namespace: so a node starts without copying an image, and cannot change what it shares.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import tarfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from e2e.cluster import cache, cgroups, nodeconfig, processes
from e2e.cluster.errors import RigError
from e2e.cluster.layout import IMPORT_CGROUP
from e2e.cluster.progress import Progress
from e2e.cluster.shell import run
from e2e.images.oci import Image

_KIND: Final = "store"
_SECONDS: Final = 60.0
_TEMPLATES_KEPT: Final = 2
_BLOBS: Final = "io.containerd.content.v1.content/blobs/sha256"
_SNAPSHOTS: Final = "io.containerd.snapshotter.v1.overlayfs/snapshots"
_DATABASES: Final = (
    "io.containerd.metadata.v1.bolt/meta.db",
    "io.containerd.snapshotter.v1.overlayfs/metadata.db",
)


def key(keys: Iterable[str]) -> str:
    """The key of the template of the images with these keys."""
    return hashlib.sha256(json.dumps(sorted(keys)).encode()).hexdigest()[:16]


def found(template_key: str) -> Path | None:
    """The template of that key, if the cache has it."""
    made = cache.entry(_KIND, template_key)
    if not made.is_dir():
        return None
    os.utime(made)
    return made


def make(template_key: str, images: Iterable[Image], progress: Progress) -> Path:
    """The template of that key, which holds `images`: each is imported when it comes, and the next one waited for."""
    return cache.ensure(_KIND, template_key, lambda out: _import(images, out, progress))


def remove_unused() -> None:
    """Remove all templates but the two that were used last: each holds all images. No cluster may be up."""
    directory = cache.root() / _KIND
    if directory.exists():
        templates = [path for path in directory.iterdir() if not path.name.startswith(".")]
        for path in sorted(templates, key=lambda path: path.stat().st_mtime)[:-_TEMPLATES_KEPT]:
            shutil.rmtree(path)


def link(template_root: Path, root: Path) -> list[tuple[Path, Path]]:
    """Make the store `root` from the template; the bind mounts (source, target) it needs before containerd starts."""
    for name in _DATABASES:
        (root / name).parent.mkdir(parents=True)
        shutil.copyfile(template_root / name, root / name)
        (root / name).chmod(0o600)
    (root / _BLOBS).mkdir(parents=True)
    for blob in (template_root / _BLOBS).iterdir():
        os.link(blob, root / _BLOBS / blob.name)
    mounts = []
    for snapshot in (template_root / _SNAPSHOTS).iterdir():
        target = root / _SNAPSHOTS / snapshot.name
        (target / "fs").mkdir(parents=True)
        (target / "work").mkdir()
        mounts.append((snapshot / "fs", target / "fs"))
    return mounts


def _import(images: Iterable[Image], out: Path, progress: Progress) -> None:
    socket, config, log = out / "s", out / "config.toml", out / "log"
    config.write_text(nodeconfig.containerd(out, str(out / "state"), socket, Path("/nowhere"), Path("/nowhere")))
    cgroups.create(IMPORT_CGROUP)
    # In namespaces of its own, so that its temporary mounts end with it.
    holder = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    process = processes.start(
        "containerd (import)", [*holder, "containerd", "--config", str(config)], log, group=IMPORT_CGROUP
    )
    try:
        processes.wait(lambda: _answers(socket), "containerd", _SECONDS, [process])
        for image in images:
            start = time.monotonic()
            layers = _layers(image)
            run([*_ctr(socket), "images", "import", image.archive])
            run([*_ctr(socket), "content", "rm", *layers])
            _remove_layer_files(layers, out)
            progress(f"imported {image.ref} in {time.monotonic() - start:.0f} s")
        _stop(process)
    finally:
        cgroups.kill_all(IMPORT_CGROUP)
        cgroups.remove(IMPORT_CGROUP)
    for leftover in (socket, out / "s.ttrpc", config, log):
        leftover.unlink(missing_ok=True)
    shutil.rmtree(out / "state", ignore_errors=True)


def _remove_layer_files(layers: Sequence[str], out: Path) -> None:
    """Remove the packed layers, half of the disk that the store would take: once unpacked, nothing reads them again.

    containerd has been told to forget them, but it removes files only when it collects garbage, now and then.
    """
    for digest in layers:
        (out / _BLOBS / digest.partition(":")[2]).unlink(missing_ok=True)


def _stop(process: processes.Process) -> None:
    """Let containerd close its databases."""
    for pid in cgroups.processes(IMPORT_CGROUP) - {process.pid}:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _SECONDS
    while process.alive:
        if time.monotonic() > deadline:
            raise RigError("the containerd that imports images does not end", "try again")
        time.sleep(0.05)


def _answers(socket: Path) -> bool:
    if not socket.exists():
        return False
    try:
        run([*_ctr(socket), "version"])
    except RigError:
        return False
    return True


def _ctr(socket: Path) -> list[str]:
    return ["ctr", "-a", str(socket), "-n", "k8s.io"]


def _layers(image: Image) -> list[str]:
    """The digests of an image's layers."""
    return [layer["digest"] for layer in _manifest(image.archive)["layers"]]


def _manifest(archive: Path) -> dict[str, list[dict[str, str]]]:
    with tarfile.open(archive) as tar:

        def read(name: str) -> dict[str, list[dict[str, str]]]:
            file = tar.extractfile(name)
            if file is None:
                raise RigError(f"{archive} has no {name}: it is no OCI archive")
            content: dict[str, list[dict[str, str]]] = json.load(file)
            return content

        digest = read("index.json")["manifests"][0]["digest"]
        return read(f"blobs/{digest.replace(':', '/')}")
