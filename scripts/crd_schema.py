#!/usr/bin/env python3
"""Make the compact schema that rendering validates against from a CustomResourceDefinition of KubeRay.

    go mod download github.com/ray-project/kuberay/ray-operator@v1.6.2
    cd "$(go env GOMODCACHE)"/github.com/ray-project/kuberay/ray-operator@v1.6.2/config/crd/bases
    python scripts/crd_schema.py ray.io_rayservices.yaml      # with the path of this script from there

It writes rayllm_ctl/render/schemas/<kind>-<version>.json: the fields that exist and their types, strictly (what is not
listed is refused), without descriptions, status and deprecated fields, repeated parts once. What it cannot say are CEL
rules and the operator's own checks: those need a server-side dry run.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).resolve().parent.parent / "rayllm_ctl" / "render" / "schemas"
KEPT = ("type", "enum", "required", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems")
DEPRECATED = ("serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold", "serviceAccount")
"""Fields that the Go types call deprecated (rayservice_types.go, core/v1 PodSpec); the CRD itself does not say so."""

SHARED_FROM = 60
"""Characters from which on a repeated part is worth a definition of its own."""


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a structural OpenAPI schema, with unlisted fields refused."""
    result = {key: schema[key] for key in KEPT if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if schema.get("nullable"):
        kind = result["type"]
        result["type"] = [*(kind if isinstance(kind, list) else [kind]), "null"]
    if "properties" in schema:
        result["properties"] = {
            name: strict(part) for name, part in sorted(schema["properties"].items()) if name not in DEPRECATED
        }
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            result["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = strict(schema["additionalProperties"])
    if "items" in schema:
        result["items"] = strict(schema["items"])
    return result


def share(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` with parts that occur more than once moved to $defs."""
    counts: Counter[str] = Counter()

    def count(part: dict[str, Any]) -> None:
        counts[text(part)] += 1
        if counts[text(part)] == 1:
            for child in children(part):
                count(child)

    def replace(part: dict[str, Any]) -> dict[str, Any]:
        key = text(part)
        if counts[key] > 1 and len(key) >= SHARED_FROM:
            if key not in names:
                names[key] = str(len(names))
                definitions[names[key]] = inner(part)
            return {"$ref": f"#/$defs/{names[key]}"}
        return inner(part)

    def inner(part: dict[str, Any]) -> dict[str, Any]:
        result = dict(part)
        if "properties" in part:
            result["properties"] = {name: replace(child) for name, child in part["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(part.get(key), dict):
                result[key] = replace(part[key])
        return result

    names: dict[str, str] = {}
    definitions: dict[str, Any] = {}
    count(schema)
    return {**inner(schema), "$defs": definitions}


def children(part: dict[str, Any]) -> list[dict[str, Any]]:
    parts = list(part.get("properties", {}).values())
    return parts + [part[key] for key in ("items", "additionalProperties") if isinstance(part.get(key), dict)]


def text(part: dict[str, Any]) -> str:
    return json.dumps(part, sort_keys=True, separators=(",", ":"))


def compact(crd: dict[str, Any], version: str) -> dict[str, Any]:
    """The compact schema of one served version of a CustomResourceDefinition."""
    served = next(entry for entry in crd["spec"]["versions"] if entry["name"] == version)
    schema = strict(served["schema"]["openAPIV3Schema"])
    schema["properties"].pop("status", None)
    group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
    schema["properties"]["apiVersion"] = {"const": f"{group}/{version}"}
    schema["properties"]["kind"] = {"const": kind}
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return share(schema)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crd", type=Path, help="file of the CustomResourceDefinition")
    parser.add_argument("--version", default="v1", help="its served version (default v1)")
    arguments = parser.parse_args()
    with arguments.crd.open(encoding="utf-8") as file:
        crd = yaml.load(file, Loader=yaml.CSafeLoader)
    TARGET.mkdir(exist_ok=True)
    target = TARGET / f"{crd['spec']['names']['singular']}-{arguments.version}.json"
    target.write_text(text(compact(crd, arguments.version)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
