"""The code that runs in the pods (rayllm_ctl.serving), as the text of its files: it is shipped, never imported."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from rayllm_ctl.model.deployment import CodeVolume
from rayllm_ctl.model.gateway import SERVING_PATH

PACKAGE = Path(__file__).parents[1] / "serving"

_PARENT = f"{PACKAGE.parent.name}/__init__.py"
_PARENTS = (_PARENT, f"{PACKAGE.parent.name}/{PACKAGE.name}/__init__.py")
_BATCH = PACKAGE / "batch"


@cache
def files() -> Mapping[str, str]:
    """The text of each file of services by its path below SERVING_PATH: all but the driver of batch jobs.

    The package around it is an empty one: with the version of rayllm-ctl in it, every release would replace the pods.
    """
    return {_PARENT: "", **_texts(path for path in PACKAGE.rglob("*.py") if _BATCH not in path.parents)}


@cache
def batch_files() -> Mapping[str, str]:
    """The text of each file of the driver of batch jobs, in the same way; the packages around it are empty ones."""
    return {**dict.fromkeys(_PARENTS, ""), **_texts(_BATCH.rglob("*.py"))}


def _texts(paths: Iterable[Path]) -> dict[str, str]:
    root = PACKAGE.parents[1]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


@cache
def digest() -> str:
    """Of all files of services: what an equal digest names is equal code."""
    return _digest(files())


def _digest(texts: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(f"{name}\0{text}\0" for name, text in texts.items()).encode()).hexdigest()


def requirements(where: Literal["", "gpu"] = "") -> list[str]:
    """The pinned packages that the code needs, everywhere or on GPUs besides, and Ray's public image lacks."""
    name = f"requirements-{where}.txt" if where else "requirements.txt"
    lines = (PACKAGE / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def code_volume(service: str) -> CodeVolume:
    """The code of services as a ConfigMap of one."""
    return _volume(f"{service}-serving-{digest()[:8]}", files())


def batch_code_volume(job: str) -> CodeVolume:
    """The driver of batch jobs as a ConfigMap of one."""
    return _volume(f"{job}-code-{_digest(batch_files())[:8]}", batch_files())


def _volume(config_map: str, texts: Mapping[str, str]) -> CodeVolume:
    """Keys of a ConfigMap cannot have slashes."""
    keys = {name: name.replace("/", ".") for name in texts}
    return CodeVolume(
        config_map,
        SERVING_PATH,
        {keys[name]: text for name, text in texts.items()},
        {key: name for name, key in keys.items()},
    )
