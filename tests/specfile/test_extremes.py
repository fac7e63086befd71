"""Numbers, durations and quantities of every field, at and beyond their limits."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.quantities import canonical_quantity, parse_duration, parse_quantity
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.form import Unit
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.render.manifests import render
from rayllm_ctl.specfile.form import Field, fields_of, spec_fields
from rayllm_ctl.specfile.load import load_any
from rayllm_ctl.workflows.plan.model import make_plan

LARGEST = 2**31 - 1
TOO_LARGE: Mapping[Any, tuple[Any, ...]] = {
    Unit.SECONDS: (1e308, math.inf, math.nan, 10**399, LARGEST + 1, "99999999999999999999h", f"{'9' * 400}h"),
    Unit.QUANTITY: ("1e400", "100Ei", "1e999999999", "1e-999999999", "9" * 400, 1e308, math.inf),
    Unit.LENGTHS: (10**399, 2**63, LARGEST + 1, "uniform:1:99999999", "lognormal:9:10", f"lognormal:{'9' * 400}:1"),
    float: (1e308, math.inf, math.nan, 10**399, float(2**31)),
    int: (10**399, 2**63, LARGEST + 1),
}
LARGE: Mapping[Any, tuple[Any, ...]] = {
    Unit.SECONDS: (LARGEST, 99_999, 1e-300),
    Unit.QUANTITY: ("8Ei", "1e-9"),
    Unit.LENGTHS: (LARGEST, "lognormal:9999999:9", "uniform:1:10000000", "lognormal:1:9.5"),
    float: (1e6, 1e-300),
    int: (LARGEST,),
}
BASES: Mapping[type, Mapping[str, Any]] = {
    LLMService: {"model": {"id": "Qwen/Qwen3-8B"}, "accelerator": {"gpu": "L4"}},
    BatchJob: {
        "model": {"id": "Qwen/Qwen3-8B"},
        "accelerator": {"gpu": "L4"},
        "input": {"paths": ["s3://bucket/in.txt"]},
        "output": {"path": "s3://bucket/out"},
    },
}
BESIDE: Mapping[tuple[str, ...], Mapping[str, Any]] = {
    ("engine", "transformers"): {"engine": {"kind": "transformers", "image": "a/b:c"}},
    ("exposure", "gateway"): {"exposure": {"gateway": {"name": "g"}}},
}
"""What sections require."""

SEED = ("sampling", "seed")
"""Has 64 bits."""


def numbers(fields: Mapping[str, Field], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The paths of fields that are numbers, below sections, with their kind."""
    for key, field in fields.items():
        if isinstance(field.kind, type) and dataclasses.is_dataclass(field.kind):
            yield from numbers(fields_of(field.kind), (*at, key))
        elif field.unit is not None or field.kind in (int, float):
            yield (*at, key, *filter(None, [field.wrapped])), field.unit or field.kind


PLACES = [
    (kind, at, of)
    for kind in (LLMService, BatchJob)
    for at, of in numbers(spec_fields(kind))
    if kind is LLMService or "transformers" not in at
]


def document(kind: type, at: tuple[str, ...], value: Any) -> str:
    spec = json.loads(json.dumps({**BASES[kind], **BESIDE.get(at[:2], {})}))
    section = spec
    for key in at[:-1]:
        section = section.setdefault(key, {})
    section[at[-1]] = value
    head = {"apiVersion": "rayllm.io/v1alpha1", "kind": kind.__name__, "metadata": {"name": "q"}}
    return json.dumps({**head, "spec": spec})


def names(found: UserError, at: tuple[str, ...]) -> bool:
    return f"spec.{'.'.join(at)}" in found.message


def test_there_are_many_fields() -> None:
    assert len(PLACES) > 80
    assert {of for _, _, of in PLACES} == set(TOO_LARGE)


@pytest.mark.parametrize(("kind", "at", "of"), PLACES)
def test_what_is_too_large_is_rejected_with_its_field(kind: type, at: tuple[str, ...], of: Any) -> None:
    for value in TOO_LARGE[of][: 2 if at == SEED else None]:
        with pytest.raises(UserError) as found:
            load_any(document(kind, at, value), source="spec.yaml")
        assert names(found.value, at), (value, found.value.message)


@pytest.mark.parametrize(("kind", "at", "of"), [place for place in PLACES if place[0] is LLMService])
def test_what_is_planned_can_be_rendered(kind: type, at: tuple[str, ...], of: Any) -> None:
    for value in LARGE[of]:
        try:
            service = load_any(document(kind, at, value), source="spec.yaml")
        except UserError:
            continue
        assert isinstance(service, LLMService)
        plan = make_plan(service, FactSources(offline=True))
        if plan.runs:
            assert render(plan)


@pytest.mark.parametrize("text", ["8Ei", "9223372036854775807", "-9223372036854775807", "1e18"])
def test_the_largest_quantities(text: str) -> None:
    assert abs(parse_quantity(text)) <= 2.0**63
    assert canonical_quantity(text)


@pytest.mark.parametrize("text", ["9Ei", "1e19", "1e400", "1e-1000", "1e1000", "9" * 30])
def test_larger_quantities(text: str) -> None:
    for read in (parse_quantity, canonical_quantity):
        with pytest.raises(ValueError, match=r"exceeds the largest quantity|is not a"):
            read(text)


def test_the_longest_duration() -> None:
    assert parse_duration("2562047h") == 2562047 * 3600
    for text in ("2562048h", f"{'9' * 400}s"):
        with pytest.raises(ValueError, match="exceeds the longest duration"):
            parse_duration(text)
