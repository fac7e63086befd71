from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from e2e.cluster import addons, nodeconfig
from e2e.cluster.api import resource_path
from e2e.cluster.errors import RigError
from e2e.cluster.gpus import claims, gpu_node
from e2e.cluster.host import go_version
from e2e.cluster.layout import Run
from e2e.cluster.state import Options
from e2e.simulate.shapes import SIMULATED


def test_paths_of_objects() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}}
    assert resource_path(pod) == "/api/v1/namespaces/n/pods/p"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:x"}}
    assert resource_path(role) == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x"


def test_the_operators_rights_move_into_its_namespace(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [account.yaml, binding.yaml]\n")
    (tmp_path / "account.yaml").write_text("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: op}\n")
    (tmp_path / "binding.yaml").write_text(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: op}\n"
        "subjects: [{kind: ServiceAccount, name: op}]\n"
    )
    (tmp_path / "editor_role.yaml").write_text("kind: ClusterRole\n")
    account, binding = addons.operator_rbac(tmp_path)
    assert account["metadata"] == {"name": "op", "namespace": addons.OPERATOR_NAMESPACE}
    assert "namespace" not in binding["metadata"]
    assert binding["subjects"][0]["namespace"] == addons.OPERATOR_NAMESPACE


def test_manifests_of_the_addons_are_complete() -> None:
    manifests = [*addons.coredns(), *addons.operator()]
    kinds = [manifest["kind"] for manifest in manifests]
    assert kinds.count("Deployment") == 2
    assert "$" not in yaml.safe_dump(manifests).replace("$(", "")
    deployments = {(m["metadata"]["namespace"], m["metadata"]["name"]) for m in manifests if m["kind"] == "Deployment"}
    assert deployments == set(addons.DEPLOYMENTS)


def test_a_nodes_configuration_names_only_its_own_files() -> None:
    run = Run(Path("/cache/run"))
    first, second = (json.dumps(nodeconfig.kubelet(run.node(n), run)) for n in (1, 2))
    assert "/cache/run/n1/" in first
    assert "/cache/run/n2/" not in first
    assert first.replace("n1", "n2").replace("10.77.0.11", "10.77.0.12") == second


def test_containerd_keeps_its_files_where_it_is_told() -> None:
    text = nodeconfig.containerd(Path("/c/store"), "/run/containerd", Path("/c/sock"), Path("/cni/bin"), Path("/c/cni"))
    for line in ('root = "/c/store"', 'address = "/c/sock"', 'bin_dir = "/cni/bin"', 'conf_dir = "/c/cni"'):
        assert line in text


def test_only_the_last_node_claims_gpus() -> None:
    plain, claiming = claims(Options(2, (), "H100-80GB:8"))
    assert not plain.extended
    assert plain.memory is None
    assert claiming.extended == {"nvidia.com/gpu": "8"}
    assert claiming.labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert claiming.labels["nvidia.com/gpu.count"] == "8"
    # These are the kubelet's own to set.
    assert not [label for label in claiming.labels if label.startswith("kubernetes.io/")]
    assert claiming.cpus > plain.cpus
    assert (claiming.memory or 0) > 2**39


@pytest.mark.parametrize("shape", ["H100-80GB:8x2", "H100-80GB:8,L4:1", "H100-80GB:8x1"])
def test_a_claim_is_of_one_node_and_one_kind(shape: str) -> None:
    with pytest.raises(RigError, match="one node claims GPUs of one kind"):
        gpu_node(shape)


@pytest.mark.parametrize(
    ("said", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26)), ("go version go1.19.8 linux/amd64", (1, 19)), ("", (0, 0))],
)
def test_the_version_of_go(said: str, version: tuple[int, int]) -> None:
    assert go_version(said) == version


def test_a_real_node_that_claims_gpus_does_not_call_itself_simulated() -> None:
    labels = gpu_node("H100-80GB:8").labels
    assert labels["nvidia.com/gpu.product"].startswith("NVIDIA-H100")
    assert SIMULATED not in labels
