"""The model catalog: configs of models that people deploy, so that a plan needs no network.

Data: data/models.jsonl, one line per name in the order of lower-case names. A line holds the fields of config.json that
planning reads, or the name of a model whose config says the same, and where that was read. Written by
scripts/catalog_models.py. A look-up parses one or two lines, never the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from rayllm_ctl.catalog import data
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.names import similar


@dataclass(frozen=True)
class CatalogModel:
    """One name. `config` is for read_config, `source` where it was read, `same_as` whose config it is."""

    id: str
    source: str
    config: Mapping[str, Any]
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
    return tuple(json.loads(line[6 : line.index('","', 6) + 1]) for line in _lines())


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
    return CatalogModel(entry["id"], entry["source"], whole["config"], same_as)


def _entry(model_id: str) -> dict[str, Any] | None:
    text, lower = _text()
    wanted = json.dumps(model_id.lower())
    start = lower.find(f'\n{{"id":{wanted},')
    if start < 0:
        return None
    entry: dict[str, Any] = json.loads(text[start + 1 : text.index("\n", start + 1)])
    return entry


def _lines() -> list[str]:
    return _text()[0].strip("\n").split("\n")


@cache
def _text() -> tuple[str, str]:
    """The file with a newline before its first line, and the same in lower case (equally long: it is ASCII)."""
    text = "\n" + data.read_data("models.jsonl")
    return text, text.lower()
