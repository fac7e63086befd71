"""Recorded bundles: the folder that a collected failure is kept in, as a Snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.apikinds import KINDS
from rayllm_ctl.model.health import Snapshot


def read_bundle(path: Path) -> Snapshot:
    """The Snapshot that a bundle holds.

    A bundle is a folder with objects.json (a v1 List), and, where there were any, serve/<raycluster>.json (Serve's
    answers), logs/<pod>/<file> and meta.json ({"time": RFC 3339}: ages count from there).
    Raises UsageError when the folder is not a bundle.
    """
    listed = _json(path / "objects.json")
    items = listed.get("items") if isinstance(listed, Mapping) else None
    if not isinstance(items, list):
        raise UsageError(
            f"{path / 'objects.json'} holds no list of objects", hint="a bundle has a v1 List in objects.json"
        )
    objects = tuple(item for item in items if isinstance(item, Mapping))
    serve = {file.stem: _json(file) for file in sorted((path / "serve").glob("*.json"))}
    logs = {
        f"{file.parent.name}/{file.name}": file.read_text(encoding="utf-8", errors="replace")
        for file in sorted((path / "logs").glob("*/*.log"))
    }
    return Snapshot(
        objects,
        _time(path),
        {name: answer for name, answer in serve.items() if isinstance(answer, Mapping)},
        logs,
        unread=frozenset({kind.name for kind in KINDS.values()} - {str(item.get("kind")) for item in objects}),
    )


def _time(path: Path) -> datetime:
    """When the bundle was collected; without meta.json now, so that nothing in it looks fresh."""
    if not (path / "meta.json").exists():
        return datetime.now(UTC)
    meta = _json(path / "meta.json")
    written = meta.get("time") if isinstance(meta, Mapping) else None
    try:
        moment = datetime.fromisoformat(str(written))
    except ValueError:
        raise UsageError(
            f"{path / 'meta.json'} has no readable time", hint='such as {"time": "2026-11-21T10:00:00Z"}'
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist", hint="a bundle is a folder with objects.json in it") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint="the bundle is damaged: collect it again") from error
