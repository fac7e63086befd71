"""What a new release leaves to do by hand, as far as its sources show it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from rayllm_ctl.catalog import engines, releases
from rayllm_ctl.catalog.modelconfig.decoders.registry import known_architectures
from rayllm_ctl.catalog.modelconfig.encoders.registry import ENCODERS
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.vllm_rules import VersionRule
from scripts.knowledge.measured import without_a_mark
from scripts.knowledge.wheels import package_sources, requirements
from scripts.manifest_schemas import KUBERAY

_NAMES = re.compile(r"[\w/]+\.py")
_WORDS = re.compile(r"\w+")


def to_do(vllm: str | None, ray: str | None, kuberay: str | None) -> Iterator[str]:
    """A line for each task. Raises WheelMissing."""
    yield from _of_vllm(vllm)
    yield from _of_ray(ray)
    yield from _of_kuberay(kuberay)


def _of_vllm(version: str | None) -> Iterator[str]:
    known = engines.engine_versions()
    newest = engines.engine(version or known[-1])
    served = newest.architectures - set(known_architectures()) - set(ENCODERS)
    if served:
        yield f"vLLM {newest.version} serves {len(served)} architectures without a row: {', '.join(sorted(served))}"
    for release in without_a_mark():
        yield f"vLLM {release}: a row in tests/data/measured.json, or a line in unmeasured.json"
    if version is None:
        return
    before = _before(version)
    old, new = package_sources("vllm", before) / "vllm", package_sources("vllm", version) / "vllm"
    changed: dict[str, list[str]] = {}
    for name, rule in rules().items():
        for file in files_of(rule):
            if _said(old, file, rule) != _said(new, file, rule):
                changed.setdefault(file, []).append(name)
    for file, names in sorted(changed.items()):
        yield f"{file} is not the one of {before}: read it again for vllm_rules.{', '.join(names)}"


def rules() -> dict[str, VersionRule]:
    return {name: rule for name, rule in vars(vllm_rules).items() if isinstance(rule, VersionRule)}


def files_of(rule: VersionRule) -> list[str]:
    """The files that a rule's source names."""
    return _NAMES.findall(rule.source)


def _before(version: str) -> str:
    """The known release before one."""
    older = [known for known in engines.engine_versions() if engines.engine(known).release < _release(version)]
    return older[-1]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3])


def _said(package: Path, file: str, rule: VersionRule) -> list[str]:
    """What the files with this end of their path say of a rule: its functions and classes if its source names them."""
    found = sorted(path for path in package.rglob(Path(file).name) if str(path).endswith(f"/{file}"))
    texts = [path.read_text(encoding="utf-8") for path in found]
    words = set(_WORDS.findall(rule.source))
    named = [
        ast.unparse(node)
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in words
    ]
    return named or texts


def _of_ray(version: str | None) -> Iterator[str]:
    if version is None or version in (release.ray for release in releases.RELEASES):
        return
    pinned = next((line for line in requirements("ray", version) if re.match(r"vllm\b.*==", line)), "")
    engine = re.search(r"==\s*([\d.]+)", pinned)
    yield (
        f'rayllm_ctl/catalog/releases.py: Release("{version}", "{engine[1] if engine else "?"}", verified=False), then '
        "--only rayserve again"
    )
    yield f"Ray {version}: the versions of the extra `serving` in pyproject.toml; pytest tests/contract"


def _of_kuberay(version: str | None) -> Iterator[str]:
    if version is None or f"v{version.removeprefix('v')}" in KUBERAY.values():
        return
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    yield f'scripts/manifest_schemas.py: KUBERAY["{minor}"] = "v{version.removeprefix("v")}", then --only kuberay again'
    yield f'rayllm_ctl/model/kube/kuberay_versions.py: "{minor}" in VERSIONS; then pytest tests/render tests/kinds'
    yield "rayllm_ctl/kinds/rules and model/kube/kuberay.py: read ray-operator/controllers/ray/utils again"
