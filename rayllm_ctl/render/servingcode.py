"""The code that runs in the pods (rayllm_ctl.serving), as files and zip files: it is shipped, never imported.

A ConfigMap has one zip file, from which Python imports. There is one with what the pods of models need, named after its
digest: another one is another Ray cluster. That of the ingress has a name that does not change, and its digest is in
the Serve configuration (serving/shipped.py). Digests are those of the syntax trees, so that neither a comment nor a
docstring starts anything again.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from rayllm_ctl import __version__
from rayllm_ctl.model.kube.labels import CODE_DIGEST, CODE_VERSION
from rayllm_ctl.model.kube.model_downloads import STORAGE_CODE_PATH, code_config_map
from rayllm_ctl.model.plan.deployment import CodeVolume
from rayllm_ctl.model.spec.gateway import CODE_ARCHIVE, INGRESS_PATH, SERVING_PATH
from rayllm_ctl.render.syntax import imported_modules, normal_form

PACKAGE = Path(__file__).parents[1] / "serving"

_ROOT = PACKAGE.parents[1]
_OWN = f"{PACKAGE.parent.name}.{PACKAGE.name}"
_PARENT = f"{PACKAGE.parent.name}/__init__.py"
_PARENTS = (_PARENT, f"{PACKAGE.parent.name}/{PACKAGE.name}/__init__.py")
_OTHERS = tuple(PACKAGE / name for name in ("batch", "buckets", "storage"))
"""Code that services do not run: that of batch jobs, of downloads, and what both share."""

_MODEL, _PROXY, _SHIPPED, _INGRESS = ("model.py", "proxy.py", "shipped.py", "ingress.py")
_TRANSFORMERS = "transformers_engine.py"

_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file in a zip file, so that equal files are equal bytes; the first that the format has."""


@cache
def files() -> Mapping[str, str]:
    """The text of each file of services by its path below SERVING_PATH: all but what batch jobs and downloads run.

    The package around it is an empty one: with the version of rayllm-ctl in it, every release would replace the pods.
    """
    return {_PARENT: "", **_texts(path for path in PACKAGE.rglob("*.py") if not set(_OTHERS) & set(path.parents))}


@cache
def batch_files() -> Mapping[str, str]:
    """The text of each file of the driver of batch jobs, in the same way; the packages around it are empty ones."""
    return _program("batch")


@cache
def storage_files() -> Mapping[str, str]:
    """The same of the code that downloads models and waits for them."""
    return _program("storage")


def _program(folder: str) -> dict[str, str]:
    """A folder of the package and all that it imports, with empty packages around it."""
    names = {path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / folder).rglob("*.py")}
    return {**_texts(PACKAGE / name for name in _closure(names)), **dict.fromkeys(_PARENTS, "")}


@cache
def models_files(transformers: bool) -> Mapping[str, str]:
    """What the pods of models and Serve's proxies need; `transformers`: with the engine of that name."""
    without = () if transformers else (_TRANSFORMERS,)
    return _part({_PARENT, *map(_named, _closure((_MODEL, _PROXY, _SHIPPED, "__init__.py"), without))})


@cache
def ingress_files() -> Mapping[str, str]:
    """All that the ingress imports, but for the packages around it: its processes take nothing else from the others."""
    return _part(set(map(_named, _closure((_INGRESS,)))) - set(_PARENTS))


def _part(names: Iterable[str]) -> dict[str, str]:
    whole = files()
    return {name: whole[name] for name in sorted(names)}


def _named(path: str) -> str:
    return f"{PACKAGE.parent.name}/{PACKAGE.name}/{path}"


def _closure(roots: Iterable[str], without: Iterable[str] = ()) -> set[str]:
    """The modules `roots` and all that they import, by their paths in the package, with the packages around them."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        path = waiting.pop()
        if path in seen or path in without:
            continue
        seen.add(path)
        waiting += [f"{parent}/__init__.py" for parent in Path(path).parents if parent.name]
        for module in imported_modules((PACKAGE / path).read_text(encoding="utf-8"), _OWN):
            inside = module.removeprefix(_OWN).lstrip(".").replace(".", "/")
            found = (f"{inside}.py", f"{inside}/__init__.py")
            waiting += [name for name in found if inside and (PACKAGE / name).is_file()]
    return seen


def _texts(paths: Iterable[Path]) -> dict[str, str]:
    return {path.relative_to(_ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


def digest(texts: Mapping[str, str]) -> str:
    """Of files by their paths: what an equal digest names does the same."""
    found = hashlib.sha256()
    for name, text in sorted(texts.items()):
        found.update(f"{name}\0{normal_form(text)}\0".encode())
    return found.hexdigest()


def archive(texts: Mapping[str, str]) -> bytes:
    """A zip file with these files. Equal bytes for equal files, as far as zlib compresses equally."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name, text in sorted(texts.items()):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system = 3  # Unix, wherever it is made
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, text.encode())
    return written.getvalue()


def requirements(where: Literal["", "gpu", "streaming"] = "") -> list[str]:
    """The pinned packages that Ray's public image lacks: what the code needs everywhere or on GPUs besides, and what
    vLLM needs to stream weights."""
    name = f"requirements-{where}.txt" if where else "requirements.txt"
    lines = (PACKAGE / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def models_code(service: str, *, transformers: bool) -> CodeVolume:
    """The code of a service's models and proxies as a ConfigMap."""
    texts = models_files(transformers)
    found = digest(texts)
    return _volume(f"{service}-serving-{found[:8]}", SERVING_PATH, CODE_ARCHIVE, found, texts)


def ingress_code(service: str) -> CodeVolume:
    """The code of a service's ingress as a ConfigMap."""
    texts = ingress_files()
    found = digest(texts)
    return _volume(f"{service}-ingress-code", INGRESS_PATH, f"{found[:16]}.zip", found[:16], texts)


def batch_code(job: str) -> CodeVolume:
    """The driver of batch jobs as a ConfigMap of one."""
    texts = batch_files()
    found = digest(texts)
    return _volume(f"{job}-code-{found[:8]}", SERVING_PATH, CODE_ARCHIVE, found, texts)


def storage_code(service: str) -> CodeVolume:
    """The code for the model's files of a service as a ConfigMap."""
    texts = storage_files()
    return _volume(code_config_map(service), STORAGE_CODE_PATH, CODE_ARCHIVE, digest(texts), texts)


def _volume(config_map: str, mount_path: str, key: str, found: str, texts: Mapping[str, str]) -> CodeVolume:
    return CodeVolume(
        config_map,
        mount_path,
        {},
        {},
        {key: base64.b64encode(archive(texts)).decode()},
        found,
        {CODE_VERSION: __version__, CODE_DIGEST: found},
    )
