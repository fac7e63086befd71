"""The code in the pods against the libraries that it runs on: each release of Ray and transformers that is supported.

Wheels are downloaded once (half a gigabyte); after that nothing is asked of the network.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from rayllm_ctl.catalog.releases import RELEASES
from rayllm_ctl.model.kube.names import INGRESS_BUILDER, MODEL_BUILDER
from rayllm_ctl.model.kube.releases import is_older
from rayllm_ctl.model.spec.checks.ray_features import BATCH, FEATURES, INGRESS, ONE_MODEL, TRANSFORMERS, RayFeature
from rayllm_ctl.model.spec.gateway import PROXY_CALLBACK
from tests.contract.library import Fact
from tests.contract.needs import Need, closure, modules, needs
from tests.contract.types import TEXTS, TYPES
from tests.contract.wheels import WheelMissing, facts

ROOT = Path(__file__).parents[2]

RAY = tuple(release.ray for release in RELEASES)
BEFORE = "2.55.1"
"""The last release before the oldest that is supported."""

TRANSFORMERS_RELEASES = (
    "5.2.0", "5.3.0", "5.4.0", "5.5.4", "5.6.2", "5.7.0", "5.8.1", "5.9.0", "5.10.4", "5.11.0", "5.12.1", "5.13.1",
    "5.14.1", "5.15.1", "5.16.1", "5.17.0", "5.18.0", "5.19.0", "5.20.2", "5.21.1", "5.22.2", "5.23.0", "5.24.0",
)  # fmt: skip
"""The last patch of each minor release in the range of pyproject.toml."""

TRANSFORMERS_BEFORE = "5.1.0"

NAMES = {id(ONE_MODEL): "one model", id(BATCH): "batch", id(INGRESS): "ingress", id(TRANSFORMERS): "transformers"}


def loaded(feature: RayFeature) -> list[str]:
    """The modules of ours that Ray loads for a feature. An engine's own modules are followed where it is asked for."""
    roots = tuple(f"{name.replace('.', '/')}.py" for name in feature.loaded)
    engine = "transformers_engine.py"
    return sorted(closure(roots, without=() if engine in roots else (engine,)))


@cache
def all_needs(library: str) -> tuple[Need, ...]:
    return tuple(need for module in modules() for need in needs(module) if need.library == library)


PROXY = f"ray.serve._private.constants#{next(iter(PROXY_CALLBACK))}"


Known = Mapping[str, Mapping[str, Fact]]


# Of the session, so that the cache is the user's: each test has a home of its own.
@pytest.fixture(scope="session")
def ray() -> Known:
    """What the supported releases of Ray have, and the one before them, by version and name."""
    names = {name for feature in FEATURES for name in (feature.lacking, *feature.rendered)} | {PROXY}
    return found_in("ray", (BEFORE, *RAY), names)


@pytest.fixture(scope="session")
def transformers() -> Known:
    """What the supported releases of transformers have, and the one before them, by version and name."""
    return found_in("transformers", (TRANSFORMERS_BEFORE, *TRANSFORMERS_RELEASES), set())


def found_in(library: str, versions: tuple[str, ...], names: set[str]) -> Known:
    """What the versions have of `names` and of all that our code needs."""
    needed = {path for need in all_needs(library) for path in (*need.paths, *need.bases)}
    try:
        return facts(library, versions, names | needed)
    except WheelMissing as missing:
        pytest.fail(str(missing), pytrace=False)


def problems(library: str, version: str, known: Known, files: list[str]) -> list[str]:
    """What code in `files` needs and a version lacks, one line each."""
    name = f"{library.capitalize()} {version}"
    found = (need.problem(name, known[version]) for need in all_needs(library) if need.module in files)
    return sorted({problem for problem in found if problem})


SUPPORTED = [
    pytest.param(feature, version, id=f"{NAMES[id(feature)]}-{version}")
    for feature in FEATURES
    for version in RAY
    if not is_older(version, feature.least)
]


@pytest.mark.parametrize(("feature", "version"), SUPPORTED)
def test_ray_has_what_a_feature_needs(ray: Known, feature: RayFeature, version: str) -> None:
    missing = [f"Ray {version} has no {name}" for name in feature.rendered if not ray[version][name].exists]
    found = [*problems("ray", version, ray, loaded(feature)), *missing]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: NAMES[id(feature)])
def test_the_release_before_the_first_lacks_the_name_that_is_the_reason(ray: Known, feature: RayFeature) -> None:
    older = [version for version in (BEFORE, *RAY) if is_older(version, feature.least)]
    assert older
    assert not [version for version in older if ray[version][feature.lacking].exists]
    needed = {path for file in loaded(feature) for need in needs(file) for path in need.paths}
    assert feature.lacking in {*needed, *feature.rendered, *ONE_MODEL.rendered}


@pytest.mark.parametrize("version", TRANSFORMERS_RELEASES)
def test_transformers_has_what_the_code_in_the_pods_needs(transformers: Known, version: str) -> None:
    found = problems("transformers", version, transformers, modules())
    assert not found, "\n".join(found)


def test_the_range_of_transformers_is_the_one_that_is_compared(transformers: Known) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    first = TRANSFORMERS_RELEASES[0].rpartition(".")[0]
    assert f"transformers>={first},<6" in extras["serving"]
    assert f"transformers>={first},<6" in extras["dev"]
    assert problems("transformers", TRANSFORMERS_BEFORE, transformers, modules())
    minors = [int(version.split(".")[1]) for version in TRANSFORMERS_RELEASES]
    assert minors == list(range(minors[0], minors[0] + len(minors)))


@pytest.mark.parametrize("version", [version for version in RAY if not is_older(version, INGRESS.least)])
def test_every_class_of_ours_has_the_abstract_methods(ray: Known, version: str) -> None:
    for need in all_needs("ray"):
        for base in need.bases:
            assert ray[version][base].abstract <= need.methods, f"{need.module}:{need.line}"


@pytest.mark.parametrize("version", RAY)
def test_ray_calls_what_is_set_for_its_proxies(ray: Known, version: str) -> None:
    assert ray[version][PROXY].exists


def test_every_module_belongs_to_a_feature() -> None:
    found = {file for feature in FEATURES for file in loaded(feature)}
    found |= set(closure(("storage/__main__.py",)))  # which runs without Ray
    assert set(modules()) - found == {file for file in modules() if file.endswith("__init__.py")} - found
    for builder in (INGRESS_BUILDER, MODEL_BUILDER, next(iter(PROXY_CALLBACK.values()))):
        module = builder.partition(":")[0].removeprefix("rayllm_ctl.serving.")
        assert module in INGRESS.loaded


def test_many_names_are_found() -> None:
    # So that a mistake in the search does not pass as agreement.
    found = Counter(need.library for module in modules() for need in needs(module))
    assert found["ray"] >= 200
    assert found["transformers"] >= 100
    assert found["vllm"] >= 4


def test_nothing_is_stated_that_the_source_does_not_have() -> None:
    for stated in (TYPES, TEXTS):
        for module, entries in stated.items():
            used = {path for need in needs(module) for path in need.paths}
            for text, path in entries.items():
                paths = (path,) if isinstance(path, str) else path
                assert any(one.startswith(paths) for one in used), f"tests/contract/types.py: {module}: {text}"
