"""The package is a grid of small folders: imports go one way, and stand at the top of modules."""

from __future__ import annotations

import ast
import re
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
    "kubernetes": "a connection to a cluster",
    "matplotlib": "plots alone; an extra",
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

HEALTH = "the rules of status and diff (37 ms), which render, chat and delete do without"
SERVE_FILES = "the reader of Serve files and applications, which services of a model do without"

BATCH_FILES = "the reader of batch jobs (4 ms), which spec files of services do without"

COLLECTION = "2 ms of garbage collection, at the threshold that Python begins with"

LATE_MODULES = {
    ("__main__.py", "rayllm_ctl.cli.app"): COLLECTION,
    ("__main__.py", "rayllm_ctl.console.style"): COLLECTION,
    ("__main__.py", "rayllm_ctl.errors"): COLLECTION,
    ("specfile/load.py", "rayllm_ctl.model.spec.batch"): BATCH_FILES,
    ("specfile/load.py", "rayllm_ctl.model.spec.checks.batch"): BATCH_FILES,
    ("model/spec/checks/access.py", "ipaddress"): "0.8 ms, for services that restrict addresses",
    ("model/kube/names.py", "difflib"): "0.7 ms, for a word that is not known",
    ("catalog/sources/find.py", "rayllm_ctl.catalog.sources"): "huggingface_hub (75 ms), when the hub is asked",
    ("kinds/raycluster.py", "rayllm_ctl.changes.raycluster"): HEALTH,
    ("kinds/raycluster.py", "rayllm_ctl.health"): HEALTH,
    ("kinds/raycluster.py", "rayllm_ctl.health.clustercontext"): HEALTH,
    ("kinds/raycluster.py", "rayllm_ctl.health.external"): HEALTH,
    ("kinds/rayservice.py", "rayllm_ctl.changes.rayservice"): HEALTH,
    ("kinds/rayservice.py", "rayllm_ctl.health"): HEALTH,
    ("kinds/rayservice.py", "rayllm_ctl.health.context"): HEALTH,
    ("kinds/rayservice.py", "rayllm_ctl.health.external"): HEALTH,
    ("kinds/rayservice.py", "rayllm_ctl.serveconfig"): HEALTH,
    ("workflows/plan/model.py", "rayllm_ctl.planner.transformers.cpu"): "12 ms, of which few services have need",
    ("workflows/plan/model.py", "rayllm_ctl.planner.transformers.gpu"): "12 ms, of which few services have need",
    ("workflows/plan/model.py", "rayllm_ctl.workflows.plan.own_applications"): SERVE_FILES,
    ("workflows/render/service.py", "rayllm_ctl.workflows.render.serve_config"): SERVE_FILES,
    ("serving/batch/driver.py", "rayllm_ctl.serving.batch.inference"): "ray.data, once rows are left to answer",
    ("serving/batch/inference/pipeline.py", "rayllm_ctl.serving.batch.inference"): "vLLM, unless a stage replaces it",
    ("serving/gateway/limits/limiter.py", "rayllm_ctl.serving.gateway.limits.redis_store"): "limits and redis",
    ("serving/model.py", "rayllm_ctl.serving"): "the Transformers engine, not shipped with services of vLLM",
    ("serving/storage/places.py", "rayllm_ctl.serving.storage.sources"): "pyarrow or urllib3, not in every image",
    ("serving/storage/places.py", "rayllm_ctl.serving.storage.sources.hub"): "huggingface_hub, of sources on the Hub",
    ("serving/storage/places.py", "rayllm_ctl.serving.storage.targets"): "pyarrow, of targets in buckets",
    ("serving/transformers_engine.py", "rayllm_ctl.serving.generation.loading"): "torch, where an engine starts",
    ("serving/transformers_engine.py", "rayllm_ctl.serving.generation.model"): "torch, where an engine starts",
}
"""Modules of the package's own, and of the standard library, that are imported late, and what they cost or need."""


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


def rows(heading: str) -> list[list[str]]:
    """The cells of the table of the architecture whose head begins with `heading`, without the head."""
    page = (ROOT / "docs/contributing/architecture.md").read_text(encoding="utf-8")
    text = page.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def subfolders(folder: str) -> set[str]:
    return {file.parent.name for file in (PACKAGE / folder).glob("*/__init__.py")}


def test_the_grid_of_the_architecture_is_that_of_the_folders() -> None:
    grid = {layer.strip("`/"): cells for layer, *cells in rows("layer")}
    assert set(grid) == {"cli/commands", "workflows", "console"}
    assert {layer: {cell.strip("`") for cell in cells} - {"–"} for layer, cells in grid.items()} == {
        layer: subfolders(layer) for layer in grid
    }
    columns = [{cell.strip("`") for cell in column} - {"–"} for column in zip(*grid.values(), strict=True)]
    assert [column for column in columns if len(column) != 1] == []


def test_every_folder_is_in_a_table_of_the_architecture() -> None:
    named = {name for cells in rows("folder") for name in re.findall(r"`([\w/]+)/`", cells[0] + cells[1])}
    in_grid = {f"{layer}/{topic}" for layer in ("cli/commands", "workflows", "console") for topic in subfolders(layer)}
    folders = {file.parent.relative_to(PACKAGE) for file in MODULES if file.name == "__init__.py"}
    below = {folder.as_posix() for folder in folders if len(folder.parts) > 1} - in_grid - {"cli/commands"}
    assert named == below
