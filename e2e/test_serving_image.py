"""The code in the pods, imported in the Python of the serving image as the pods do. It needs no cluster."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from e2e.cluster.progress import to_stderr
from e2e.images import gateway, rootfs, serving

pytestmark = pytest.mark.xdist_group("serving_image")

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "rayllm_ctl/serving").rglob("*.py")
)

# `__main__` runs where it is imported under that name only. What functions import is imported as well.
INSIDE = """
import ast, importlib, json, os, sys
failures = {}
for name in json.loads(sys.argv[1]):
    try:
        module = importlib.import_module(name)
        tree = ast.parse(open(module.__file__).read())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in ("ray", "transformers", "vllm"):
                for alias in node.names:
                    exec(f"from {node.module} import {alias.name}")
    except Exception as error:
        failures[name] = f"{type(error).__name__}: {error}"
print("found: " + json.dumps(failures), flush=True)
os._exit(0)  # Libraries leave threads behind that the interpreter would wait for.
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Why modules cannot be imported, by their names."""
    base, folder = serving.ensure_base(to_stderr()), tmp_path_factory.mktemp("serving")
    shutil.copytree(ROOT / "rayllm_ctl/serving", folder / "rayllm_ctl/serving")
    (folder / "rayllm_ctl/__init__.py").touch()
    # As in the image's own layer: what the gateway needs beside Ray.
    gateway.install(folder / "site")
    command = ["timeout", "300", "python3", "-c", INSIDE, json.dumps(MODULES)]
    inside = rootfs.start_inside(base, command, mnt=folder, env={**serving.ENV, "PYTHONPATH": "/mnt:/mnt/site"})
    assert inside.stdout is not None
    lines = list(inside.stdout)
    assert inside.wait() == 0, "".join(lines[-40:])
    (line,) = (line for line in lines if line.startswith("found: "))
    found: dict[str, str] = json.loads(line.removeprefix("found: "))
    return found


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_imported(failures: dict[str, str], module: str) -> None:
    assert failures.get(module, "") == ""
