"""The package is a grid of small folders: imports go one way, and stand at the top of modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rayllm_ctl"
MODULES = sorted(PACKAGE.rglob("*.py"))

MOST_MODULES = 20
"""In a folder, besides its subpackages and its `__init__.py`."""

SLOW_PACKAGES = {
    "jinja2": "render alone",
    "matplotlib": "the plots of bench alone; an extra",
    "pyarrow": "results of batch jobs in Parquet or on object stores; not installed with rayllm-ctl",
    "rich": "a live view alone",
    "transformers": "bench with a tokenizer of the model; not installed with rayllm-ctl",
    "urllib3": "a request to the Kubernetes API",
    "websockets": "port-forward alone",
    "yaml": "plan of a model that is named by flags",
}
"""Third-party packages whose import takes about 20 ms of CPU time or more, and which commands need it."""

OF_IMAGES = {
    "accelerate": "quantized models",
    "jinja2": "an error class of chat templates",
    "ray": "the end of a job that Ray runs",
    "starlette": "Serve's proxies with a gateway",
    "transformers": "images with tokenizers",
    "vllm": "images for GPUs",
}
"""Packages that code in the pods imports late, since not every process, or not every image, has them."""

LATE_MODULES = {
    ("catalog/sources/find.py", "rayllm_ctl.catalog.sources"): "urllib.request (28 ms), when the hub is asked",
    ("serving/batch/driver.py", "rayllm_ctl.serving.batch.inference"): "ray.data, once rows are left to answer",
    ("serving/batch/inference/pipeline.py", "rayllm_ctl.serving.batch.inference"): "vLLM, unless a stage replaces it",
    ("serving/gateway/limits/limiter.py", "rayllm_ctl.serving.gateway.limits.redis_store"): "limits and redis",
    ("serving/model.py", "rayllm_ctl.serving"): "the Transformers engine, not shipped with services of vLLM",
    ("serving/transformersengine.py", "rayllm_ctl.serving.generation.loading"): "torch, where an engine starts",
    ("serving/transformersengine.py", "rayllm_ctl.serving.generation.model"): "torch, where an engine starts",
}
"""Modules of the package's own that are imported late, and what they need that takes long or is not in every pod."""


def imports_inside_functions() -> Iterator[tuple[str, str]]:
    """Modules below cli/ and what functions in them import, by the path of the module."""
    for file in MODULES:
        path = file.relative_to(PACKAGE)
        if path.parts[0] == "cli":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        for node in (node for function in functions for node in ast.walk(function)):
            if isinstance(node, ast.ImportFrom):
                yield path.as_posix(), node.module or ""
            elif isinstance(node, ast.Import):
                yield from ((path.as_posix(), alias.name) for alias in node.names)


LATE = sorted(set(imports_inside_functions()))


def is_declared(path: str, module: str) -> bool:
    packages = OF_IMAGES if path.startswith("serving/") else SLOW_PACKAGES
    return (path, module) in LATE_MODULES or module.partition(".")[0] in packages


def test_functions_import_declared_packages_alone() -> None:
    """Which module uses which is visible at its top; what is imported late costs a command more than it is worth."""
    assert [f"{path}: {module}" for path, module in LATE if not is_declared(path, module)] == []


def test_every_declared_package_is_imported_late() -> None:
    """So the lists above only shrink by themselves."""
    client = {module.partition(".")[0] for path, module in LATE if not path.startswith("serving/")}
    pods = {module.partition(".")[0] for path, module in LATE if path.startswith("serving/")}
    assert SLOW_PACKAGES.keys() - client == set()
    assert OF_IMAGES.keys() - pods == set()
    assert LATE_MODULES.keys() - set(LATE) == set()


def test_folders_have_few_modules() -> None:
    folders = {file.parent for file in MODULES}
    counts = {folder: sum(file.name != "__init__.py" for file in folder.glob("*.py")) for folder in folders}
    assert {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_module_imports_itself_through_others() -> None:
    """Imports of types count as well: a type that only such an import reaches stands in the wrong module."""
    graph = grimp.build_graph("rayllm_ctl", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > len(MODULES) / 2
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))
