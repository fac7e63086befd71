"""The model catalog: configs of models that people deploy, so that a plan needs no network.

Data: data/models.jsonl, one line per name in the order of lower-case names. A line holds the fields of config.json that
planning reads and a summary of it, or the name of a model whose config says the same, and where that was read. Written
by scripts/catalog_models.py. A look-up parses one or two lines, never the file.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from rayllm_ctl.catalog import data
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.names import similar


@dataclass(frozen=True)
class CatalogModel:
    """One name. `config` is for read_config, `source` where it was read, `same_as` whose config it is. `summary`: what
    summarize() makes of the config."""

    id: str
    source: str
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    same_as: str | None = None


def find_model(model_id: str) -> CatalogModel | None:
    """The model of that name, in any case; None if the catalog has none."""
    entry = _entry(model_id)
    return None if entry is None else _model(entry)


def is_gated(model_id: str) -> bool:
    """Whether the hub hands the model over only to those who accepted its terms, and so only with a token.

    Data: data/gated.json, names with wildcards. What it does not list may be gated as well.
    """
    wanted = model_id.lower()
    organization = wanted.partition("/")[0]  # which no pattern has a wildcard in
    return any(fnmatchcase(wanted, one) for one in _gated() if one.partition("/")[0] == organization)


@cache
def _gated() -> tuple[str, ...]:
    return tuple(entry["models"].lower() for entry in json.loads(data.read_data("gated.json")))


def names() -> tuple[str, ...]:
    """All names, in alphabetical order."""
    return tuple(_name(line) for line in _lines())


def models() -> Iterator[CatalogModel]:
    """All models; parses everything (names that stand for another model repeat its config)."""
    for line in _lines():
        yield _model(json.loads(line))


def nearest_models(model_id: str, count: int = 3) -> tuple[str, ...]:
    """Names that `model_id` was probably meant to be: the same name of any organization first, then similar ones."""
    wanted = model_id.rstrip("/").rpartition("/")[2].lower()
    known = names()
    by_name: dict[str, str] = {}
    for name in known:
        by_name.setdefault(name.rpartition("/")[2].lower(), name)
    close = similar(wanted, by_name, count, 0.75)
    return tuple(by_name[name] for name in close)


def _model(entry: Mapping[str, Any]) -> CatalogModel:
    same_as = entry.get("as")
    whole = entry if same_as is None else _entry(same_as)
    if whole is None:
        raise ValueError(f"the catalog's {entry['id']} stands for {same_as}, which is not there")
    return CatalogModel(entry["id"], entry["source"], whole["config"], whole["summary"], same_as)


def _entry(model_id: str) -> dict[str, Any] | None:
    wanted = model_id.lower()
    text = _text()
    offset = bisect_left(range(len(text)), wanted, key=lambda offset: _name(_line(offset)).lower())
    if offset == len(text) or _name(_line(offset)).lower() != wanted:
        return None
    entry: dict[str, Any] = json.loads(_line(offset))
    return entry


def _line(offset: int) -> bytes:
    """The line that the byte at `offset` is in."""
    text = _text()
    return text[text.rfind(b"\n", 0, offset) + 1 : text.find(b"\n", offset)]


def _name(line: bytes) -> str:
    return str(json.loads(line[6 : line.index(b'","', 6) + 1]))


def _lines() -> list[bytes]:
    return _text().splitlines()


@cache
def _text() -> bytes:
    return (data.FOLDER / "models.jsonl").read_bytes()
