"""Strategic merge patches of Kubernetes: a patch has the shape of the object, and lists of objects merge by a key.

The keys are those of the Go types of k8s.io/api v0.36.2 (struct tag patchMergeKey), which the API server, kubectl and
kustomize use for pods, Services and ServiceAccounts; every other list is replaced. KubeRay's types declare no keys:
pod templates inside them merge as pods do, the autoscaler's container as a container, and worker groups by groupName,
as replacing their list would repeat every group in each patch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.model.kube.cluster_spec import CLUSTER_FIELDS
from rayllm_ctl.model.text.problems import Path, Problem, quoted

DIRECTIVE = "$patch"
"""The key that says what a mapping does to its place: delete, replace or merge (the default)."""

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")

_MERGE_KEYS: Mapping[tuple[str, str], str] = {
    **{("spec", name): "name" for name in (*_CONTAINERS, "volumes", "imagePullSecrets", "schedulingGates")},
    ("spec", "resourceClaims"): "name",
    ("spec", "hostAliases"): "ip",
    ("spec", "topologySpreadConstraints"): "topologyKey",
    **{(box, "env"): "name" for box in (*_CONTAINERS, "autoscalerOptions")},
    **{(box, "volumeMounts"): "mountPath" for box in (*_CONTAINERS, "autoscalerOptions")},
    **{(box, "volumeDevices"): "devicePath" for box in _CONTAINERS},
    **{(box, "ports"): "containerPort" for box in _CONTAINERS},
    ("spec", "ports"): "port",
    ("", "secrets"): "name",
    **{(cluster, "workerGroupSpecs"): "groupName" for cluster in ("spec", *CLUSTER_FIELDS.values())},
}
"""The key by which the items of a list are told apart, by the list's own field and the field that contains it: `ports`
are ServicePorts in a spec, ContainerPorts in a container and have no key in a rule of a NetworkPolicy."""


class PatchError(ValueError):
    """A patch that cannot be applied. `problem.path` leads from the patch to what is wrong with it."""

    def __init__(self, path: Path, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.problem = Problem(path, message, hint)


def strategic_merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`base`, an object or a pod template, with `patch` applied. Both are left as they are; the result shares parts.

    null removes a field. `$patch: delete` removes a mapping or an item of a list, `$patch: replace` replaces it. An
    item that is nothing but a directive is about the whole list. New items go to the end of their list (kubectl puts
    them first, but the first container of a Ray pod is Ray's).
    Raises PatchError for an unknown directive, and for an item without the key of its list.
    """
    if directive := _directive(patch, ()):
        raise PatchError((DIRECTIVE,), f'"{directive}" is not supported for a whole object')
    return _mapping(base, patch, "", ())


def _mapping(base: Mapping[str, Any], patch: Mapping[str, Any], field: str, path: Path) -> dict[str, Any]:
    """field: what contains the mapping, directly or as an item of a list; empty for the object itself."""
    merged = dict(base)
    for name, value in patch.items():
        at = (*path, name)
        if name == DIRECTIVE:
            continue
        if name.startswith("$"):
            raise PatchError(at, "this directive is not supported", f"{DIRECTIVE}: delete, or {DIRECTIVE}: replace")
        result = _value(merged.get(name), value, _MERGE_KEYS.get((field, name)), name, at)
        if result is None:
            merged.pop(name, None)
        else:
            merged[name] = result
    return merged


def _value(base: Any, patch: Any, key: str | None, field: str, path: Path) -> Any:
    """What stands in the place of `base` afterwards; None: nothing."""
    if isinstance(patch, Mapping):
        directive = _directive(patch, path)
        if directive == "delete":
            return None
        return _mapping(base if isinstance(base, Mapping) and directive != "replace" else {}, patch, field, path)
    if isinstance(patch, Sequence) and not isinstance(patch, str):
        return _list(base if isinstance(base, Sequence) else [], patch, key, field, path)
    return patch


def _list(base: Sequence[Any], patch: Sequence[Any], key: str | None, field: str, path: Path) -> list[Any] | None:
    directives = {_directive(item, (*path, place)) for place, item in enumerate(patch) if _is_bare(item)}
    if "delete" in directives:
        return None
    items = [(place, item) for place, item in enumerate(patch) if not _is_bare(item)]
    merged = [] if key is None or "replace" in directives else list(base)
    for place, item in items:
        at = (*path, place)
        if key is None:
            if isinstance(item, Mapping) and DIRECTIVE in item:
                raise PatchError(at, f"{field} is replaced as a whole, so its items cannot have a directive")
            merged.append(_value(None, item, None, field, at))
            continue
        if not isinstance(item, Mapping) or item.get(key) is None:
            raise PatchError(at, f"requires {key}: items of {field} are merged by it")
        found = next(_places(merged, key, item[key]), len(merged))
        result = _value(merged[found] if found < len(merged) else {}, item, None, field, at)
        merged[found : found + 1] = [] if result is None else [result]
    return merged


def _places(items: Sequence[Any], key: str, value: Any) -> Iterator[int]:
    return (place for place, item in enumerate(items) if isinstance(item, Mapping) and item.get(key) == value)


def _is_bare(item: Any) -> bool:
    return isinstance(item, Mapping) and set(item) == {DIRECTIVE}


def _directive(patch: Any, path: Path) -> str | None:
    """delete or replace; None if the mapping merges."""
    word = patch.get(DIRECTIVE, "merge") if isinstance(patch, Mapping) else "merge"
    if word not in ("delete", "replace", "merge"):
        shown = quoted(word) if isinstance(word, str) else "this value"
        raise PatchError((*path, DIRECTIVE), f"{shown} is not supported (supported values: delete, replace, merge)")
    return None if word == "merge" else word
