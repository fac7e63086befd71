#!/usr/bin/env python3
"""Add models to the catalog, and compute the summaries of all that it has.

    python scripts/catalog_models.py entries.jsonl
    python scripts/catalog_models.py

Each line of the input is one model, with the whole config.json (and hf_quant_config.json where the checkpoint has one):

    {"id": "org/name", "source": "owner/repo@commit:path", "config": {...}, "hf_quant_config": {...}}
    {"id": "org/other-name", "source": "owner/repo@commit:path", "as": "org/name"}

The second form is a model whose config says the same as another's. What is stored is the fields that planning reads,
and a summary of the model, which is computed again for all models. An id that is there already is replaced. A config
that cannot be read stops everything.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog.modelconfig import compact, read_config
from rayllm_ctl.catalog.summary import summarize

CATALOG = Path(__file__).resolve().parent.parent / "rayllm_ctl" / "catalog" / "data" / "models.jsonl"

_LATER_EXPERT = re.compile(r"\.experts\.[1-9]\d*\.")


def stored(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One entry as the catalog keeps it."""
    if "as" in entry:
        return {"id": entry["id"], "source": entry["source"], "as": entry["as"]}
    config = compact(entry["config"], hf_quant_config=entry.get("hf_quant_config"))
    fewer = with_one_expert(config)
    if fewer != config and read_config(fewer) == read_config(config):
        config = fewer
    return {"id": entry["id"], "source": entry["source"], "config": config}


def with_one_expert(value: Any) -> Any:
    """A config whose quantization names the modules of the first expert of each layer only: all are loaded as one."""
    if isinstance(value, list):
        return [with_one_expert(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: with_one_expert(one) for key, one in value.items() if not _LATER_EXPERT.search(key)}


def read(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Entries by lower-case id, as they are written."""
    entries = (json.loads(line) for line in lines if line.strip())
    return {entry["id"].lower(): entry for entry in entries}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("entries", type=Path, nargs="?", help="JSON lines as above")
    parser.add_argument("--fresh", action="store_true", help="forget the models that the catalog has")
    options = parser.parse_args()
    known = {} if options.fresh or not CATALOG.is_file() else read(CATALOG.read_text(encoding="utf-8").splitlines())
    added = options.entries.read_text(encoding="utf-8").splitlines() if options.entries else []
    known |= {key: stored(entry) for key, entry in read(added).items()}
    lost = sorted(
        entry["as"] for entry in known.values() if "as" in entry and "config" not in known[entry["as"].lower()]
    )
    if lost:
        raise SystemExit(f"entries stand for models that are not there: {', '.join(lost)}")
    for entry in known.values():
        if "config" in entry:
            entry["summary"] = summarize(read_config(entry["config"]))
    lines = [json.dumps(known[key], separators=(",", ":"), ensure_ascii=True) for key in sorted(known)]
    CATALOG.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{CATALOG.name}: {len(lines)} names, {CATALOG.stat().st_size // 1024} kB\n")


if __name__ == "__main__":
    main()
