"""Runtime environments in a Serve configuration file: code that the pods can reach.

Source: Ray 2.60.0, ray/_common/runtime_env_uri.py.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

from rayllm_ctl.model.problems import Path
from rayllm_ctl.serveconfig.shapes import Report, entries, text

SCHEMES = ("gcs", "conda", "pip", "uv", "http", "https", "s3", "gs", "azure", "abfss", "file", "local")

_INSTEAD = "--code DIR, an image with the code, or a remote URI such as https://HOST/code.zip"


def runtime_env(value: Any, path: Path, report: Report) -> None:
    """A mapping whose code is in the image or remote, and whose variables are text."""
    if not isinstance(value, dict):
        report.reject(path, "expected a mapping")
        return
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
