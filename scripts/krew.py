"""Write the archives of the kubectl plugin and its krew manifest for a release.

    python scripts/krew.py dist https://github.com/OWNER/REPOSITORY

The first argument is the folder with the wheel of the release, which gets an archive for each platform and rayllm.yaml.
An archive has the wheels of all dependencies for each supported Python, and scripts/krew_plugin/kubectl-rayllm.
Fields of the manifest: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
"""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl import __version__
from rayllm_ctl.model.text.yaml_text import dump

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "scripts" / "krew_plugin" / "kubectl-rayllm"

PLATFORMS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("linux", "amd64"): ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    ("linux", "arm64"): ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    ("darwin", "amd64"): ("macosx_11_0_x86_64", "macosx_10_12_x86_64", "macosx_10_9_x86_64", "macosx_10_9_universal2"),
    ("darwin", "arm64"): ("macosx_11_0_arm64", "macosx_11_0_universal2", "macosx_10_9_universal2"),
}
"""What krew and what pip call a platform."""

PYTHONS = ("3.11", "3.12", "3.13", "3.14")

Download = Callable[[Path, tuple[str, ...], str, Path], None]


def download(wheel: Path, platforms: tuple[str, ...], python: str, folder: Path) -> None:
    """Put a wheel and those that it needs on a platform into `folder`."""
    named = [part for platform in platforms for part in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version", python]
    subprocess.run([*command, *named, "--dest", str(folder), str(wheel)], check=True)


def archive(wheels: Path) -> bytes:
    """The archive of a platform: the same bytes for the same wheels."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        files = [(PLUGIN, PLUGIN.name, 0o755), (ROOT / "LICENSE", "LICENSE", 0o644)]
        files += [(file, f"wheels/{file.name}", 0o644) for file in sorted(wheels.iterdir())]
        for file, name, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = file.stat().st_size, mode
            with file.open("rb") as content:
                tar.addfile(entry, content)
        link = tarfile.TarInfo("kubectl_complete-rayllm")
        link.type, link.linkname, link.mode = tarfile.SYMTYPE, PLUGIN.name, 0o777
        tar.addfile(link)
    return gzip.compress(raw.getvalue(), mtime=0)


def manifest(archives: Mapping[tuple[str, str], tuple[str, str]], homepage: str) -> dict[str, Any]:
    """The manifest. archives: the address and the SHA-256 of each, by platform."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "rayllm"},
        "spec": {
            "version": f"v{__version__}",
            "homepage": homepage,
            "shortDescription": "Plan, deploy and diagnose LLM services on Ray",
            "description": (
                "Brings a model of the Hugging Face Hub to a healthy, autoscaling, OpenAI-compatible endpoint with\n"
                "KubeRay, Ray Serve LLM and vLLM: it plans which GPUs the model fits on, renders and applies the\n"
                "manifests, and shows why a service is not healthy.\n"
            ),
            "caveats": (
                "Requires Python 3.11 or newer with venv. The first run installs the wheels of the archive.\n"
                "For completion after `kubectl rayllm`, which krew does not set up:\n"
                "  ln -s ~/.krew/store/rayllm/v" + __version__ + "/kubectl_complete-rayllm ~/.krew/bin/\n"
            ),
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system, "arch": machine}},
                    "uri": uri,
                    "sha256": digest,
                    "bin": PLUGIN.name,
                }
                for (system, machine), (uri, digest) in archives.items()
            ],
        },
    }


def write(dist: Path, homepage: str, get: Download = download) -> list[Path]:
    """Write the archives and rayllm.yaml into `dist`; return their paths."""
    (wheel,) = dist.glob(f"rayllm_ctl-{__version__}-*.whl")
    archives: dict[tuple[str, str], tuple[str, str]] = {}
    written = []
    for (system, machine), platforms in PLATFORMS.items():
        with tempfile.TemporaryDirectory() as folder:
            for python in PYTHONS:
                get(wheel, platforms, python, Path(folder))
            content = archive(Path(folder))
        path = dist / f"kubectl-rayllm_{__version__}_{system}_{machine}.tar.gz"
        path.write_bytes(content)
        written.append(path)
        uri = f"{homepage}/releases/download/v{__version__}/{path.name}"
        archives[system, machine] = (uri, hashlib.sha256(content).hexdigest())
    target = dist / "rayllm.yaml"
    target.write_text(dump(manifest(archives, homepage), sort=False), encoding="utf-8")
    return [*written, target]


def main() -> int:
    """Write what a release needs for krew, and print its paths."""
    if len(sys.argv) != 3:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    for path in write(Path(sys.argv[1]), sys.argv[2].rstrip("/")):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
