"""What a service asks of volumes, and what a cluster shows of them before anything is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.health import Object

Writer = Literal["", "the download Job", "the pods"]


@dataclass(frozen=True)
class ClaimUse:
    """A PersistentVolumeClaim that pods of a service mount for models or caches.

    field: its section in the spec, such as `spec.storage.model.claim`; key: the field of its name there. writer: what
    writes to it, if anything does. templates: of the pods of the service that mount it. pods: the most of them at a
    time. created: the manifest, if the claim is created with the service. model_bytes: of the files that it has to
    hold; None: unknown, or none.
    """

    name: str
    field: str
    key: str
    writer: Writer
    templates: tuple[Object, ...]
    pods: int
    created: Mapping[str, Any] | None = None
    model_bytes: float | None = None


@dataclass(frozen=True)
class StorageFacts:
    """What was read of a cluster. claims: by name; None: it does not exist; missing: it could not be read.

    classes, volumes, drivers, nodes: None: they could not be read. Not asked for, they are empty. drivers: names of the
    CSIDrivers. server: the version of the API server, such as v1.36.2.
    """

    namespace: str
    claims: Mapping[str, Object | None] = field(default_factory=dict)
    classes: tuple[Object, ...] | None = ()
    volumes: tuple[Object, ...] | None = ()
    drivers: frozenset[str] | None = frozenset()
    nodes: tuple[Object, ...] | None = ()
    server: str = ""
