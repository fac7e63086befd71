"""Write OCI image archives from directories, without a container engine and without root.

Equal input gives equal bytes: entries are sorted, timestamps are zero and user names are dropped, so the digest of an
image names its content. Layers are uncompressed because the archive is imported on the machine that wrote it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BLOCK = tarfile.BLOCKSIZE


@dataclass(frozen=True, slots=True)
class Image:
    """An image as an OCI archive on disk: its fully qualified reference and the archive's path."""

    ref: str
    archive: Path


@dataclass(frozen=True, slots=True)
class Layer:
    """A directory that becomes one layer, placed under `prefix` in the image.

    With a prefix every entry belongs to root; without one the owners on disk are kept, as a root file system needs.
    """

    path: Path
    prefix: str = ""


def write_archive(
    ref: str,
    out: Path,
    layers: Sequence[Layer],
    *,
    entrypoint: Sequence[str] | None = None,
    cmd: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    workdir: str = "/",
) -> Image:
    """Write an OCI archive that containerd imports under `ref`.

    `ref` is fully qualified (registry/name:tag); it is recorded as the index annotation `io.containerd.image.name`.
    Layers are stacked in the given order. `env` is added to a default PATH, which it may override.

    Raises ValueError for a reference without registry or tag, FileNotFoundError for a layer that does not exist.
    """
    _check_reference(ref)
    for layer in layers:
        if not layer.path.is_dir():
            raise FileNotFoundError(f"image layer is not a directory: {layer.path}")
    with out.open("wb") as archive:
        blobs = [_append_layer(archive, layer) for layer in layers]
        config: dict[str, Any] = {
            "Env": [f"{name}={value}" for name, value in ({"PATH": DEFAULT_PATH} | dict(env or {})).items()],
            "WorkingDir": workdir,
        }
        if entrypoint:
            config["Entrypoint"] = list(entrypoint)
        if cmd:
            config["Cmd"] = list(cmd)
        if user:
            config["User"] = user
        _append_metadata(archive, ref, config, blobs)
        archive.write(b"\0" * (2 * _BLOCK))
    return Image(ref, out)


def manifest_digest(archive: Path) -> str:
    """Return the manifest digest (`sha256:...`) that identifies the image in an archive written here."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile("index.json")
        assert member is not None
        index: dict[str, Any] = json.load(member)
    return str(index["manifests"][0]["digest"])


def _check_reference(ref: str) -> None:
    registry, slash, rest = ref.partition("/")
    if not slash or not ({".", ":"} & set(registry)) or ":" not in rest:
        raise ValueError(f"image reference must be registry/name:tag, got {ref!r}")


class _HashingWriter(io.RawIOBase):
    """Passes bytes on to a file and keeps their SHA-256 and count."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._hash = hashlib.sha256()
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._target.write(data)
        self._hash.update(data)
        self.count += len(data)
        return len(data)

    def digest(self) -> str:
        return self._hash.hexdigest()


def _append_layer(archive: IO[bytes], layer: Layer) -> tuple[str, int]:
    """Stream one layer into the archive and return its digest and size.

    A blob's tar header holds its digest and size, known only at its end. The header is left blank and filled in
    afterwards, so that a layer of several gigabytes is read and written only once.
    """
    header_at = archive.tell()
    archive.write(b"\0" * _BLOCK)
    writer = _HashingWriter(archive)
    with tarfile.open(fileobj=writer, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for info, source in _entries(tar, layer):
            if info.isreg():
                with source.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
    end = archive.tell()
    archive.seek(header_at)
    archive.write(_header(f"blobs/sha256/{writer.digest()}", writer.count))
    archive.seek(end)
    archive.write(b"\0" * (-writer.count % _BLOCK))
    return writer.digest(), writer.count


def _entries(tar: tarfile.TarFile, layer: Layer) -> Iterator[tuple[tarfile.TarInfo, Path]]:
    prefix = layer.prefix.strip("/")
    for parent in reversed(PurePosixPath(prefix).parents if prefix else []):
        if parent.name:
            info = tarfile.TarInfo(str(parent))
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            yield info, layer.path
    for source in _walk(layer.path):
        relative = source.relative_to(layer.path).as_posix()
        name = "/".join(part for part in (prefix, relative) if part and part != ".")
        if not name:
            continue
        # Sockets have no form in a tar archive; gettarinfo answers None for them.
        found: tarfile.TarInfo | None = tar.gettarinfo(str(source), arcname=name)
        if found is None:
            continue
        found.mtime = 0
        found.uname = found.gname = ""
        if prefix:
            found.uid = found.gid = 0
        yield found, source


def _walk(directory: Path) -> Iterator[Path]:
    """Yield a directory and all below it, parents first, in the byte order of names, links not followed."""
    yield directory
    with os.scandir(directory) as entries:
        children = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for child in children:
        if child.is_dir(follow_symlinks=False):
            yield from _walk(Path(child.path))
        else:
            yield Path(child.path)


def _append_metadata(
    archive: IO[bytes], ref: str, config: Mapping[str, Any], layers: Sequence[tuple[str, int]]
) -> None:
    platform = {"architecture": "amd64", "os": "linux"}
    image_config = {
        **platform,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest, _ in layers]},
        "history": [{"created_by": "rayllm-ctl e2e"} for _ in layers],
    }
    config_descriptor = _append_blob(archive, "application/vnd.oci.image.config.v1+json", image_config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_descriptor,
        "layers": [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": f"sha256:{digest}", "size": size}
            for digest, size in layers
        ],
    }
    manifest_descriptor = _append_blob(archive, str(manifest["mediaType"]), manifest)
    annotations = {
        "io.containerd.image.name": ref,
        "org.opencontainers.image.ref.name": ref.rpartition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "manifests": [{**manifest_descriptor, "annotations": annotations, "platform": platform}],
    }
    _append_file(archive, "index.json", _canonical(index))
    _append_file(archive, "oci-layout", _canonical({"imageLayoutVersion": "1.0.0"}))


def _append_blob(archive: IO[bytes], media_type: str, content: Mapping[str, Any]) -> dict[str, Any]:
    data = _canonical(content)
    digest = hashlib.sha256(data).hexdigest()
    _append_file(archive, f"blobs/sha256/{digest}", data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _append_file(archive: IO[bytes], name: str, data: bytes) -> None:
    archive.write(_header(name, len(data)))
    archive.write(data)
    archive.write(b"\0" * (-len(data) % _BLOCK))


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    # GNU format keeps sizes over 8 GiB inside the one header block; PAX would need a second.
    return info.tobuf(format=tarfile.GNU_FORMAT)


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
