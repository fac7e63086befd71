"""A cluster per test session, a namespace per test module or test, and dumps of both when a test fails.

Every namespace enforces Pod Security "restricted" and, in the project's own cluster, closes Ray's pods to the others.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.layout import NODE_RANGE
from e2e.harness import OWN_CLUSTER, Bench, Object, Target, rig
from e2e.simulate.shapes import SIMULATED

ARTIFACTS = Path(__file__).parent / ".artifacts"
ALONE = ("test_rig.py", "test_scale.py")
"""Modules that take the cluster away, or fill its API server."""

LIGHT = (
    "test_changes.py", "test_chart.py", "test_deploy.py", "test_diff.py", "test_gcs.py", "test_killed.py",
    "test_redis_limits.py", "test_refusals.py", "test_rights.py", "test_schemas.py", "test_servershapes.py",
    "test_severalshapes.py", "test_shapes.py", "test_transformers_engine.py",
)  # fmt: skip
"""Modules that run no Ray: they need no cluster, or only its API server, or simulated nodes."""

PATIENT = (
    "test_failures.py", "test_gitops.py", "test_network.py", "test_raycluster.py", "test_sweep.py", "test_bench.py",
    "test_serveconfig.py",
)  # fmt: skip
"""Modules that run Ray and do not mind that others do so meanwhile: they start one service at a time, and count neither
requests nor seconds."""

FIRST = ("test_rig.py", "test_serve.py", "test_batch.py", *PATIENT)
"""The order of the first modules. The patient ones run beside those that mind them least."""

LAST = "test_rayoptions.py"
"""Runs Ray and counts requests, beside others that do: at the end those are test_standin.py's, which mostly wait."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cluster")
    group.addoption(
        "--cluster",
        choices=["own", "existing"],
        default="own",
        help="own: bring one up; existing: use the kubeconfig's",
    )
    group.addoption("--image", default="", help="with --cluster existing: an image with Ray, vLLM and /models/tiny")
    group.addoption("--keep", action="store_true", help="leave the project's own cluster up at the end")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the tests: those that take the cluster up and down go first, the others share one that stays up."""
    places = {name: place for place, name in enumerate(FIRST)} | {LAST: len(FIRST) + 1}
    items.sort(key=lambda item: places.get(item.path.name, len(FIRST)))
    for item in items:
        if item.path.name in ALONE:
            item.add_marker("alone")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Two groups of tests for two processes (pytest -n 2 -m "not alone").

    Most tests that run Ray follow one another, since each of them takes both cores for a while and waits for a while;
    two at a time leave each other too little and fail. Beside them run the patient ones, those that take little, which
    share the simulated nodes, and the last.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class TwoGroups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "beside" if Path(nodeid.partition("::")[0]).name in (*PATIENT, *LIGHT, LAST) else "ray"

    return TwoGroups(config, log)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Bring the cluster up for the processes that run tests side by side: each of them finds it there."""
    options = session.config.option
    if options.cluster == "own" and getattr(options, "numprocesses", None) and not _is_worker(session.config):
        session.config.stash[_FOUND_UP] = _up()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Take down what was brought up for them."""
    if not session.config.stash.get(_FOUND_UP, True) and not session.config.option.keep:
        rig("down")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The cluster that the tests run on."""
    options = request.config.option
    if options.cluster == "existing":
        if not options.image:
            pytest.exit("--cluster existing needs --image: an image with Ray, vLLM and /models/tiny", returncode=2)
        path = Path(os.environ.get("KUBECONFIG", str(Path.home() / ".kube/config")))
        yield Target(path, options.image, own=False)
        return
    from e2e.images.serving import REF

    stays = _is_worker(request.config) or _up() or options.keep
    try:
        yield Target(Path(rig("kubeconfig").stdout.strip()), REF, own=True)
    finally:
        if not stays:
            rig("down")


def _up() -> bool:
    """Bring the project's own cluster up; whether it was up already."""
    was_up = rig("status").returncode == 0
    if code := rig("up", *OWN_CLUSTER).returncode:
        pytest.exit(f"the cluster did not come up (exit code {code})", returncode=1)
    return was_up


def _is_worker(config: pytest.Config) -> bool:
    """Whether this process runs tests for another one, which distributes them."""
    return hasattr(config, "workerinput")


_FOUND_UP = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def own(target: Target) -> Target:
    """The project's own cluster; tests of simulated or claimed GPUs have no other."""
    if not target.own:
        pytest.skip("needs the GPU shapes of the project's own cluster")
    return target


OWN_POLICIES = ("test_network.py",)
"""Modules that test what policies admit."""


def _policy() -> Object:
    """Closes Ray's pods to other namespaces, as `spec.security.network: restricted` does."""
    peers = [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kuberay-system"}}},
        {"ipBlock": {"cidr": NODE_RANGE}},  # the host, also where it reaches Services by way of a node
    ]
    pods = {"matchExpressions": [{"key": "ray.io/is-ray-node", "operator": "Exists"}]}
    spec = {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [{"from": peers}]}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "ray"}, "spec": spec}


def _bench(target: Target, request: pytest.FixtureRequest, name: str) -> Bench:
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].rstrip("-")
    bench = Bench(target, f"e2e-{label}-{secrets.token_hex(2)}")
    # Every test thus shows that the pods of a service are accepted there, and that all they need gets through.
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bench.namespace, "labels": labels}}
    bench.kubectl("create", "-f", "-", input_text=json.dumps(namespace))
    # Not elsewhere: the addresses from which other clusters reach their pods are not known.
    if target.own and request.node.path.name not in OWN_POLICIES:
        bench.apply(_policy())
    return bench


@pytest.fixture
def bench(target: Target, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A namespace for one test."""
    made = _bench(target, request, request.node.name)
    yield made
    _finish(made, request)


@pytest.fixture(scope="module")
def shared(target: Target, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A namespace for the tests of one module, which build on one another."""
    made = _bench(target, request, Path(request.node.name).stem)
    yield made
    _finish(made, request)


@pytest.fixture
def simulated(own: Target, bench: Bench) -> Bench:
    """A namespace whose pods all go to simulated nodes."""
    assert bench.target is own
    bench.kubectl(
        "annotate", "namespace", bench.namespace,
        f"scheduler.alpha.kubernetes.io/node-selector={SIMULATED}=true",
        'scheduler.alpha.kubernetes.io/defaultTolerations=[{"key":"kwok.x-k8s.io/node","operator":"Exists"}]',
    )  # fmt: skip
    return bench


def _finish(bench: Bench, request: pytest.FixtureRequest) -> None:
    """Dump what failed, then take the namespace away and wait for its pods: the next test needs the memory."""
    if request.node.stash.get(_FAILED, False):
        folder = ARTIFACTS / bench.namespace
        bench.dump(folder)
        print(f"\n{bench.summary()}\nobjects and logs of the failure: {folder}", file=sys.stderr)
    bench.close()
    bench.wait("the pods are gone", lambda: not bench.items("pods"), timeout=120)


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:  # noqa: ARG001
    report = yield
    if report.failed:  # type: ignore[attr-defined]
        item.stash[_FAILED] = True
        module = item.getparent(pytest.Module)
        if module is not None:
            module.stash[_FAILED] = True
    return report
