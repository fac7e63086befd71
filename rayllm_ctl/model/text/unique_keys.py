"""YAML in which a key stands twice is rejected: PyYAML takes the last one, as nobody means it."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def unique_key_loader(yaml: ModuleType, loader: type[Any]) -> type[Any]:
    """`loader`, a safe loader of the package `yaml`, that raises yaml.MarkedYAMLError for a duplicate key."""

    class UniqueKeyLoader(loader):  # type: ignore[misc]
        def flatten_mapping(self, node: Any) -> None:
            # The first time that a mapping is read; merged mappings (<<) are then laid out in it.
            if not hasattr(node, "rayllm_checked"):
                node.rayllm_checked = True
                _require_unique(yaml, node)
            super().flatten_mapping(node)

    return UniqueKeyLoader


def _require_unique(yaml: ModuleType, node: Any) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            continue
        found = key.tag, key.value
        if found in lines:
            message = f'duplicate key "{key.value}", first in line {lines[found]}'
            raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
        lines[found] = key.start_mark.line + 1
