"""The CustomResourceDefinitions of LLMService and BatchJob; scripts/crds.py writes them into the operator's chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.service import API_VERSION, LLMService
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.specfile.crd import batch, sections, service, storage
from rayllm_ctl.specfile.crd.rule import CelRules
from rayllm_ctl.specfile.crd.schema import Schema, SchemaMaker
from rayllm_ctl.specfile.crd.status import BATCH_COLUMNS, BATCH_STATUS, SERVICE_COLUMNS, SERVICE_STATUS
from rayllm_ctl.specfile.form import spec_fields

GROUP, _, VERSION = API_VERSION.partition("/")

_SCALE = {
    "specReplicasPath": ".spec.replicas.count",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def definitions() -> tuple[dict[str, Any], ...]:
    """Both CustomResourceDefinitions."""
    return service_definition(), batch_definition()


def service_definition() -> dict[str, Any]:
    spec = SchemaMaker(_rules(service.LLM_SERVICE_RULES), service.SERVICE_ARGUMENTS).section(
        LLMService, spec_fields(LLMService)
    )
    return _definition(LLMService, "llms", spec, SERVICE_STATUS, SERVICE_COLUMNS, {"status": {}, "scale": _SCALE})


def batch_definition() -> dict[str, Any]:
    spec = SchemaMaker(_rules(batch.BATCH_RULES), batch.BATCH_ARGUMENTS).section(BatchJob, spec_fields(BatchJob))
    return _definition(BatchJob, "llmbatch", spec, BATCH_STATUS, BATCH_COLUMNS, {"status": {}})


def chart_template() -> str:
    """The template of the chart. As a template, and not in crds/, `helm upgrade` updates the definitions; the
    annotation has `helm uninstall` keep them, and with them every service."""
    documents = []
    for definition in definitions():
        kept = {"helm.sh/resource-policy": "keep"}
        text = dump({**definition, "metadata": {**definition["metadata"], "annotations": kept}}, sort=False)
        if "{{" in text:
            raise ValueError("a definition contains {{, which Helm would read")
        documents.append(f"---\n{text}")
    return "".join(["{{- if .Values.crds.install }}\n", *documents, "{{- end }}\n"])


def _rules(own: CelRules) -> CelRules:
    return {**sections.SECTIONS, **storage.STORAGE, **own}


def _definition(
    kind: type,
    short: str,
    spec: Schema,
    status: Schema,
    columns: Sequence[Mapping[str, Any]],
    subresources: Mapping[str, Any],
) -> dict[str, Any]:
    singular = kind.__name__.lower()
    schema = {
        "type": "object",
        "description": " ".join((kind.__doc__ or "").partition("\n\n")[0].split()),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        "x-kubernetes-validations": [service.NAME_RULE.to_json()],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.__name__,
                "listKind": f"{kind.__name__}List",
                "plural": f"{singular}s",
                "singular": singular,
                "shortNames": [short],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                    "additionalPrinterColumns": list(columns),
                }
            ],
        },
    }
