"""Rebuild what the project knows of vLLM, Ray and KubeRay from their sources; print what is left to do by hand.

    make knowledge                      every file again, from the versions that are pinned
    make knowledge VLLM=0.34.0          the same, with a release more (also RAY=..., KUBERAY=...)
    python -m scripts.knowledge --only engines --only rayserve

Without a new release every file comes out as it is committed, byte for byte. Wheels are those of the package index,
pinned in wheels.lock; the CPU builds of vLLM those of vllm-*.lock; the rest are Go modules and tags of KubeRay's
repository (--kuberay-clone: one that is on this machine). All of it is kept in the cache outside of the checkout.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from e2e.cluster import cache
from e2e.cluster.errors import RigError
from e2e.cluster.shell import run
from scripts import accuracy, engine_facts, manifest_schemas, rayserve_fields
from scripts.knowledge import left, objects
from scripts.knowledge.wheels import WheelMissing, package_sources

ROOT = Path(__file__).resolve().parents[2]
KUBERAY = "https://github.com/ray-project/kuberay"

FILES = {
    "engines": ("rayllm_ctl/catalog/data/engines.json",),
    "rayserve": ("rayllm_ctl/catalog/data/rayserve.json",),
    "kuberay": ("rayllm_ctl/render/schemas/manifests.json",),
    "objects": tuple(f"tests/data/{name}" for name in objects.FILES),
    "accuracy": ("docs/contributing/accuracy.md", "docs/contributing/accuracy.svg"),
}
"""What each part writes."""


def kuberay_schemas(clone: Path | None) -> None:
    modules = run(["go", "env", "GOMODCACHE"]).strip()
    for module in manifest_schemas.MODULES:
        run(["go", "mod", "download", module], cwd=Path(modules).parent, hint="is Go's module proxy reachable?")
    newest = list(manifest_schemas.KUBERAY.values())[-1]
    repository = clone or cache.ensure("kuberay-repository", newest, _clone)
    manifest_schemas.write(repository, Path(modules))


def _clone(folder: Path) -> None:
    run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", KUBERAY, str(folder)], hint="--kuberay-clone PATH")


def parts(clone: Path | None) -> Iterator[tuple[str, Callable[[], object]]]:
    """Names of the parts, with what writes their files."""
    yield "engines", engine_facts.main
    yield "rayserve", rayserve_fields.main
    yield "kuberay", lambda: kuberay_schemas(clone)
    yield "objects", objects.main
    yield "accuracy", accuracy.main


def main() -> int:
    """1 if a part could not be rebuilt."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vllm", help="a release of vLLM to add")
    parser.add_argument("--ray", help="a release of Ray to add")
    parser.add_argument("--kuberay", help="a release of KubeRay to add")
    parser.add_argument("--kuberay-clone", type=Path, default=os.environ.get("KUBERAY_CLONE"), metavar="PATH")
    parser.add_argument("--only", action="append", choices=list(FILES), help="only this part (may be repeated)")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # the parts have command lines of their own
    failed = False
    try:
        for package in ("vllm", "ray"):
            version = getattr(options, package)
            if version:
                package_sources(package, version)
    except WheelMissing as error:
        raise SystemExit(str(error)) from None
    for name, write in parts(options.kuberay_clone and Path(options.kuberay_clone)):
        if options.only and name not in options.only:
            continue
        before = {file: _content(file) for file in FILES[name]}
        try:
            failed |= bool(write())
        except (RigError, WheelMissing, FileNotFoundError, subprocess.CalledProcessError) as error:
            failed = True
            sys.stdout.write(f"{name}: not rebuilt: {error}\n")
            continue
        for file, content in before.items():
            same = _content(file) == content
            sys.stdout.write(f"{file}: {'as before' if same else 'rewritten, read the difference'}\n")
    lines = list(left.to_do(options.vllm, options.ray, options.kuberay))
    sys.stdout.write("\nLeft to do by hand:\n" + "".join(f"- {line}\n" for line in lines) if lines else "")
    return int(failed)


def _content(file: str) -> bytes:
    path = ROOT / file
    return path.read_bytes() if path.is_file() else b""


if __name__ == "__main__":
    sys.exit(main())
