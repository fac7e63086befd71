"""Spec files that are written: read back, canonical, and in step with the published schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from hypothesis import given

from rayllm_ctl.model.spec.service import LLMService, Load, Model, Replicas, Storage, Volume
from rayllm_ctl.specfile import load
from rayllm_ctl.specfile.schema import schema, text
from rayllm_ctl.specfile.write import to_document, to_yaml
from tests.model.services import services, services_of_several
from tests.specfile.test_load import FULL

ROOT = Path(__file__).parents[2]
SCHEMA = jsonschema_rs.validator_for(schema())


@given(services() | services_of_several())
def test_what_is_written_is_what_is_read_and_satisfies_the_schema(service: LLMService) -> None:
    written = to_yaml(service)
    assert load(written, source="q.yaml") == service
    assert to_yaml(service) == written
    SCHEMA.validate(to_document(service))


def test_only_what_differs_from_the_defaults_is_written() -> None:
    service = LLMService(
        "q",
        Model("m"),
        replicas=Replicas(max=2, upscale_delay=90.0),
        storage=Storage((Volume("m", "/m", host_path="/d"),)),
        load=Load(tpot=1e-05),
    )
    assert to_yaml(service) == (
        "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata:\n  name: q\nspec:\n  model:\n    id: m\n"
        "  replicas:\n    max: 2\n    upscaleDelay: 90s\n"
        "  storage:\n    volumes:\n    - name: m\n      mountPath: /m\n      hostPath:\n        path: /d\n"
        "  load:\n    tpot: 0.00001s\n"
    )


def test_the_published_schema_is_current() -> None:
    published = (ROOT / "docs" / "llmservice.schema.json").read_text(encoding="utf-8")
    assert published == text(), "run scripts/spec_schema.py"


@pytest.mark.parametrize(
    "change",
    ["kind: LLMService -> kind: Other", "maxModelLen: 32768 -> maxModelLenght: 1",
     "maxNumSeqs: 128 -> maxNumSeqs: many", "objective: latency -> objective: fun",
     "upscaleDelay: 10s -> upscaleDelay: soon"],
)  # fmt: skip
def test_the_schema_refuses_what_the_reader_refuses(change: str) -> None:
    old, new = change.split(" -> ")
    assert SCHEMA.is_valid(_document(FULL))
    assert not SCHEMA.is_valid(_document(FULL.replace(old, new)))


def test_every_field_is_documented() -> None:
    reference = (ROOT / "docs" / "reference" / "spec.md").read_text(encoding="utf-8")
    fields = set(properties(schema()))
    missing = {name for name in fields if not re.search(rf"\b{name}\b", reference)}
    assert missing == set()


def properties(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        yield from part.get("properties", {})
        for inner in part.values():
            yield from properties(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from properties(inner)


def _document(text: str) -> object:
    # YAML 1.1 would read versions and times here in its own way; the schema is about the form.
    return yaml.load(text.replace("MODE: on", "MODE: 'on'"), Loader=yaml.SafeLoader)
