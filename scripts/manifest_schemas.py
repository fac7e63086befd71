#!/usr/bin/env python3
"""Make the compact schemas that rendered manifests are checked with, from the published definitions of each kind.

    git clone https://github.com/ray-project/kuberay /tmp/kuberay
    go mod download k8s.io/kubernetes@v1.36.2 sigs.k8s.io/gateway-api@v1.4.1
    go mod download github.com/prometheus-operator/prometheus-operator@v0.85.0
    python scripts/manifest_schemas.py --kuberay /tmp/kuberay --modules "$(go env GOMODCACHE)"

It writes rayllm_ctl/render/schemas/manifests.json: the fields that exist and their types, strictly (what is not listed
is rejected), without descriptions, status and deprecated fields. Equal parts are stored once, over all kinds and all
versions of KubeRay, so that a version adds only what differs. What the schemas cannot say are CEL rules, the API
server's own checks of its kinds and those of the controllers (rayllm_ctl/kinds/rules).
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).resolve().parent.parent / "rayllm_ctl" / "render" / "schemas" / "manifests.json"

KUBERAY = {"1.4": "v1.4.2", "1.5": "v1.5.2", "1.6": "v1.6.2", "1.7": "v1.7.0"}
"""The release that stands for each version of KubeRay: its last. Only 1.5.1 added a field to the CRDs (authOptions)."""

KUBERAY_KINDS = ("rayservices", "rayclusters", "rayjobs")

KUBERNETES = "k8s.io/kubernetes@v1.36.2"
KUBERNETES_KINDS = {
    "v1 ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "v1 Secret": "io.k8s.api.core.v1.Secret",
    "v1 Service": "io.k8s.api.core.v1.Service",
    "v1 ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "v1 PersistentVolumeClaim": "io.k8s.api.core.v1.PersistentVolumeClaim",
    "apps/v1 Deployment": "io.k8s.api.apps.v1.Deployment",
    "batch/v1 Job": "io.k8s.api.batch.v1.Job",
    "networking.k8s.io/v1 Ingress": "io.k8s.api.networking.v1.Ingress",
    "networking.k8s.io/v1 NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "policy/v1 PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1 Role": "io.k8s.api.rbac.v1.Role",
    "rbac.authorization.k8s.io/v1 RoleBinding": "io.k8s.api.rbac.v1.RoleBinding",
}
MODULES = (
    KUBERNETES,
    "sigs.k8s.io/gateway-api@v1.4.1",
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
)
"""The Go modules that hold the other definitions."""

METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

CRDS = (
    "sigs.k8s.io/gateway-api@v1.4.1/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    *(
        "github.com/prometheus-operator/prometheus-operator@v0.85.0/example/prometheus-operator-crd/"
        f"monitoring.coreos.com_{plural}.yaml"
        for plural in ("podmonitors", "servicemonitors")
    ),
)

KEPT = ("type", "enum", "required", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems")
DEPRECATED = ("serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold", "serviceAccount")
"""Fields that the Go types call deprecated (rayservice_types.go, core/v1 PodSpec); the CRD itself does not say so."""

QUANTITY = {
    "type": ["integer", "string"],
    "pattern": r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    "quantity": True,
}
"""Numbers of built-in kinds may have a fraction; rendering has made a string of them (render.goform)."""

INT_OR_STRING = {"type": ["integer", "string"]}
FORMATS = {"int32": (-(2**31), 2**31 - 1)}


def crd_schema(crd: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """`apiVersion kind` of a CustomResourceDefinition, and the strict schema of its stored version."""
    version = next(entry for entry in crd["spec"]["versions"] if entry["storage"])
    schema = strict(version["schema"]["openAPIV3Schema"], {})
    group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
    return f"{group}/{version['name']} {kind}", rooted(schema, metadata, ("spec",))


def rooted(schema: dict[str, Any], metadata: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """`schema` of a whole object, as a manifest holds it."""
    fields = {name: part for name, part in schema["properties"].items() if name != "status"}
    fields |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": dict(metadata)}
    return {**schema, "properties": fields, "required": ["apiVersion", "kind", "metadata", *required]}


def strict(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The compact schema of an OpenAPI schema; references go to `definitions`."""
    while "$ref" in schema or "allOf" in schema:
        schema = schema["allOf"][0] if "allOf" in schema else definitions[schema["$ref"].removeprefix("#/definitions/")]
    description = schema.get("description", "")
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return QUANTITY if "pattern" in schema else INT_OR_STRING
    if description.startswith("Quantity is a fixed-point representation"):
        return QUANTITY
    result = {key: schema[key] for key in KEPT if key in schema}
    if schema.get("format") in FORMATS:
        low, high = FORMATS[schema["format"]]
        result["minimum"] = max(low, schema.get("minimum", low))
        result["maximum"] = min(high, schema.get("maximum", high))
    if schema.get("nullable"):
        result["type"] = [result["type"], "null"]
    if "properties" in schema:
        result["properties"] = {
            name: strict(part, definitions)
            for name, part in sorted(schema["properties"].items())
            if name not in DEPRECATED
        }
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            result["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = strict(schema["additionalProperties"], definitions)
    if "items" in schema:
        result["items"] = strict(schema["items"], definitions)
        if schema.get("x-kubernetes-list-type") == "map":
            fields = schema["items"].get("properties") or resolved(schema["items"], definitions)["properties"]
            result["keys"] = {key: fields[key].get("default") for key in schema["x-kubernetes-list-map-keys"]}
    return result


def resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    name = (schema["allOf"][0] if "allOf" in schema else schema)["$ref"].removeprefix("#/definitions/")
    return definitions[name]


def stored_once(schemas: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The schemas with every part that occurs more than once below `parts`, by a name that its field gave it."""
    counts: Counter[str] = Counter()
    hints: dict[str, str] = {}

    def count(part: dict[str, Any], field: str) -> None:
        key = text(part)
        counts[key] += 1
        hints.setdefault(key, field)
        if counts[key] == 1:
            for name, child in children(part):
                count(child, name or field)

    names: dict[str, str] = {}
    parts: dict[str, Any] = {}

    def name_of(key: str) -> str:
        simple = json.loads(key)
        wanted = simple["type"] if set(simple) == {"type"} and isinstance(simple["type"], str) else hints[key]
        taken = sum(1 for name in parts if name.partition("-")[0] == wanted)
        return f"{wanted}-{taken + 1}" if taken else wanted

    def placed(part: dict[str, Any]) -> dict[str, Any] | str:
        key = text(part)
        if counts[key] == 1:
            return inner(part)
        if key not in names:
            names[key] = name_of(key)
            parts[names[key]] = None  # the name is taken
            parts[names[key]] = inner(part)
        return names[key]

    def inner(part: dict[str, Any]) -> dict[str, Any]:
        result = {key: value for key, value in part.items() if key != "required" or value}
        if "properties" in part:
            result["properties"] = {name: placed(child) for name, child in part["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(part.get(key), dict):
                result[key] = placed(part[key])
        return result

    for name, schema in schemas.items():
        count(schema, name.rpartition(" ")[2])
    return {"kinds": {name: placed(schema) for name, schema in schemas.items()}, "parts": parts}


def children(part: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from part.get("properties", {}).items()
    yield from (("", part[key]) for key in ("items", "additionalProperties") if isinstance(part.get(key), dict))


def text(part: Any) -> str:
    return json.dumps(part, sort_keys=True, separators=(",", ":"))


def of_git(repository: Path, tag: str, path: str) -> Any:
    show = ["git", "-C", str(repository), "show", f"{tag}:{path}"]
    return yaml.load(subprocess.run(show, capture_output=True, check=True).stdout, Loader=yaml.CSafeLoader)


def write(kuberay: Path, modules: Path) -> None:
    """Write the schemas from a clone of KubeRay's repository, with its tags, and Go's module cache."""
    swagger = modules / KUBERNETES / "api" / "openapi-spec" / "swagger.json"
    definitions = json.loads(swagger.read_text(encoding="utf-8"))["definitions"]
    metadata = strict(definitions[METADATA], definitions)
    schemas = {
        name: rooted(strict(definitions[definition], definitions), metadata)
        for name, definition in KUBERNETES_KINDS.items()
    }
    for path in CRDS:
        crd = yaml.load((modules / path).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        name, schema = crd_schema(crd, metadata)
        schemas[name] = schema
    for version, tag in KUBERAY.items():
        for plural in KUBERAY_KINDS:
            crd = of_git(kuberay, tag, f"ray-operator/config/crd/bases/ray.io_{plural}.yaml")
            name, schema = crd_schema(crd, metadata)
            schemas[f"{name} {version}"] = schema
    TARGET.write_text(text(stored_once(schemas)) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kuberay", type=Path, required=True, help="clone of KubeRay's repository, with its tags")
    parser.add_argument("--modules", type=Path, required=True, help="Go's module cache")
    arguments = parser.parse_args()
    write(arguments.kuberay, arguments.modules)


if __name__ == "__main__":
    main()
