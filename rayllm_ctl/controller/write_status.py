"""Writes the status of an LLMService or a BatchJob, if it is another one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.controller.children import MANAGER
from rayllm_ctl.controller.declared import Declared

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def write_status(cluster: Cluster, declared: Declared, status: Mapping[str, Any]) -> None:
    """Store `status`, unless it is stored already. An object that is gone, or another of its name, gets none."""
    item = declared.item
    if dict(status) == dict(item.get("status") or {}):
        return
    kind = str(item["kind"])
    metadata = {"name": declared.name, "namespace": declared.namespace, "uid": declared.uid}
    body = {"apiVersion": item["apiVersion"], "kind": kind, "metadata": metadata, "status": status}
    try:
        cluster.patch_status(kind, declared.name, declared.namespace, body, field_manager=MANAGER)
    except NotFoundError:
        return


def now() -> str:
    """The time as conditions have it: RFC 3339, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
