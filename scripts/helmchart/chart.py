"""The generated files of the chart."""

from __future__ import annotations

import json
from pathlib import Path

from jinja2 import nodes

from e2e.versions import KUBERAY
from rayllm_ctl import __version__
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.render.manifests import OBJECTS
from scripts.helmchart import gotemplate
from scripts.helmchart.form import schema
from scripts.helmchart.texts import readme, values_yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "rayllm"
TEMPLATES = ROOT / "rayllm_ctl" / "render" / "templates"
METADATA = {
    "apiVersion": "v2",
    "name": "rayllm",
    "description": "A model served by Ray Serve LLM and vLLM with KubeRay, as planned by rayllm-ctl",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "keywords": ["kuberay", "ray", "vllm", "llm", "serving"],
    "annotations": {"rayllm.io/kuberay": f"needs the KubeRay operator, for instance {KUBERAY}"},
}
PATCHED = '{{- include "rayllm.patched" (dict "root" $ "object" "%s") }}\n'
MADE = "{{- /* Made from %s by `make chart`. Do not edit. */}}\n"


def files() -> dict[str, str]:
    """The text of each generated file by its path in the chart."""
    return {
        "Chart.yaml": "# Made by `make chart`. Do not edit.\n" + dump(METADATA, sort=False),
        "values.yaml": "# Made by `make chart`. Do not edit: put values of your own into a file of your own.\n"
        + values_yaml(),
        "values.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        "README.md": readme(),
        **templates(),
    }


def templates() -> dict[str, str]:
    """A file for each template: its macros as definitions, and the object that it lays out."""
    parsed = {path.name: gotemplate.read(path.read_text(encoding="utf-8")) for path in sorted(TEMPLATES.glob("*.j2"))}
    macros = gotemplate.macros_of(parsed.values())
    written = {}
    for name, template in parsed.items():
        kind = name.removesuffix(".yaml.j2")
        parts = [gotemplate.definition(macros[macro.name], macros) for macro in template.find_all(nodes.Macro)]
        laid_out = gotemplate.body(template, macros)
        if name in OBJECTS:
            parts.append(_define(f"object.{kind}", laid_out))
            parts.append(PATCHED % kind)
        elif any(isinstance(node, (nodes.Output, nodes.If, nodes.For)) for node in template.body):
            parts.append(_define(camel(kind.replace("-", "_")) + "Text", laid_out))
        else:
            parts.append(laid_out.removeprefix("\n") + "\n")
        path = f"templates/{kind}.yaml" if name in OBJECTS else f"templates/_{kind}.tpl"
        written[path] = MADE % name + "\n".join(filter(str.strip, parts))
    return written


def _define(name: str, text: str) -> str:
    return f'{{{{- define "{gotemplate.PREFIX}{name}" }}}}{text}\n{{{{- end }}}}\n'
