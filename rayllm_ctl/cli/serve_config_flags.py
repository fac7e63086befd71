"""--serve-config and --code of `render` and `deploy`: a Serve configuration in place of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import STANDARD_INPUT, is_stream

if TYPE_CHECKING:
    from rayllm_ctl.workflows.render.types import ServeFile

F = TypeVar("F", bound=Callable[..., Any])

_APPLY = frozenset(
    {
        "name", "accelerator.gpu", "engine.image", "engine.env", "storage.volumes", "resources.worker.cpu",
        "resources.worker.memory", "scheduling.node_selector", "scheduling.tolerations", "security.pod_security",
        "model.token_secret",
    }
)  # fmt: skip
"""The fields that apply to the pods of a Serve configuration; the others apply to a model."""


def serve_config_options(function: F) -> F:
    """--serve-config and --code, handed over as `serve_config` and `code`."""
    code = click.option(
        "--code",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder with the Python files of --serve-config; mounted on the Python path from a ConfigMap.",
    )
    config = click.option(
        "--serve-config",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
        help="Ray Serve configuration file to deploy in place of a model, - for standard input.",
    )
    return config(code(function))


def serve_file(
    serve_config: Path | None,
    code: Path | None,
    file: Path | None,
    template_dir: Path | None,
    overrides: Mapping[str, Any],
    namespace: str | None,
    *,
    flag: str = "--serve-config",
) -> ServeFile | None:
    """The configuration of --serve-config (or `flag`); None without it. UsageError for flags that cannot be combined
    with it."""
    if serve_config is None:
        if code is not None:
            raise UsageError("--code requires --serve-config")
        return None
    from rayllm_ctl.cli.service import flag_of, resolve_service
    from rayllm_ctl.model.kube.names import service_name
    from rayllm_ctl.workflows.render.types import ServeFile

    if file is not None:
        raise UsageError(f"{flag} cannot be combined with -f: a spec file describes a model")
    if template_dir is not None:
        raise UsageError("--serve-config cannot be combined with --template-dir: templates lay out a model's plan")
    others = [flag_of(field, FLAGS) for field in overrides if field not in _APPLY]
    if others:
        raise UsageError(f"{flag} cannot be combined with {', '.join(others)}")
    if is_stream(serve_config) and "name" not in overrides:
        source = "standard input" if str(serve_config) == STANDARD_INPUT else "a pipe"
        raise UsageError(f"a name is required for a file from {source}", hint="--name NAME")
    name = overrides.get("name", service_name(serve_config.stem))
    # The model is a placeholder: it gives the pods the same defaults as the pods of a model.
    service = resolve_service(None, {**overrides, "model.id": "serve-config", "name": name}, namespace, FLAGS, _APPLY)
    return ServeFile(serve_config, code, service)
