"""The fields in which two objects differ. Parts of a list are matched by name, as people do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from rayllm_ctl.frozen import dataclass

FieldPath = tuple[str, ...]
"""Keys from the root of an object; an item of a list is its name or position in brackets: `[ray-head]`, `[0]`."""

_KEYS = ("name", "groupName", "mountPath", "key")


@dataclass(frozen=True)
class Difference:
    """A field that differs. None: absent."""

    path: FieldPath
    old: Any
    new: Any


def field_differences(old: Any, new: Any, path: FieldPath = ()) -> Iterator[Difference]:
    """The smallest differing parts, in the order of `old`, then what `new` adds. A null counts as absent."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in (*old, *(key for key in new if key not in old)):
            yield from field_differences(old.get(key), new.get(key), (*path, str(key)))
    elif _is_list(old) and _is_list(new):
        yield from _items(old, new, path)
    elif not (_empty(old) and _empty(new)):
        yield Difference(path, old, new)


def format_path(path: FieldPath) -> str:
    """As in spec.containers[ray-head].image; keys with dots of their own are quoted: annotations["a.b/c"]."""
    text = ""
    for part in path:
        if part.startswith("["):
            text += part
        elif re.fullmatch(r"[\w-]+", part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping at `path`, or an empty one: files may hold anything."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any, key: str) -> list[Mapping[str, Any]]:
    """The mappings of the list at `key`."""
    found = mapping(value).get(key)
    return [item for item in found if isinstance(item, Mapping)] if _is_list(found) else []


def _items(old: Sequence[Any], new: Sequence[Any], path: FieldPath) -> Iterator[Difference]:
    before, after = _by_name(old), _by_name(new)
    if before is not None and after is not None:
        for name in (*before, *(name for name in after if name not in before)):
            yield from field_differences(before.get(name), after.get(name), (*path, f"[{name}]"))
        kept = [name for name in before if name in after]
        if kept != [name for name in after if name in before]:
            yield Difference((*path, "order"), list(before), list(after))
    elif len(old) == len(new) and all(isinstance(item, Mapping) for item in (*old, *new)):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from field_differences(one, other, (*path, f"[{index}]"))
    elif not (_empty(old) and _empty(new)):
        yield Difference(path, old, new)


def _by_name(items: Sequence[Any]) -> dict[str, Any] | None:
    """The items by the first key that names each of them differently; None if there is no such key."""
    for key in _KEYS:
        names = [item.get(key) if isinstance(item, Mapping) else None for item in items]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return dict(zip(map(str, names), items, strict=True))
    return None


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, (Mapping, list, tuple)) and not value)
