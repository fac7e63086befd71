"""Write docs/llmservice.schema.json, the JSON schema of the spec file."""

from __future__ import annotations

from pathlib import Path

from rayllm_ctl.specfile.schema import text

TARGET = Path(__file__).parents[1] / "docs" / "llmservice.schema.json"

if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
