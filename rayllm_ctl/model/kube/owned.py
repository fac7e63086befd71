"""Objects that belong to another one, by their ownerReferences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.kube.model_downloads import is_kept

DECLARING = "LLMService"
"""The kind of which the objects that run a service may be children: the controller makes them then."""

RECONCILED = (DECLARING, "BatchJob")
"""The kinds that the controller reconciles."""


def owner_reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """The reference with which Kubernetes deletes a child once its owner is gone."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(manifest: Mapping[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """A rendered manifest as a child of `owner`, in its namespace. A claim is none: its data outlives the owner."""
    metadata = {**manifest["metadata"], "namespace": owner["metadata"]["namespace"]}
    if not is_kept(manifest):
        metadata["ownerReferences"] = [owner_reference(owner)]
    return {**manifest, "metadata": metadata}


def is_owned_by(item: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether `owner` is the controller of `item`."""
    return any(one.get("uid") == owner["metadata"]["uid"] for one in _controllers(item))


def declared_by(item: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The reference of an object to the LLMService that declares it; None if commands change the object itself."""
    return next((one for one in _controllers(item or {}) if one.get("kind") == DECLARING), None)


def reconciled_owner(item: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of the LLMService or BatchJob for which the controller makes an object; empty if there is none."""
    found = next((one for one in _controllers(item) if one.get("kind") in RECONCILED), {})
    return str(found.get("kind", "")), str(found.get("name", ""))


def _controllers(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    references = (item.get("metadata") or {}).get("ownerReferences") or ()
    return [one for one in references if one.get("controller")]
