"""The code of rayllm-ctl in the pods of a service: its release, and the code of a revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube.labels import CODE_VERSION
from rayllm_ctl.model.kube.model_downloads import code_config_map
from rayllm_ctl.model.kube.revisions import code_digest
from rayllm_ctl.model.plan.deployment import CodeVolume
from rayllm_ctl.render.servingcode import ingress_code, models_code, storage_code
from rayllm_ctl.serveconfig.applied import FIELD
from rayllm_ctl.workflows.services import require_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_INGRESS = "-ingress-code"
_MODELS = "-serving-"
_STORAGE = code_config_map("")
_IN_PLACE = {_INGRESS: "the ingress", _STORAGE: "the download of models"}
"""Code that is replaced in place: the end of the name of its ConfigMap, and its part of a service."""


@dataclass(frozen=True)
class Shipped:
    """Code of a service. part: `ingress` or `models`. version: its release; empty: not recorded.

    current: whether this release of rayllm-ctl has the same code. problem: why it could not be read.
    """

    part: str
    config_map: str
    version: str
    digest: str
    current: bool
    problem: str = ""


def shipped(cluster: Cluster, name: str, namespace: str) -> list[Shipped]:
    """The code that the service `name` mounts; empty if it needs none, or has it in its image.

    Raises NotFoundError if there is no such service.
    """
    _, item = require_service(cluster, name, namespace, RAY_SERVICE.rights_for("version"))
    own = (f"{name}{_INGRESS}", f"{name}{_MODELS}")
    return [_shipped(cluster, one, name, namespace) for one in sorted(_names(item)) if one.startswith(own)]


def _names(value: Any) -> set[str]:
    """The ConfigMaps that the pod templates of an object mount."""
    if isinstance(value, Mapping):
        own = value.get("configMap")
        name = {str(own["name"])} if isinstance(own, Mapping) and "name" in own else set()
        return name.union(*map(_names, value.values()))
    return set().union(*map(_names, value)) if isinstance(value, list) else set()


def _shipped(cluster: Cluster, config_map: str, service: str, namespace: str) -> Shipped:
    part = "ingress" if config_map.endswith(_INGRESS) else "models"
    try:
        item = cluster.get("ConfigMap", config_map, namespace)
    except NotFoundError:
        return Shipped(part, config_map, "", "", current=False, problem="the ConfigMap does not exist")
    except ForbiddenError:
        why = f"not permitted to get configmaps in namespace {namespace}"
        return Shipped(part, config_map, "", "", current=False, problem=why)
    digest = code_digest(item)
    notes = item["metadata"].get("annotations") or {}
    return Shipped(
        part if digest else "ingress and models",
        config_map,
        str(notes.get(CODE_VERSION, "")),
        digest or config_map.rpartition("-")[2],
        current=digest in {one.digest for one in _own(service)},
    )


def _own(service: str) -> list[CodeVolume]:
    """The code that this release ships."""
    return [ingress_code(service), *(models_code(service, transformers=one) for one in (False, True))]


def restored(
    cluster: Cluster, manifests: Sequence[Mapping[str, Any]], namespace: str
) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """The manifests of a revision with the code that it names, and notes on differences.

    Code of models stays in the cluster in a ConfigMap named after its digest. The code of the ingress, and that of
    downloads, is replaced in place, so the revision gets the current one. Raises UserError if code of models is gone.
    """
    found: list[dict[str, Any]] = []
    notes: list[str] = []
    replaced: dict[str, str] = {}
    for item in manifests:
        wanted = code_digest(item)
        if not wanted or "binaryData" in item:
            found.append(dict(item))
            continue
        code = _code_of(cluster, item, namespace)
        given = code_digest(code)
        if given != wanted:
            replaced[wanted] = given
            part = _IN_PLACE[_ending(item)]
            notes.append(
                f"{part} keeps its current code, of rayllm-ctl {_version(code)}: that of the revision, of "
                f"rayllm-ctl {_version(item)}, is not kept"
            )
        metadata = {**item["metadata"], "annotations": code["metadata"]["annotations"]}
        found.append({**item, "metadata": metadata, "binaryData": code["binaryData"]})
    return tuple(_with_digests(item, replaced) for item in found), tuple(notes)


def _code_of(cluster: Cluster, item: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    """A ConfigMap with the code of `item`, or with other code of the ingress."""
    name, wanted = str(item["metadata"]["name"]), code_digest(item)
    try:
        live = cluster.get("ConfigMap", name, namespace)
    except NotFoundError:
        live = None
    if live is not None and code_digest(live) == wanted:
        return live
    ending = _ending(item)
    service = name.removesuffix(ending) if ending else name.rpartition(_MODELS)[0]
    for one in (*_own(service), storage_code(service)):
        if one.digest == wanted or (one.config_map == name and live is None):
            return {
                "kind": "ConfigMap",
                "metadata": {"annotations": dict(one.annotations)},
                "binaryData": dict(one.archives),
            }
    if live is not None and ending and code_digest(live):
        return live
    raise UserError(
        f"ConfigMap {namespace}/{name} with the code of the revision is gone; rayllm-ctl {_version(item)} has it",
        hint=f"install rayllm-ctl {_version(item)}, and deploy the spec file of the revision with it",
    )


def _ending(item: Mapping[str, Any]) -> str:
    """How the name of a ConfigMap ends whose code is replaced in place; empty for others."""
    return next((one for one in _IN_PLACE if item["metadata"]["name"].endswith(one)), "")


def _version(item: Mapping[str, Any]) -> str:
    return str((item["metadata"].get("annotations") or {}).get(CODE_VERSION) or "of an unknown version")


def _with_digests(item: dict[str, Any], replaced: Mapping[str, str]) -> dict[str, Any]:
    config = (item.get("spec") or {}).get(FIELD)
    if not replaced or not isinstance(config, str):
        return item
    for old, new in replaced.items():
        config = config.replace(old, new)
    return {**item, "spec": {**item["spec"], FIELD: config}}
