"""A hub on this machine with the tiny model, which pods reach, and volumes that pods of all nodes share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.progress import to_stderr
from e2e.harness import Bench, Object
from e2e.images import serving as serving_image
from tests.catalog.hubserver import Hub, running

MODEL = "acme/tiny"
MARKER = ".rayllm-complete"


def tiny_files() -> dict[str, bytes]:
    """The files of the tiny model."""
    folder = serving_image.ensure_model(to_stderr())
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@contextmanager
def serving(address: str) -> Iterator[Hub]:
    """The hub, at an address of this machine."""
    with running(Hub(), address=address) as hub:
        hub.files[MODEL] = tiny_files()
        yield hub


def marker(folder: Path) -> Object:
    """The marker of a complete folder."""
    found: Object = json.loads((folder / MARKER).read_text())
    return found


@contextmanager
def shared_volume(bench: Bench, name: str, folder: Path, mode: str = "ReadWriteMany") -> Iterator[str]:
    """A volume with `folder` of this machine, the same for all nodes; yields the StorageClass by which a claim gets it.

    It outlives its claim, and is deleted at the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    volume = f"{bench.namespace}-{name}"
    spec = {
        "capacity": {"storage": "100Gi"}, "accessModes": [mode], "storageClassName": volume,
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": str(folder), "type": "Directory"},
    }  # fmt: skip
    bench.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec})
    storage = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": volume},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate",
    }  # fmt: skip
    bench.apply(storage)
    try:
        yield volume
    finally:
        bench.kubectl("delete", "pv,storageclass", volume, "--ignore-not-found", "--wait=false")
        shutil.rmtree(folder, ignore_errors=True)
