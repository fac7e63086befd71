"""Samples: a case is a base (a service that starts, or one that serves) and what differs from it."""

from __future__ import annotations

import copy
import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from rayllm_ctl.model.observed.health import Snapshot

SAMPLES = Path(__file__).parent / "samples"
NAME, NAMESPACE = "demo", "team"


def load_case(folder: Path) -> Snapshot:
    """The Snapshot of a sample: `objects` are merged into those of the base by kind and name (a null removes a field);
    `remove` drops objects, "Kind/name"; `serve` and `logs` take the place of the base's."""
    case = _read(folder / "snapshot.yaml")
    base = _read(SAMPLES / "_base" / f"{case['base']}.yaml") if "base" in case else {}
    objects = {_key(item): item for item in base.get("objects", [])}
    for change in case.get("objects", []):
        objects[_key(change)] = _merged(objects.get(_key(change), {}), change)
    for key in case.get("remove", []):
        objects.pop(key)
    now = datetime.fromisoformat(case.get("now", "2026-03-01T12:10:00")).replace(tzinfo=UTC)
    serve = case["serve"] if "serve" in case else base.get("serve", {})
    logs = case["logs"] if "logs" in case else base.get("logs", {})
    return Snapshot(tuple(_complete(item) for item in objects.values()), now, serve, logs)


def expected(folder: Path) -> dict[str, Any]:
    """What is to be said of a sample."""
    return _read(folder / "expected.yaml")


def case_folders() -> list[Path]:
    """The samples of services."""
    return sorted({path.parent for path in SAMPLES.glob("*/expected.yaml")} - set(job_folders()))


def job_folders() -> list[Path]:
    """The samples of batch jobs."""
    return sorted(path.parent for path in SAMPLES.glob("job-*/expected.yaml"))


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    return found


def _key(item: dict[str, Any]) -> str:
    return f"{item['kind']}/{item['metadata']['name']}"


def _complete(item: dict[str, Any]) -> dict[str, Any]:
    """An object with the namespace that all samples share, unless it says otherwise or has none."""
    item = copy.deepcopy(item)
    if item["kind"] not in ("Node", "Namespace", "PersistentVolume"):
        item["metadata"].setdefault("namespace", NAMESPACE)
    if item["kind"] == "Event":
        item.setdefault("apiVersion", "v1")
        item.setdefault("involvedObject", {}).setdefault("namespace", NAMESPACE)
    return item


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        result = dict(old)
        for key, value in new.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _merged(old.get(key), value)
        return result
    return new
