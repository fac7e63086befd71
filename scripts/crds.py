"""Write charts/rayllm-operator/templates/crds.yaml, the CustomResourceDefinitions of LLMService and BatchJob."""

from __future__ import annotations

from pathlib import Path

from rayllm_ctl.specfile.crd.definition import chart_template

TEMPLATE = Path(__file__).parents[1] / "charts" / "rayllm-operator" / "templates" / "crds.yaml"

if __name__ == "__main__":
    TEMPLATE.parent.mkdir(parents=True, exist_ok=True)
    TEMPLATE.write_text(chart_template(), encoding="utf-8")
