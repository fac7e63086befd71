"""A Serve configuration file of the user's own: from the file to manifests."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.kuberayversions import DEFAULT
from rayllm_ctl.model.replicagroups import Group
from rayllm_ctl.model.service import Accelerator, LLMService
from rayllm_ctl.workflows.authentication import asks_by_default, lacking, without_token
from rayllm_ctl.workflows.code import code_volume, with_code


@dataclass(frozen=True)
class ServeFile:
    """What to deploy: the file, the folder with its code, and what was said of pods, image and scheduling."""

    file: Path
    code: Path | None
    service: LLMService


@dataclass(frozen=True)
class PreparedApplications:
    """Manifests; the groups of workers and why; and what to know of the file, each with its line."""

    manifests: tuple[dict[str, Any], ...]
    explanation: tuple[str, ...]
    notes: tuple[str, ...]


def prepare(source: ServeFile, kuberay: str = DEFAULT) -> PreparedApplications:
    """The manifests of `source`, valid for a version of KubeRay (one of model.kuberayversions.VERSIONS).

    Raises UsageError with every problem of the file and its line.
    """
    from rayllm_ctl.catalog import gpus
    from rayllm_ctl.catalog.releases import resolve
    from rayllm_ctl.model.yamltext import dump
    from rayllm_ctl.planner.applications import applications, gpus_per_node
    from rayllm_ctl.render.applications import render_applications
    from rayllm_ctl.render.podparts import check_pod_security
    from rayllm_ctl.serveconfig import read_config
    from rayllm_ctl.serveconfig.shutdown import longest_shutdown
    from rayllm_ctl.serveconfig.sizing import groups
    from rayllm_ctl.workflows.check import check_objects

    config = read_config(_text(source.file), str(source.file))
    catalog = gpus.load()
    found = groups(config.data, gpus_per_node(catalog))
    code = code_volume(source.service.name, *([source.code] if source.code else []))
    service = with_code(source.service, code)
    named = service.accelerator.gpu
    service = replace(
        service,
        accelerator=Accelerator(
            kind="gpu" if any(group.gpus for group in found) else "cpu",
            gpu=gpus.canonical(named) if named else None,
        ),
    )
    runtime = resolve(service.engine)
    planned = applications(
        service, found, catalog, runtime, config.proxies, dump(config.data), code,
        longest_shutdown(config.data.get("applications") or ()),
    )  # fmt: skip
    manifests = render_applications(planned)
    lacks = lacking(kuberay) if asks_by_default(service, manifests) else ""
    if lacks:
        manifests = list(without_token(manifests))
    check_objects(manifests, kuberay)
    check_pod_security(manifests, planned.pod_security)
    notes = (*config.notes, *_unlisted(config.data), *unknown_types(found, catalog))
    notes += (f"token authentication is {lacks}",) if lacks else ()
    return PreparedApplications(tuple(manifests), planned.explanation, notes)


def _text(file: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: the file is not valid UTF-8") from None


def _unlisted(config: dict[str, Any]) -> Iterator[str]:
    for application in config["applications"]:
        if not application.get("deployments"):
            name = application.get("name", "default")
            yield (
                f"application {name} lists no deployments: sized for one replica of one CPU "
                "(`serve build` writes a file that lists them)"
            )


def unknown_types(found: Iterable[Group], catalog: Mapping[str, GPU]) -> Iterator[str]:
    known = {gpu.ray_accelerator_type for gpu in catalog.values()}
    for group in found:
        if group.accelerator is not None and group.accelerator not in known:
            yield f"group {group.name}: the nodes of {group.accelerator} are unknown; name them with --node-selector"
