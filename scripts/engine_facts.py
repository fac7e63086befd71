"""Read what planning needs from the wheels of vLLM into the engine catalog.

    python -m scripts.engine_facts

The wheels are those that scripts/knowledge/wheels.lock pins; `make knowledge VLLM=0.34.0` adds one. Nothing of vLLM is
imported or run: the facts are read from the syntax trees of its sources. In rayllm_ctl/catalog/data/engines.json the
oldest version stands in full, and each later one as its difference from the one before it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from e2e.cluster import cache
from scripts.knowledge.wheels import package_sources, pinned

CATALOG = Path(__file__).resolve().parent.parent / "rayllm_ctl" / "catalog" / "data" / "engines.json"
SERVED = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")


class Sources:
    """The Python files of one version, parsed when asked for."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.parsed: dict[str, ast.Module | None] = {}

    def tree(self, path: str) -> ast.Module | None:
        if path not in self.parsed:
            file = self.package / path
            self.parsed[path] = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else None
        return self.parsed[path]

    def first(self, *paths: str) -> ast.Module:
        for path in paths:
            tree = self.tree(path)
            if tree is not None:
                return tree
        raise SystemExit(f"{self.package}: none of {', '.join(paths)}: has this version moved it?")


def assigned(tree: ast.AST, name: str) -> ast.expr | None:
    """The value that `name` is assigned anywhere in `tree` (the last one)."""
    value = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                value = node.value
    return value


def strings(node: ast.AST | None) -> list[str]:
    """The string constants inside `node`, in order."""
    found = [
        (n.lineno, n.col_offset, n.value)
        for n in (ast.walk(node) if node else ())
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    return [value for _, _, value in sorted(found)]


def class_named(tree: ast.Module, name: str) -> ast.ClassDef | None:
    return next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)


def function_named(tree: ast.AST, name: str) -> ast.FunctionDef | None:
    return next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name), None)


def fields(cls: ast.ClassDef) -> dict[str, ast.expr | None]:
    return {n.target.id: n.value for n in cls.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}


def keys(table: ast.expr | None) -> list[str]:
    return [str(k.value) for k in table.keys if isinstance(k, ast.Constant)] if isinstance(table, ast.Dict) else []


def registry(src: Sources) -> dict[str, Any]:
    """Architectures that generate text, those without pipeline parallelism, those removed with their last version."""
    tree = src.first("model_executor/models/registry.py")
    classes: dict[str, tuple[str, str]] = {}
    for table in SERVED:
        value = assigned(tree, table)
        if not isinstance(value, ast.Dict):
            continue
        for key, target in zip(keys(value), value.values, strict=True):
            names = strings(target)
            classes[key] = (names[0], names[1]) if len(names) == 2 else ("", "")
    removed = assigned(tree, "_PREVIOUSLY_SUPPORTED_MODELS")
    pairs = zip(keys(removed), removed.values, strict=True) if isinstance(removed, ast.Dict) else ()
    without = sorted(a for a, (module, name) in classes.items() if not supports_pipeline(src, module, name))
    return {
        "architectures": sorted(classes),
        "noPipeline": without,
        "removed": {k: v.value for k, v in pairs if isinstance(v, ast.Constant)},
    }


def supports_pipeline(src: Sources, module: str, name: str) -> bool:
    """Whether the class, or one it inherits from, declares SupportsPP (True where the class is not found)."""
    seen: set[tuple[str, str]] = set()
    todo = [(f"model_executor/models/{module.replace('.', '/')}", name)]
    if module.startswith("vllm."):
        todo = [(module.removeprefix("vllm.").replace(".", "/"), name)]
    found_any = False
    while todo:
        path, wanted = todo.pop()
        if (path, wanted) in seen:
            continue
        seen.add((path, wanted))
        tree = src.tree(f"{path}.py") or src.tree(f"{path}/__init__.py")
        if tree is None:
            continue
        cls = class_named(tree, wanted)
        imports = imported_from(tree, path)
        if cls is None:
            if wanted in imports:
                todo.append(imports[wanted])
            continue
        found_any = True
        for base in cls.bases:
            base_name = base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")
            if base_name == "SupportsPP":
                return True
            todo.append(imports.get(base_name, (path, base_name)))
    return not found_any


def imported_from(tree: ast.Module, path: str) -> dict[str, tuple[str, str]]:
    """Name -> (path, original name) of what a module imports from elsewhere in the package."""
    table: dict[str, tuple[str, str]] = {}
    nested = [n for f in tree.body if isinstance(f, (ast.FunctionDef, ast.Try, ast.If)) for n in f.body]
    for node in [*tree.body, *nested]:
        if not isinstance(node, ast.ImportFrom):
            continue
        module = (node.module or "").replace(".", "/")
        if node.level:
            parents = path.split("/")[: -node.level]
            module = "/".join([*parents, module]) if module else "/".join(parents)
        elif not module.startswith("vllm/"):
            continue
        for alias in node.names:
            table[alias.asname or alias.name] = (module.removeprefix("vllm/"), alias.name)
    return table


def chooses_by_gpu(src: Sources) -> ast.FunctionDef | None:
    """The function that chooses batch sizes by GPU memory; None for the first engine (before 0.8), which has none."""
    tree = src.first("engine/arg_utils.py")
    named = (function_named(tree, n) for n in ("get_batch_defaults", "_set_default_args", "_set_default_args_v1"))
    return next((function for function in named if function), None)


def batch_defaults(src: Sources) -> list[dict[str, Any]]:
    """The rules by GPU memory for the API server: first match wins; the last has no condition."""
    function = chooses_by_gpu(src)
    if function is None:
        return [{"minGiB": 0, "except": [], "tokens": 2048, "seqs": 256}]
    for node in ast.walk(function):
        if isinstance(node, ast.If) and "device_memory" in ast.unparse(node.test):
            return list(_rules(node))
    raise SystemExit(f"{src.package}: no defaults by GPU memory found in engine/arg_utils.py")


def _rules(node: ast.If) -> Iterator[dict[str, Any]]:
    test = ast.unparse(node.test)
    gib = re.search(r"device_memory >= (\d+) \* GiB_bytes", test)
    if gib is None:
        raise SystemExit(f"cannot read the condition {test!r}")
    excluded = re.findall(r"'(\w+)' not in device_name", test)
    yield {"minGiB": int(gib[1]), "except": excluded, **_limits(node.body)}
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        yield from _rules(node.orelse[0])
    else:
        yield {"minGiB": 0, "except": [], **_limits(node.orelse)}


def _limits(body: list[ast.stmt]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, key in (("default_max_num_batched_tokens", "tokens"), ("default_max_num_seqs", "seqs")):
        table = assigned(ast.Module(body=body, type_ignores=[]), name)
        if isinstance(table, ast.Dict):
            for context, value in zip(table.keys, table.values, strict=True):
                if ast.unparse(context or value).endswith("OPENAI_API_SERVER") and isinstance(value, ast.Constant):
                    found[key] = int(str(value.value))
        elif isinstance(table, ast.Constant):
            found[key] = int(str(table.value))
    return found


def arguments(src: Sources) -> dict[str, str]:
    """Names of engine arguments with their types: bool, int, float, str and null, joined by "|".

    The type is empty for any other: mappings, lists and classes, which vLLM accepts in several forms.
    """
    tree = src.first("engine/arg_utils.py")
    literals = literal_types(src)
    found: dict[str, str] = {}
    for name in ("EngineArgs", "AsyncEngineArgs"):
        cls = class_named(tree, name)
        for node in cls.body if cls is not None else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                types = type_names(node.annotation, literals)
                if types and isinstance(node.value, ast.Constant) and node.value.value is None:
                    types |= {"null"}
                found[node.target.id] = "|".join(sorted(types))
    return dict(sorted(found.items()))


def sampling_parameters(src: Sources) -> list[str]:
    """Names of the parameters of a request: what SamplingParams takes, without what it sets itself."""
    cls = class_named(src.first("sampling_params.py"), "SamplingParams")
    if cls is None:
        raise SystemExit(f"{src.package}: sampling_params.py has no SamplingParams")
    return sorted(name for name in fields(cls) if not name.startswith("_") and name != "output_text_buffer_length")


def literal_types(src: Sources) -> dict[str, set[str]]:
    """The types of the constants of each `Name = Literal[...]` in the modules of vllm.config."""
    found: dict[str, set[str]] = {}
    for file in sorted([*src.package.glob("config/*.py"), *src.package.glob("config.py")]):
        tree = src.first(str(file.relative_to(src.package)))
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                types = type_names(node.value, found)
                found.update({target.id: types for target in node.targets if isinstance(target, ast.Name) and types})
    return found


def type_names(node: ast.expr, literals: Mapping[str, set[str]]) -> set[str]:
    """The scalar types that an annotation allows; empty if it allows anything else as well."""
    match node:
        case ast.Name(id="bool" | "int" | "float" | "str" as name):
            return {name}
        case ast.Name(id=name):
            return set(literals.get(name, ()))
        case ast.Constant(value=None):
            return {"null"}
        case ast.Constant(value=str() as text):
            return type_names(ast.parse(text, mode="eval").body, literals)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return union(left, right, literals=literals)
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=options)):
            return union(*options, literals=literals)
        case ast.Subscript(value=ast.Name(id="Optional"), slice=option):
            return union(option, ast.Constant(None), literals=literals)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            return {type(n.value).__name__ for n in ast.walk(choices) if isinstance(n, ast.Constant)}
    return set()


def union(*options: ast.expr, literals: Mapping[str, set[str]]) -> set[str]:
    types = [type_names(option, literals) for option in options]
    return set().union(*types) if all(types) else set()


def utilization(src: Sources) -> float:
    tree = src.tree("config/cache.py") or src.first("config/__init__.py", "config.py")
    cls = class_named(tree, "CacheConfig")
    value = fields(cls).get("gpu_memory_utilization") if cls else None
    if value is None:
        cls = class_named(src.first("engine/arg_utils.py"), "EngineArgs")
        value = fields(cls).get("gpu_memory_utilization") if cls else None
    if isinstance(value, ast.Call):
        value = next((k.value for k in value.keywords if k.arg == "default"), None)
    if not isinstance(value, ast.Constant):
        raise SystemExit(f"{src.package}: no default of gpu_memory_utilization found")
    return float(str(value.value))


def environment_default(src: Sources, name: str) -> str | None:
    """The default of an environment variable as its getenv call spells it; None if it has none or does not exist."""
    table = assigned(src.first("envs.py"), "environment_variables")
    if isinstance(table, ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                found = re.search(rf"getenv\('{name}', '?([^')]*)'?\)", ast.unparse(value))
                return found[1] if found and found[1] != "None" else None
    return None


def second_runner(src: Sources) -> dict[str, Any]:
    """When the second model runner is used by default.

    never; listed-unquantized (dense, unquantized models of the listed architectures); listed; dense (models without
    experts and without recurrent layers, and those listed); always.
    """
    text = (src.package / "envs.py").read_text(encoding="utf-8")
    if not re.search(r"VLLM_USE_V2_MODEL_RUNNER: bool \| None", text):
        return {"v2Runner": "never", "v2Architectures": []}
    tree = src.first("config/vllm.py")
    listed = strings(assigned(tree, "DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES"))
    chooser = function_named(tree, "_is_default_v2_model_runner_model")
    if chooser is None:
        return {"v2Runner": "always", "v2Architectures": []}
    rule = ast.unparse(chooser)
    if "is_quantized" in rule:
        kind = "listed-unquantized"
    else:
        kind = "dense" if "or not model_config.is_moe" in rule or "or (not model_config.is_moe)" in rule else "listed"
    return {"v2Runner": kind, "v2Architectures": sorted(listed)}


def quantization(src: Sources) -> dict[str, int | None]:
    """Quantization methods with the least compute capability (75 for 7.5), None where the code states none.

    Schemes of compressed-tensors checkpoints have limits of their own; they are listed as compressed-tensors/<scheme>.
    """
    root = "model_executor/layers/quantization"
    tree = src.first(f"{root}/__init__.py")
    chooser = function_named(tree, "get_quantization_config")
    table = (assigned(chooser, "method_to_config") if chooser else None) or assigned(tree, "QUANTIZATION_METHODS")
    imports = imported_from(tree, f"{root}/__init__")
    found: dict[str, int | None] = {}
    if isinstance(table, ast.Dict):
        for method, cls in zip(keys(table), table.values, strict=True):
            if isinstance(cls, ast.Name):
                path, name = imports.get(cls.id, (root, cls.id))
                found[method] = capability(src, path, name)
    shorthands = src.tree("config/quantization.py")
    for method in keys(assigned(shorthands, "_ONLINE_SHORTHANDS")) if shorthands else ():
        found.setdefault(method, found.get("online"))
    for file in sorted((src.package / root / "compressed_tensors" / "schemes").glob("compressed_tensors_*.py")):
        limits = [least(f) for f in ast.walk(ast.parse(file.read_text())) if is_limit(f)]
        known = [limit for limit in limits if limit is not None]
        if known:
            found[f"compressed-tensors/{file.stem.removeprefix('compressed_tensors_')}"] = max(known)
    return dict(sorted(found.items()))


def is_limit(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "get_min_capability"


def least(function: ast.AST) -> int | None:
    """The last number that a get_min_capability returns (the native path, where there is an emulated one before it)."""
    numbers = [
        n.value.value
        for n in ast.walk(function)
        if isinstance(n, ast.Return) and isinstance(n.value, ast.Constant) and isinstance(n.value.value, int)
    ]
    return numbers[-1] if numbers else None


def capability(src: Sources, path: str, name: str, depth: int = 0) -> int | None:
    tree = src.tree(f"{path}.py") or src.tree(f"{path}/__init__.py")
    if tree is None or depth > 5:
        return None
    imports = imported_from(tree, path if (src.package / f"{path}.py").is_file() else f"{path}/__init__")
    cls = class_named(tree, name)
    if cls is None:
        return capability(src, *imports[name], depth + 1) if name in imports else None
    own = next((f for f in cls.body if is_limit(f)), None)
    if own is not None:
        return least(own)
    for base in cls.bases:
        if isinstance(base, ast.Name):
            inherited = capability(src, *imports.get(base.id, (path, base.id)), depth + 1)
            if inherited is not None:
                return inherited
    return None


def choices(src: Sources, name: str, *paths: str) -> list[str]:
    """The values of a Literal type."""
    for path in paths:
        tree = src.tree(path)
        values = strings(assigned(tree, name)) if tree else []
        if values:
            return values
    return []


def facts(package: Path) -> dict[str, Any]:
    src = Sources(package)
    kv_dtypes = choices(src, "CacheDType", "config/cache.py", "config/__init__.py", "config.py")
    if not kv_dtypes:
        kv_dtypes = ["auto", "fp8", "fp8_e4m3", "fp8_e5m2"]
    return {
        "gpuMemoryUtilization": utilization(src),
        "cudaGraphsInBudget": environment_default(src, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS") == "1",
        "batchDefaults": batch_defaults(src),
        "chunkedPrefill": chooses_by_gpu(src) is not None,
        **second_runner(src),
        "kvCacheDtypes": kv_dtypes,
        "quantization": quantization(src),
        "arguments": arguments(src),
        "samplingParameters": sampling_parameters(src),
        **registry(src),
    }


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What changes from `old` to `new`: lists of names and mappings as {"add", "drop"}, all else replaced."""
    changes: dict[str, Any] = {}
    for key, value in new.items():
        before = old.get(key)
        if before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            add = {k: v for k, v in value.items() if k not in before or before[k] != v}
            changes[key] = {"add": add, "drop": sorted(set(before) - set(value))}
        elif isinstance(value, list) and isinstance(before, list) and all(isinstance(v, str) for v in value + before):
            changes[key] = {"add": [v for v in value if v not in before], "drop": [v for v in before if v not in value]}
        else:
            changes[key] = value
    return changes


def write(known: Mapping[str, Mapping[str, Any]]) -> None:
    ordered = sorted(known, key=version_key)
    document: dict[str, Any] = {}
    for previous, version in zip([None, *ordered], ordered, strict=False):
        document[version] = known[version] if previous is None else difference(known[previous], known[version])
    rows = ",\n".join(
        f" {json.dumps(version)}: {{\n"
        + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in changes.items())
        + "\n }"
        for version, changes in document.items()
    )
    CATALOG.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")


def read(version: str) -> dict[str, Any]:
    """The facts of one version, kept until its wheel or this file changes. Raises WheelMissing."""
    package = package_sources("vllm", version)
    reader = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]

    def make(folder: Path) -> None:
        (folder / "facts.json").write_text(json.dumps(facts(package / "vllm")), encoding="utf-8")

    kept = cache.ensure("engine-facts", f"{package.name}-{reader}", make) / "facts.json"
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def main() -> None:
    versions = [version for package, version in pinned() if package == "vllm"]
    known = {re.sub(r"\.post\d+$", "", version): read(version) for version in versions}
    write(known)
    sys.stdout.write(f"{CATALOG.name}: {len(known)} versions, {CATALOG.stat().st_size // 1024} kB\n")


if __name__ == "__main__":
    main()
