"""Write docs/llmservice.schema.json and docs/batchjob.schema.json, the JSON schemas of spec files."""

from __future__ import annotations

from pathlib import Path

from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.specfile.schema import text

DOCS = Path(__file__).parents[1] / "docs"

if __name__ == "__main__":
    for kind in (LLMService, BatchJob):
        (DOCS / f"{kind.__name__.lower()}.schema.json").write_text(text(kind), encoding="utf-8")
