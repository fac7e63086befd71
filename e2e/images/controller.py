"""The image of the controller: Debian's Python 3.11, the dependencies of this checkout, and above them its wheel.

As `rayllm-ctl image recipe --controller` has it, but for the base, which is that of the serving image without Ray and
vLLM. It is not among the images of every node: a change of the code would make the store of all images anew. Tests that
need it load it into the nodes, see e2e.cluster.load.

    python -m e2e.images.controller     make the image (or find it made) and print the archive's path
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from e2e.cluster import cache
from e2e.cluster.progress import Progress, to_stderr
from e2e.cluster.shell import run
from e2e.images import packages, serving
from e2e.images.oci import Image, Layer, write_archive

REPOSITORY: Final = "rayllm.local/rayllm-controller"
USER: Final = "65532:65532"
ENTRYPOINT: Final = ("rayllm-ctl",)
COMMAND: Final = ("controller", "--all-namespaces")
ENV: Final = {"PYTHONDONTWRITEBYTECODE": "1"}

_KIND: Final = "controller-image"
_KEPT: Final = 3
_ROOT: Final = Path(__file__).parents[2]
CODE: Final = _ROOT / "rayllm_ctl"
_BUILT_FROM: Final = ("pyproject.toml", "README.md", "LICENSE")
_VERSIONS: Final = _ROOT / "requirements-dev.lock"
_PIP: Final = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
_HINT: Final = "is the package index reachable, and pip part of this Python?"
_LAUNCHER: Final = "#!/usr/bin/python3\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"


def ensure(progress: Progress, release: str = "") -> Image:
    """The image of this checkout, made if it is not in the cache. Needs what serving.ensure needs.

    release: what the code says that its version is, for an upgrade; empty: what it is. Its tag tells the content. Two
    cache entries: `controller-base` (the root file system with the dependencies), which a change of the code leaves as
    it is, and `controller-image` (the archive). Raises RigError where a step fails.
    """
    key = image_key(release)
    ref = f"{REPOSITORY}:{key}"

    def make(work: Path) -> None:
        base = ensure_base(progress)
        progress("controller image: building the wheel")
        top, wheel = work / "top", _wheel(work, release)
        _install_wheel(wheel, top)
        wheel.unlink()
        packages.compile_files(base, layer=top)
        write_archive(
            ref, work / "image.tar", [Layer(base), Layer(top)],
            entrypoint=ENTRYPOINT, cmd=COMMAND, env=ENV, user=USER,
        )  # fmt: skip
        shutil.rmtree(top)
        remove_older(work.parent)

    return Image(ref, cache.ensure(_KIND, key, make) / "image.tar")


def ensure_base(progress: Progress) -> Path:
    """The root file system with Python and the dependencies, without the project itself; see rootfs.start_inside."""

    def make(work: Path) -> None:
        root = work / "root"
        progress("controller image: making a root file system with the dependencies")
        link_without_packages(serving.ensure_base(progress), root)
        site = root / packages.SITE_PACKAGES
        command = [*_PIP, "install", "--root-user-action=ignore", "--no-compile", "--target", str(site)]
        run([*command, *packages.target_options(), "--constraint", _VERSIONS, *_dependencies()], hint=_HINT)
        shutil.rmtree(site / "bin")
        packages.compile_files(root)

    return cache.ensure("controller-base", base_key(), make) / "root"


def remove_older(entries: Path) -> None:
    """Remove all images but the newest: there is one for each state of the code, and each has the base in it."""
    images = [path for path in entries.iterdir() if not path.name.startswith(".")]
    for path in sorted(images, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(path)


def link_without_packages(base: Path, root: Path) -> None:
    """Make `root` of `base`, without the Python packages that were installed there. Both are in the cache."""
    site = base / packages.SITE_PACKAGES

    def left_out(directory: str, _names: list[str]) -> Iterable[str]:
        return {site.name} if Path(directory) == site.parent else set()

    shutil.copytree(base, root, symlinks=True, copy_function=os.link, ignore=left_out)


def _wheel(work: Path, release: str) -> Path:
    """The wheel of this checkout, built in `work`."""
    source = work / "source"
    shutil.copytree(CODE, source / CODE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _BUILT_FROM:
        shutil.copyfile(_ROOT / name, source / name)
    if release:
        module = source / CODE.name / "__init__.py"
        module.write_text(re.sub(r'(?m)^__version__ = ".*"$', f'__version__ = "{release}"', module.read_text()))
    run([*_PIP, "wheel", "--no-deps", "--wheel-dir", work, source], hint=_HINT)
    shutil.rmtree(source)
    (wheel,) = work.glob("*.whl")
    return wheel


def _install_wheel(wheel: Path, top: Path) -> None:
    """Fill `top` with what a wheel has, and a launcher of each of its commands."""
    site = top / packages.SITE_PACKAGES
    run([*_PIP, "install", "--root-user-action=ignore", "--no-deps", "--no-compile", "--target", site, wheel])
    shutil.rmtree(site / "bin")  # they name the Python that installed them
    binaries = top / "usr" / "local" / "bin"
    binaries.mkdir(parents=True)
    for name, target in _project()["scripts"].items():
        module, _, function = target.partition(":")
        launcher = binaries / name
        launcher.write_text(_LAUNCHER.format(module=module, function=function))
        launcher.chmod(0o755)


def _dependencies() -> list[str]:
    found: list[str] = _project()["dependencies"]
    return found


def _project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    return found


def base_key() -> str:
    """The key of the root file system in the cache: a digest of what it is made from, which the code is not."""
    recipes = [_VERSIONS, *(Path(__file__).with_name(name) for name in ("rootfs.py", "packages.py"))]
    return _digest(recipes, *_dependencies())


def image_key(release: str = "") -> str:
    """The key of the image in the cache, and its tag: a digest of what it is made from."""
    code = sorted(path for path in CODE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return _digest([*code, *(_ROOT / name for name in _BUILT_FROM), Path(__file__)], base_key(), release)


def _digest(files: Iterable[Path], *parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode())
    for path in files:
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    print(ensure(to_stderr()).archive)
