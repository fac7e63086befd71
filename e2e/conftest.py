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

import pytest

from e2e.cluster.layout import HOST_ADDRESS, NODE_RANGE
from e2e.cluster.progress import to_stderr
from e2e.harness import OWN_CLUSTER, Bench, Object, Target, rig
from e2e.images.oci import Image
from e2e.simulate import gpus
from e2e.simulate.shapes import SIMULATED, gpu_labels
from e2e.simulated import schedule_on_simulated_nodes

ARTIFACTS = Path(__file__).parent / ".artifacts"


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


def _own(target: Target, need: str) -> Target:
    if not target.own:
        pytest.skip(f"needs the project's own cluster: {need}")
    return target


@pytest.fixture(scope="session")
def claimed(target: Target) -> Target:
    """A cluster with a node of eight H100 on which pods run; how a node claims them: docs/contributing/testing.md."""
    (product, name), *_ = gpu_labels(gpus.find("H100-80GB"), 8).items()
    bench = Bench(target, "default")

    def found() -> bool:
        nodes = bench.items("nodes", f"{product}={name},!{SIMULATED}")
        return any(int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) >= 8 for node in nodes)

    if target.own:
        # The kubelet takes some seconds to offer what its node claims.
        bench.wait("the claimed GPUs can be allocated", found, timeout=120)
    elif not found():
        pytest.skip(f"needs a node with the label {product}={name} and 8 nvidia.com/gpu, real or claimed")
    return target


@pytest.fixture(scope="session")
def nodes_to_lose(target: Target) -> Target:
    """A cluster whose nodes a test may end."""
    return _own(target, "nodes that a test may end")


@pytest.fixture(scope="session")
def simulated_nodes(target: Target) -> Target:
    """A cluster with nodes that KWOK simulates, and a process that answers as Ray in their pods."""
    return _own(target, "simulated nodes")


@pytest.fixture(scope="session")
def two_nodes_with_policies(target: Target) -> Target:
    """A cluster with the real nodes n1 and n2, which enforces NetworkPolicies."""
    return _own(target, "NetworkPolicies that are enforced, and the addresses that they name")


@pytest.fixture(scope="session")
def host_address(target: Target) -> str:
    """An address of this machine that pods reach."""
    _own(target, "an address of this machine that pods reach")
    return HOST_ADDRESS


@pytest.fixture(scope="session")
def redis_image(target: Target) -> str:
    """The image of a Redis that the nodes have, or get from a registry."""
    from e2e.cluster.images import REDIS

    return REDIS if target.own else "docker.io/library/redis:7.4-alpine"


@pytest.fixture(scope="session")
def controller_image(target: Target) -> Image:
    """The image of the controller of this checkout, which all real nodes have."""
    _own(target, "an image of this checkout in its nodes")
    from e2e.cluster.load import load
    from e2e.images import controller

    image = controller.ensure(to_stderr())
    load(image)
    return image


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
    if target.own and request.node.get_closest_marker("own_policies") is None:
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
def simulated(simulated_nodes: Target, bench: Bench) -> Bench:
    """A namespace whose pods all go to simulated nodes."""
    assert bench.target is simulated_nodes
    schedule_on_simulated_nodes(bench)
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
_FAILED_BEFORE = pytest.StashKey[str]()
"""The first test that failed of a module whose tests build on one another."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:  # noqa: ARG001
    report = yield
    if report.failed:  # type: ignore[attr-defined]
        item.stash[_FAILED] = True
        module = item.getparent(pytest.Module)
        if module is not None:
            module.stash[_FAILED] = True
            module.stash.setdefault(_FAILED_BEFORE, item.name)
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    module = item.getparent(pytest.Module)
    failed = module.stash.get(_FAILED_BEFORE, "") if module is not None else ""
    if failed and item.get_closest_marker("incremental"):
        pytest.fail(f"not run: it builds on {failed}, which failed", pytrace=False)
