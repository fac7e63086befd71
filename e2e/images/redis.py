"""The image of a Redis, for services that keep state outside of their Ray cluster: Debian's server, client, libraries,
and the shell in which a managed Redis of a gateway starts.

It runs `redis-server` with the arguments of the pod, as a user without a name, and writes only into /data.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Final

from e2e.cluster import cache
from e2e.cluster.errors import RigError
from e2e.cluster.shell import run
from e2e.images.oci import Image, Layer, write_archive

# Debian's package redis-server would start one on this machine. The program itself is in redis-tools, under the name of
# one of the tools: it does what the name says by which it is called.
_SERVER: Final = "redis-check-rdb"
_CLIENT: Final = "redis-cli"

NEEDS: Final = {_SERVER: "redis-tools", _CLIENT: "redis-tools", "dash": "dash", "sed": "sed"}

# "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x...)", and the loader without a name; the kernel's has no path.
_LIBRARY: Final = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def ensure(ref: str) -> Image:
    """The image under `ref`, made if it is not in the cache; RigError where a program of NEEDS is missing."""
    programs = _programs()

    def make(out: Path) -> None:
        root = out / "root"
        needed = {name for program in programs.values() for name in libraries(run(["ldd", program]))}
        for place, source in (programs | {name: Path(name) for name in needed}).items():
            target = root / place.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755)
        (root / "data").mkdir()
        write_archive(
            ref, out / "image.tar", [Layer(root)],
            entrypoint=["/usr/bin/redis-server"], user="65532:65532", workdir="/data",
        )  # fmt: skip
        shutil.rmtree(root)

    return Image(ref, cache.ensure("image", key(ref), make) / "image.tar")


def key(ref: str) -> str:
    """The key of the image in the cache, from the programs of NEEDS; RigError where one is missing."""
    digest = hashlib.sha256(ref.encode())
    for file in (*_programs().values(), Path(__file__)):
        digest.update(file.read_bytes())
    return f"redis-{digest.hexdigest()[:12]}"


def _programs() -> dict[str, Path]:
    """Where each program lies in the image, and on this machine."""
    places = {"redis-server": _SERVER, "redis-cli": _CLIENT, "sed": "sed"}
    return {f"/usr/bin/{name}": _found(program) for name, program in places.items()} | {"/bin/sh": _found("dash")}


def server_link(directory: Path) -> Path:
    """A link in `directory` under whose name the program is a server; RigError if it is missing."""
    link = directory / "redis-server"
    link.symlink_to(_found(_SERVER))
    return link


def libraries(said: str) -> list[str]:
    """The paths in what ldd says of a program: its libraries and the loader."""
    return _LIBRARY.findall(said)


def _found(program: str) -> Path:
    path = shutil.which(program)
    if path is None:
        raise RigError(f"{program} is not installed", f"apt-get install {NEEDS[program]}")
    return Path(path).resolve()
