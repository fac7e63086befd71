"""YAML and JSON files of users: prices and calibrations."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.model.text.unique_keys import unique_key_loader


def parse_yaml(text: str) -> Any:
    """The plain data of a document. yaml.YAMLError if it is not valid, or if a mapping has a key twice."""
    import yaml

    return yaml.load(text, unique_key_loader(yaml, yaml.SafeLoader))  # noqa: S506  a safe loader
