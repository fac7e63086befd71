"""A cluster per test session, a namespace per test module or test, and dumps of both when a test fails."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness import OWN_CLUSTER, Bench, Target, rig
from e2e.simulate.shapes import SIMULATED

ARTIFACTS = Path(__file__).parent / ".artifacts"


def pytest_configure() -> None:
    """Take interrupts as usual: a run in the background ignores them, and the commands that it starts would too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that take the cluster up and down go first: the others share one that stays up."""
    items.sort(key=lambda item: item.path.name != "test_rig.py")


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

    was_up = rig("status").returncode == 0
    if code := rig("up", *OWN_CLUSTER).returncode:
        pytest.exit(f"the cluster did not come up (exit code {code})", returncode=1)
    kubeconfig = Path(rig("kubeconfig").stdout.strip())
    try:
        yield Target(kubeconfig, REF, own=True)
    finally:
        if not (was_up or options.keep):
            rig("down")


@pytest.fixture(scope="session")
def own(target: Target) -> Target:
    """The project's own cluster; tests of simulated or claimed GPUs have no other."""
    if not target.own:
        pytest.skip("needs the GPU shapes of the project's own cluster")
    return target


def _bench(target: Target, name: str) -> Bench:
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].rstrip("-")
    bench = Bench(target, f"e2e-{label}-{secrets.token_hex(2)}")
    # Every test thus shows that the pods of a service are accepted there.
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": bench.namespace, "labels": labels}}
    bench.kubectl("create", "-f", "-", input_text=json.dumps(namespace))
    return bench


@pytest.fixture
def bench(target: Target, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A namespace for one test."""
    made = _bench(target, request.node.name)
    yield made
    _finish(made, request)


@pytest.fixture(scope="module")
def shared(target: Target, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A namespace for the tests of one module, which build on one another."""
    made = _bench(target, Path(request.node.name).stem)
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
        print(f"\nobjects and logs of the failure: {folder}", file=sys.stderr)
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
