"""How a simulated Ray cluster behaves: its pace, and the failures it is told to have.

Settings come as JSON, in the annotation `rayllm.local/simulate` of the head's pod template, or by PUT to `/_simulate`
of any of the cluster's pods on the dashboard's port, which changes the named ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

_APPLICATION_STATES = ("DEPLOY_FAILED", "UNHEALTHY", "DEPLOYING", "NOT_STARTED")


@dataclass(frozen=True)
class Failure:
    """What is wrong with the applications.

    `status` is the application's, `message` the text that Serve would give. With `deployment` (a name, or the start of
    one) that deployment fails and the message is its own; without, the application fails as a whole, before it has any
    deployments. `log` is what the replica's worker wrote to its standard error.
    """

    status: str
    message: str = ""
    deployment: str = ""
    log: str = ""


@dataclass(frozen=True)
class Settings:
    """All times are in seconds.

    build_seconds: from the config to the first deployments. start_seconds: from a replica's placement until it runs.
    warning_seconds: after how long Serve says that a replica waits for resources (30, as in Serve).
    tokens_per_second: pace of each answer. reject: PUTs of a config are refused with this text.
    job_seconds, job_status, job_message: how long a Ray job runs and how it ends.
    """

    build_seconds: float = 1.0
    start_seconds: float = 3.0
    warning_seconds: float = 30.0
    tokens_per_second: float = 100.0
    fail: Failure | None = None
    reject: str = ""
    job_seconds: float = 5.0
    job_status: str = "SUCCEEDED"
    job_message: str = ""


def from_annotation(text: str) -> Settings:
    """The settings of an annotation's value ("" for none). ValueError says what is wrong with it."""
    return changed(Settings(), json.loads(text)) if text else Settings()


def changed(settings: Settings, changes: Any) -> Settings:
    """`settings` with the given changes. ValueError for an unknown name or a value of the wrong kind."""
    if not isinstance(changes, Mapping):
        raise ValueError("settings are a JSON object")
    kinds = {field.name: type(getattr(Settings(), field.name)) for field in fields(Settings)}
    new: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in kinds:
            raise ValueError(f"unknown setting {name!r}; there are {', '.join(kinds)}")
        if name == "fail":
            new[name] = None if value is None else _failure(value)
        elif kinds[name] is float and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            new[name] = float(value)
        elif kinds[name] is str and isinstance(value, str):
            new[name] = value
        else:
            raise ValueError(f"setting {name!r}: not a {'number' if kinds[name] is float else 'text'}: {value!r}")
    return replace(settings, **new)


def _failure(value: Any) -> Failure:
    names = {field.name for field in fields(Failure)}
    if not isinstance(value, Mapping) or not set(value) <= names or not all(isinstance(v, str) for v in value.values()):
        raise ValueError(f"setting 'fail' is null or an object of texts with the names {', '.join(sorted(names))}")
    if value.get("status") not in _APPLICATION_STATES:
        raise ValueError(f"setting 'fail': status is one of {', '.join(_APPLICATION_STATES)}")
    return Failure(**value)
