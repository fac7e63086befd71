"""The JSON schema of the spec file, for editors and CI; scripts/spec_schema.py writes it into docs/."""

from __future__ import annotations

import json
from typing import Any


def schema() -> dict[str, Any]:
    """The schema (draft 2020-12), generated from the models that read the file."""
    from rayllm_ctl.specfile.models import Document

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://rayllm.io/schemas/llmservice-v1alpha1.json",
        **Document.model_json_schema(by_alias=True, mode="validation"),
        "title": "LLMService",
    }


def text() -> str:
    """The schema as the file in docs/ holds it."""
    return json.dumps(schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
