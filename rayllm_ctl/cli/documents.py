"""Documents for machines: what `-o json` and `-o yaml` print. docs/reference/json.md describes each kind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from rayllm_ctl.model.text.json_form import to_json

DOCUMENT_VERSION = "cli.rayllm.io/v1"
"""The version of all documents: it changes when a field is removed, renamed or has another meaning."""

MACHINE_FORMATS = ("json", "yaml")
"""The formats that print a document."""


def print_document(kind: str, data: Mapping[str, Any] | object, output: str, **more: Any) -> None:
    """Print one document on standard output. data: a mapping or a dataclass; more: fields that come before its own."""
    _print({**_head(kind), **more, **to_json(data)}, output)


def print_list(kind: str, items: Iterable[Any], output: str) -> None:
    """Print a document with items, each a mapping or a dataclass. kind: of the list."""
    _print({**_head(kind), "items": [to_json(item) for item in items]}, output)


def print_line(kind: str, data: Mapping[str, Any] | object, output: str, **more: Any) -> None:
    """Print one document of a stream: a line of JSON, or a YAML document after a line `---`."""
    found = {**_head(kind), **more, **to_json(data)}
    if output == "json":
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        from rayllm_ctl.model.text.yaml_text import dump

        click.echo("---\n" + dump(found), nl=False)


def print_manifests(manifests: Sequence[Mapping[str, Any]], output: str) -> None:
    """Manifests as canonical YAML, their names, or a v1 List in JSON, which kubectl reads as well."""
    if output == "json":
        _print({"apiVersion": "v1", "kind": "List", "items": list(manifests)}, output)
    elif output == "name":
        for manifest in manifests:
            group = manifest["apiVersion"].rpartition("/")[0]
            click.echo(_resource_name(manifest["kind"], group, manifest["metadata"]["name"]))
    else:
        from rayllm_ctl.model.text.yaml_text import dump_all

        click.echo(dump_all(manifests), nl=False)


def object_name(kind: str, name: str) -> str:
    """An object as `-o name` prints it: rayservice.ray.io/qwen, configmap/qwen."""
    from rayllm_ctl.model.kube.api_kinds import kind as kind_of

    return _resource_name(kind, kind_of(kind).group, name)


def _resource_name(kind: str, group: str, name: str) -> str:
    return f"{kind.lower()}{f'.{group}' if group else ''}/{name}"


def _head(kind: str) -> dict[str, Any]:
    return {"apiVersion": DOCUMENT_VERSION, "kind": kind}


def _print(document: Mapping[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        from rayllm_ctl.model.text.yaml_text import dump

        click.echo(dump(document), nl=False)
