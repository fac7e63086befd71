"""Write docs/llmservice.schema.json and docs/batchjob.schema.json, the JSON schemas of spec files, and
charts/rayllm/values.schema.json, that of the values of the chart, which has the same fields.

Run it as `python scripts/spec_schema.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.specfile.schema import text

ROOT = Path(__file__).parents[1]
DOCS, CHART = ROOT / "docs", ROOT / "charts" / "rayllm"


def values_schema() -> str:
    """The schema of the chart's values, as text. A model or job that is null is left out, as Helm does it."""
    definitions = {kind.__name__: _spec(kind) for kind in (LLMService, BatchJob)}
    schema = {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "definitions": definitions,
        "properties": {
            "global": {"type": "object"},
            "models": _by_name("LLMService"),
            "batchJobs": _by_name("BatchJob"),
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    return json.dumps(schema, indent=1) + "\n"


def _spec(kind: type) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(text(kind))["properties"]["spec"]
    if "oneOf" in spec:  # alternatives that null would satisfy all at once
        spec["oneOf"] = [*({"type": "object", **one} for one in spec["oneOf"]), {"type": "null"}]
    return {**spec, "type": ["object", "null"]}


def _by_name(definition: str) -> dict[str, Any]:
    names = {"pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
    return {
        "type": "object",
        "propertyNames": names,
        "additionalProperties": {"$ref": f"#/definitions/{definition}"},
    }


if __name__ == "__main__":
    for kind in (LLMService, BatchJob):
        (DOCS / f"{kind.__name__.lower()}.schema.json").write_text(text(kind), encoding="utf-8")
    (CHART / "values.schema.json").write_text(values_schema(), encoding="utf-8")
