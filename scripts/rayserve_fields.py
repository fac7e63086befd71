#!/usr/bin/env python3
"""Make the table of the fields that Ray Serve LLM takes, from the wheels of the supported releases of Ray.

    python -m scripts.rayserve_fields

It writes rayllm_ctl/catalog/data/rayserve.json: for each release in rayllm_ctl/catalog/releases.py the fields of the
configuration of a model, of a deployment and its autoscaling, with their types, and the types of accelerators. The
oldest release stands in full, each later one as its difference from the one before it.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog.releases import RELEASES
from scripts.engine_facts import difference
from tests.contract.library import Class, Library, Member, Module
from tests.contract.wheels import sources

TARGET = Path(__file__).resolve().parent.parent / "rayllm_ctl" / "catalog" / "data" / "rayserve.json"

_SERVE = "ray.llm._internal.serve.core"
CLASSES = {
    "args": "ray.serve.llm.LLMServingArgs",
    "config": "ray.serve.llm.LLMConfig",
    "loading": "ray.serve.llm.ModelLoadingConfig",
    "mirror": "ray.serve.llm.CloudMirrorConfig",
    "extraFiles": "ray.llm._internal.common.utils.cloud_utils.ExtraFiles",
    "lora": "ray.serve.llm.LoraConfig",
    "placement": "ray.llm._internal.common.placement.PlacementGroupConfig",
    "callback": "ray.llm._internal.common.callbacks.base.CallbackConfig",
    "ingressClass": f"{_SERVE}.ingress.builder.IngressClsConfig",
    "cpu": f"{_SERVE}.configs.accelerators.CPUConfig",
    "gpu": f"{_SERVE}.configs.accelerators.GPUConfig",
    "tpu": f"{_SERVE}.configs.accelerators.TPUConfig",
    "autoscaling": "ray.serve.config.AutoscalingConfig",
}
DEPLOYMENT = "ray.serve.api.deployment"
ACCELERATORS = "ray.util.accelerators.accelerators"
RUNTIME_ENV = "ray.runtime_env.RuntimeEnv"

_SIMPLE = {
    "str": "str", "bool": "bool", "int": "int", "PositiveInt": "int", "NonNegativeInt": "int", "float": "float",
    "PositiveFloat": "float", "NonNegativeFloat": "float", "dict": "dict", "Dict": "dict", "list": "list",
    "List": "list", "None": "null",
}  # fmt: skip


def facts(library: Library) -> dict[str, Any]:
    """What one release has."""
    found: dict[str, Any] = {name: dict(fields(library, path)) for name, path in CLASSES.items()}
    deployment = library.signature(library.find(DEPLOYMENT))
    if deployment is None:
        raise ValueError(f"{DEPLOYMENT} is not a function")
    found["deployment"] = [name for name in deployment.positional if not name.startswith("_") and name != "version"]
    found["accelerators"] = list(accelerators(library))
    return found


def fields(library: Library, path: str) -> Iterator[tuple[str, str]]:
    """The fields of a class with their types; one that is required begins with `!`."""
    owner = library.find(path)
    if not isinstance(owner, Class):
        raise ValueError(f"{path} is not a class")
    for name, statement in library.fields(owner).items():
        if not name.startswith("_"):
            yield name, ("!" if is_required(statement) else "") + types(statement.annotation)


def is_required(statement: ast.AnnAssign) -> bool:
    value = statement.value
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ("Field", "field")):
        return value is None
    if value.args:
        return isinstance(value.args[0], ast.Constant) and value.args[0].value is ...
    return not {"default", "default_factory"} & {keyword.arg for keyword in value.keywords}


def types(annotation: ast.expr) -> str:
    """The types of an annotation, as model.engineargs takes them: "null|str"; empty where a value may be anything.

    A class of Ray's own is a mapping, since a file has no other form for it.
    """
    found = sorted(set(_types(annotation)))
    return "" if "" in found else "|".join(found)


def _types(annotation: ast.expr) -> Iterator[str]:
    if isinstance(annotation, ast.Constant) and annotation.value is not None:
        yield from _types(ast.parse(str(annotation.value), mode="eval").body)
    elif isinstance(annotation, ast.BinOp):
        yield from (*_types(annotation.left), *_types(annotation.right))
    elif isinstance(annotation, ast.Subscript):
        head = ast.unparse(annotation.value)
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        if head == "Literal":
            yield "str"
        elif head in ("Optional", "Union"):
            yield from (["null"] if head == "Optional" else [])
            for one in inner:
                yield from _types(one)
        elif head in ("Type", "Callable"):
            return  # of no form in a file
        else:
            yield _SIMPLE.get(head, "")
    else:
        name = ast.unparse(annotation)
        yield _SIMPLE.get(name, "" if name == "Any" else "dict")


def accelerators(library: Library) -> Iterator[str]:
    """The values of the constants of Ray's module of accelerators."""
    module = library.find(ACCELERATORS)
    if not isinstance(module, Module):
        raise ValueError(f"{ACCELERATORS} is not a module")
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            yield str(statement.value.value)


def runtime_env(library: Library) -> Iterator[str]:
    """The fields of a runtime environment, by the names that its constructor has for them."""
    known = library.find(f"{RUNTIME_ENV}.known_fields")
    if not isinstance(known, Member) or not isinstance(known.statement, ast.AnnAssign) or known.statement.value is None:
        raise ValueError(f"{RUNTIME_ENV}.known_fields is not a set")
    names = {re.sub("^_(nsight|rocprof_sys)$", r"\1", one) for one in ast.literal_eval(known.statement.value)}
    return (name for name in names if not name.startswith("_"))


def document(known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The releases, oldest first, each as its difference from the one before it."""
    found: dict[str, Any] = {}
    before: Mapping[str, Any] | None = None
    for release, values in known.items():
        found[release] = values if before is None else difference(before, values)
        before = values
    return found


def read(releases: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What each release has, in full. Raises WheelMissing."""
    found = {}
    for release in releases:
        library = Library("ray", sources("ray", release))
        found[release] = facts(library)
        library.close()
    return found


def main() -> None:
    releases = document(read(tuple(release.ray for release in RELEASES)))
    rows = ",\n".join(
        f" {json.dumps(release)}: {{\n"
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
        + "\n }"
        for release, values in releases.items()
    )
    TARGET.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
    sys.stdout.write(f"{TARGET.name}: {len(releases)} releases, {TARGET.stat().st_size // 1024} kB\n")


if __name__ == "__main__":
    main()
