"""The user's Python files: as a ConfigMap, and on the Python path of the pods."""

from __future__ import annotations

from pathlib import Path

from rayllm_ctl.model.plan.deployment import CodeVolume
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.pod_templates import on_python_path
from rayllm_ctl.serveconfig.code import MOUNT_PATH, read_code


def code_volume(name: str, *folders: Path) -> CodeVolume | None:
    """The ConfigMap with the files of `folders` for the service `name`; None without a folder."""
    if not folders:
        return None
    code = read_code(*folders)
    paths = code.paths if any(key != path for key, path in code.paths.items()) else {}
    return CodeVolume(f"{name}-code-{code.digest[:8]}", MOUNT_PATH, code.data, paths)


def with_code(service: LLMService, code: CodeVolume | None) -> LLMService:
    """`service` with the code on the Python path."""
    return service if code is None else on_python_path(service, code.mount_path)
