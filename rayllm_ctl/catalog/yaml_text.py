"""YAML and JSON files of users: prices and calibrations."""

from __future__ import annotations

from typing import Any


def parse_yaml(text: str) -> Any:
    """The plain data of a document. yaml.YAMLError if it is not valid, or if a mapping has a key twice."""
    import yaml

    class UniqueKeyLoader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        message = f'the key "{key.value}" is twice'
                        raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    return yaml.load(text, UniqueKeyLoader)  # noqa: S506  a safe loader
