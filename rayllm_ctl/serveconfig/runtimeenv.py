"""Runtime environments in a Serve configuration file: known fields, and code that the pods can reach.

Source: Ray 2.60.0, ray/_common/runtime_env_uri.py, ray/runtime_env/runtime_env.py and
ray/_private/runtime_env/validation.py.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.text.problems import Path
from rayllm_ctl.serveconfig.shapes import (
    IGNORED,
    Report,
    anything,
    boolean,
    entries,
    items,
    number,
    section,
    shown,
    text,
)

SCHEMES = ("gcs", "conda", "pip", "uv", "http", "https", "s3", "gs", "azure", "abfss", "file", "local")

FIELDS = frozenset(
    {
        "conda", "config", "container", "env_vars", "excludes", "image_uri", "java_jars", "nsight", "pip",
        "py_executable", "py_modules", "rocprof_sys", "uv", "worker_process_setup_hook", "working_dir",
    }
)  # fmt: skip
"""RuntimeEnv.known_fields by the names that a file has for them: the same from Ray 2.56 on. What is unknown goes to
plugins, of which an image may have some; without one Ray ignores it."""

_PACKAGES = {
    name: section(
        {
            "packages": anything,
            f"{name}_check": boolean,
            f"{name}_version": text,
            options: items(text),
        },
        required=("packages",),
        closed=True,
    )
    for name, options in (("pip", "pip_install_options"), ("uv", "uv_pip_install_options"))
}

_CONFIG = section({"setup_timeout_seconds": number(), "eager_install": boolean, "log_files": items(text)})

_INSTEAD = "--code DIR, an image with the code, or a remote URI such as https://HOST/code.zip"


def runtime_env(value: Any, path: Path, report: Report) -> None:
    """A mapping whose code is in the image or remote, and whose variables are text."""
    if not isinstance(value, dict):
        report.reject(path, "expected a mapping")
        return
    for key in value:
        if key not in FIELDS:
            report.note((*path, key), IGNORED, did_you_mean(key, FIELDS))
    _contents(value, path, report)
    if value.get("working_dir") is not None:
        _uri(value["working_dir"], (*path, "working_dir"), report)
    modules = value.get("py_modules") or []
    if not isinstance(modules, list):
        report.reject((*path, "py_modules"), "expected a list")
    else:
        for index, module in enumerate(modules):
            if module is not None:
                _uri(module, (*path, "py_modules", index), report)
    if value.get("env_vars") is not None:
        entries(text)(value["env_vars"], (*path, "env_vars"), report)
    for key in ("container", "image_uri"):
        if value.get(key):
            report.note((*path, key), "Ray starts it with podman, which a pod needs privileges and an image for")


def _contents(value: dict[str, Any], path: Path, report: Report) -> None:
    """How packages are installed, and how long that may take."""
    for key, rule in _PACKAGES.items():
        found = value.get(key)
        if isinstance(found, dict):
            rule(found, (*path, key), report)
        elif found is not None and not isinstance(found, (str, list)):
            report.reject((*path, key), f"expected a list of packages, found {shown(found)}")
    given = [key for key in ("conda", "pip", "uv") if value.get(key) is not None]
    if len(given) > 1:
        report.reject((*path, given[1]), f"cannot be combined with {given[0]}")
    if isinstance(value.get("config"), dict):
        _CONFIG(value["config"], (*path, "config"), report)


def _uri(value: Any, path: Path, report: Report) -> None:
    if not isinstance(value, str):
        report.reject(path, "expected a string")
        return
    scheme = urlparse(value).scheme
    if not scheme:
        report.reject(path, "is a folder of this machine, which KubeRay and the pods cannot reach", _INSTEAD)
    elif scheme not in SCHEMES:
        report.reject(path, f"{scheme}:// is not supported (supported: {', '.join(SCHEMES)})", _INSTEAD)
    elif scheme == "local" and not value[len("local://") :].startswith("/"):
        report.reject(path, "a local:// URI takes an absolute path", "local:///path/in/image")
