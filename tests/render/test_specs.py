"""The golden corpus: what `render` prints of every spec in specs/, byte by byte, from the built-in catalog."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.specfile.form import Field, element_of, fields_of, spec_fields
from tests.conftest import Golden

SPECS = sorted((Path(__file__).parent / "specs").glob("*.yaml"))


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_spec(spec: Path, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    printed, warned = [], []
    for _ in range(2):
        code = app.run(["render", "--offline", "-f", str(spec)])
        out, err = capsys.readouterr()
        assert code == 0, err
        printed.append(out)
        warned.append(err)
    assert printed[0] == printed[1]
    if warned[0]:
        golden.check(f"specs/{spec.stem}.stderr.txt", warned[0])
    golden.check(f"specs/{spec.name}", printed[0])


def test_every_field_is_in_a_spec() -> None:
    used: set[str] = set()
    for spec in SPECS:
        used |= set(used_below(yaml.safe_load(spec.read_text(encoding="utf-8"))["spec"], "spec"))
    assert set(fields_below(spec_fields(), "spec")) - used == set()


def fields_below(fields: Mapping[str, Field], path: str) -> Iterator[str]:
    """Every field of the spec that is not a section, such as `spec.storage.volumes[].name`."""
    for key, field in fields.items():
        at, element = f"{path}.{key}", element_of(field.kind)
        if isinstance(field.kind, type) and dataclasses.is_dataclass(field.kind):
            yield from fields_below(fields_of(field.kind), at)
        elif isinstance(element, type) and dataclasses.is_dataclass(element):
            yield from fields_below(fields_of(element), f"{at}[]")
        else:
            yield at


def used_below(value: Any, path: str) -> Iterator[str]:
    yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from used_below(part, f"{path}.{key}")
    elif isinstance(value, list):
        for part in value:
            yield from used_below(part, f"{path}[]")
