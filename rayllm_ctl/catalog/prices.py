"""Prices of GPUs: the built-in list, and the user's own over it.

A price file (YAML or JSON) looks like the built-in one:

    date: 2026-10-01
    source: our contract with the cloud
    prices:
      H100-80GB: {aws: 4.10, on-premises: 2.20}
      L4: 0.62

A bare number holds wherever the GPU is rented. The GPUs that a user's file names lose their built-in prices, all others
keep them. The file is `--prices FILE`, else `$XDG_CONFIG_HOME/rayllm-ctl/prices.yaml` where it exists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog import data
from rayllm_ctl.catalog.yaml_text import parse_yaml
from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import read_input
from rayllm_ctl.frozen import dataclass

ANYWHERE = "any"
"""The cloud of a price that was given as a bare number."""

_MAX_BYTES = 1_000_000
_MOST = 1_000_000
"""USD per GPU and hour."""


@dataclass(frozen=True)
class PriceList:
    """Prices by GPU as the file names it, then by cloud (aws, gcp, azure, any, ...), in USD per GPU and hour.

    origin: "built-in" or the path of the file. note: the date and the source that the file states.
    """

    by_gpu: Mapping[str, Mapping[str, float]]
    origin: str
    note: str


def user_file() -> Path:
    """Where a user's own price list is looked for: $XDG_CONFIG_HOME/rayllm-ctl/prices.yaml."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "rayllm-ctl" / "prices.yaml"


@cache
def built_in() -> tuple[PriceList, ...]:
    """The prices that come with the program, by date; each list adds clouds to those before it."""
    return tuple(_checked(document, "built-in") for document in json.loads(data.read_data("prices.json")))


def read_prices(path: Path | None = None, *, named_only: bool = False) -> PriceList | None:
    """The user's prices: those of `path`, else, unless named_only, of the file in the configuration folder; None if
    there is none.

    UsageError if `path` is missing or is not a price list. `gpus.load` lays them over the built-in ones.
    """
    if path is None and named_only:
        return None
    path = path or user_file()
    if path == user_file() and not path.is_file():
        return None
    return _checked(_parse(path), str(path))


def _parse(path: Path) -> Any:
    try:
        content = read_input(path, "--prices FILE", _MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise UsageError(f"price list {path} is larger than {_MAX_BYTES // 1000} kB")
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(
            f"the price list {path} cannot be read: {reason.lower()}", hint=f"--prices FILE    # {_FORM}"
        ) from error
    import yaml

    try:
        return parse_yaml(text)
    except yaml.YAMLError as error:
        raise UsageError(f"price list {path} is not valid YAML: {' '.join(str(error).split())}", hint=_FORM) from error


def _checked(document: Any, where: str) -> PriceList:
    if not isinstance(document, Mapping) or not isinstance(document.get("prices"), Mapping):
        raise _wrong(where, "it has no mapping `prices`")
    unknown = sorted(str(key) for key in set(document) - {"prices", "date", "source"})
    if unknown:
        raise _wrong(where, f"it has the unknown key `{unknown[0]}`")
    prices: dict[str, dict[str, float]] = {}
    for name, value in document["prices"].items():
        by_cloud = value if isinstance(value, Mapping) else {ANYWHERE: value}
        prices[str(name)] = {}
        for cloud, amount in by_cloud.items():
            if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 <= amount <= _MOST:
                raise _wrong(where, f"the price of {name} ({cloud}) is {amount!r}, not a number of USD per hour")
            if amount == 0:
                raise _wrong(where, f"the price of {name} ({cloud}) is 0; it must be more, such as the cost of power")
            prices[str(name)][str(cloud)] = float(amount)
    note = ", ".join(str(document[key]) for key in ("date", "source") if document.get(key))
    if not note.isprintable():
        raise _wrong(where, "date and source must be text of one line, without control characters")
    return PriceList(prices, where, note or "no date given")


_FORM = "a price list looks like: {date: 2026-10-01, source: contract, prices: {H100-80GB: {aws: 4.1}, L4: 0.6}}"


def _wrong(where: str, problem: str) -> UsageError:
    return UsageError(
        f"price list {where}: {problem}",
        hint=_FORM,
    )
