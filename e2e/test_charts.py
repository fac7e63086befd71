"""The Helm charts and the overlays, with Helm and kubectl themselves. No cluster is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import versions
from e2e.cluster import build, modules

pytestmark = pytest.mark.xdist_group("chart")

ROOT = Path(__file__).parents[1]
CHARTS = sorted(path.parent for path in (ROOT / "charts").glob("*/Chart.yaml"))
OPERATOR, MODELS = ROOT / "charts" / "rayllm-operator", ROOT / "charts" / "rayllm"
IMAGE = "registry.example/rayllm-controller"
CRD = "apiextensions.k8s.io/v1"

Object = Mapping[str, Any]


@pytest.fixture(scope="session")
def helm() -> Path:
    return build.ensure(modules.HELM, print) / "helm"


def run(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def template(helm: Path, chart: Path, *flags: str | Path, release: str = "rayllm") -> list[Object]:
    """The objects that Helm makes of a chart in namespace ops."""
    text = run(helm, "template", release, chart, "-n", "ops", "--kube-version", versions.KUBERNETES, *flags)
    return [item for item in yaml.safe_load_all(text) if item]


def operator(helm: Path, *settings: str, release: str = "rayllm") -> list[Object]:
    """The objects of the operator, with `settings` as --set takes them."""
    flags = [flag for setting in (f"image.repository={IMAGE}", *settings) for flag in ("--set", setting)]
    return [item for item in template(helm, OPERATOR, *flags, release=release) if item["apiVersion"] != CRD]


def one(objects: list[Object], kind: str, suffix: str = "") -> Object:
    """The one object of a kind whose name ends in `suffix`."""
    [found] = [item for item in objects if item["kind"] == kind and item["metadata"]["name"].endswith(suffix)]
    return found


def rejection(helm: Path, *args: str | Path) -> str:
    """What Helm says of what it does not lay out."""
    argv = [helm, "template", "rayllm", *args, "--kube-version", versions.KUBERNETES]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1, done.stdout
    return done.stderr


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_lint(helm: Path, chart: Path) -> None:
    assert "0 chart(s) failed" in run(helm, "lint", "--strict", chart, "--kube-version", versions.KUBERNETES)


def test_an_image_is_required(helm: Path) -> None:
    assert "image.repository is required: `rayllm-ctl image recipe --controller`" in rejection(helm, OPERATOR)


def test_misspelled_values_are_rejected(helm: Path) -> None:
    settings = ("--set", f"image.repository={IMAGE}", "--set", "image.version=1")
    assert "'version' not allowed" in rejection(helm, OPERATOR, *settings)


def test_the_controller_watches_all_namespaces_by_default(helm: Path) -> None:
    objects = operator(helm)
    [container] = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith(f"{IMAGE}:")
    assert container["args"] == [
        "controller", "--all-namespaces", "--lease-namespace=ops", "--listen=:8080", "--workers=4", "--offline",
        "--log-format=json",
    ]  # fmt: skip
    granted = rules(one(objects, "ClusterRole", "operator"))
    assert ("ray.io", "rayservices", "create") in granted
    assert ("", "nodes", "list") in granted
    assert {verb for _, resource, verb in granted if resource == "secrets"} == {"create"}
    assert one(objects, "ClusterRoleBinding")["roleRef"]["name"] == "ops:rayllm-rayllm-operator"
    # A Role in the namespace of the release is for the Lease alone.
    assert rules(one(objects, "Role")) == {
        ("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "patch")
    }


def test_of_some_namespaces_it_gets_roles_and_reads_the_cluster(helm: Path) -> None:
    objects = operator(helm, "watchNamespaces={llm,chat}")
    [container] = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"][1:4] == ["--namespace=llm", "--namespace=chat", "--lease-namespace=ops"]
    roles = {item["metadata"]["namespace"]: rules(item) for item in objects if item["kind"] == "Role"}
    assert roles.keys() == {"ops", "llm", "chat"}
    assert ("ray.io", "rayservices", "create") in roles["llm"]
    assert roles["llm"] == roles["chat"]
    wide = rules(one(objects, "ClusterRole", "operator"))
    assert {verb for _, _, verb in wide} == {"get", "list"}
    bound = {item["metadata"]["namespace"]: item for item in objects if item["kind"] == "RoleBinding"}
    assert bound.keys() == roles.keys()
    account = {"kind": "ServiceAccount", "name": "rayllm-rayllm-operator", "namespace": "ops"}
    assert all(item["subjects"] == [account] for item in bound.values())


def test_without_rights_on_the_cluster_no_cluster_role_is_bound(helm: Path) -> None:
    flags = ("rbac.clusterRead=false", "rbac.aggregateClusterRoles=false", "watchNamespaces={llm}")
    assert not {item["kind"] for item in operator(helm, *flags)} & {"ClusterRole", "ClusterRoleBinding"}


def test_without_rbac_only_what_runs_is_installed(helm: Path) -> None:
    flags = ("rbac.create=false", "serviceAccount.create=false", "serviceAccount.name=given")
    objects = operator(helm, *flags)
    assert sorted(item["kind"] for item in objects) == ["Deployment", "Pod"]
    assert one(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "given"


def rules(role: Object) -> set[tuple[str, str, str]]:
    """API group, resource and verb of all that a role grants."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_both_pods_satisfy_pod_security_restricted(helm: Path) -> None:
    objects = operator(helm)
    for spec in (one(objects, "Deployment")["spec"]["template"]["spec"], one(objects, "Pod")["spec"]):
        assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        [container] = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
        assert container["resources"]["limits"]["memory"] == "512Mi"


def test_selectors_match_the_pods_of_the_controller_alone(helm: Path) -> None:
    objects = operator(
        helm, "replicaCount=2", "podMonitor.enabled=true", "podMonitor.labels.release=prometheus",
        "podLabels.team=search", "topologySpreadConstraints[0].maxSkew=1",
        "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
        "topologySpreadConstraints[0].topologyKey=kubernetes.io/hostname",
    )  # fmt: skip
    pods = one(objects, "Deployment")["spec"]["template"]
    tested = one(objects, "Pod")["metadata"]["labels"]
    monitor = one(objects, "PodMonitor")
    [spread] = pods["spec"]["topologySpreadConstraints"]
    selectors = [
        one(objects, "Deployment")["spec"]["selector"], one(objects, "PodDisruptionBudget")["spec"]["selector"],
        monitor["spec"]["selector"], spread["labelSelector"],
    ]  # fmt: skip
    for selector in selectors:
        assert selector["matchLabels"].items() <= pods["metadata"]["labels"].items()
        assert not selector["matchLabels"].items() <= tested.items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert pods["metadata"]["labels"]["team"] == "search"
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in pods["spec"]["containers"][0]["ports"]]


def test_one_replica_has_no_budget_that_keeps_nodes_from_being_drained(helm: Path) -> None:
    assert "PodDisruptionBudget" not in {item["kind"] for item in operator(helm)}


@pytest.mark.parametrize(
    ("release", "settings", "name"),
    [
        ("rayllm", (), "rayllm-rayllm-operator"),
        ("rayllm-operator", (), "rayllm-operator"),
        ("prod", ("nameOverride=llm",), "prod-llm"),
        ("prod", ("fullnameOverride=llm",), "llm"),
        ("a" * 53, ("nameOverride=" + "b" * 63,), "a" * 53 + "-" + "b" * 9),
    ],
)
def test_names(helm: Path, release: str, settings: tuple[str, ...], name: str) -> None:
    objects = operator(helm, *settings, release=release)
    assert one(objects, "Deployment")["metadata"]["name"] == name
    assert one(objects, "ServiceAccount")["metadata"]["name"] == name
    assert all(len(value) <= 63 for item in objects for value in item["metadata"]["labels"].values())
    assert len(one(objects, "Pod")["metadata"]["name"]) <= 63


def test_an_image_by_digest_and_scheduling(helm: Path) -> None:
    digest = f"sha256:{'0123' * 16}"
    objects = operator(
        helm, f"image.tag={digest}", "imagePullSecrets[0].name=pull", "nodeSelector.pool=cpu",
        "tolerations[0].operator=Exists", "priorityClassName=system-cluster-critical", "extraEnv[0].name=A",
        "extraEnv[0].value=b", "extraArgs={--context=x}", "hub=true",
    )  # fmt: skip
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["image"] == f"{IMAGE}@{digest}"
    assert (container["args"][-1], container["args"][5]) == ("--context=x", "--hub")
    assert {"name": "A", "value": "b"} in container["env"]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"pool": "cpu"}, [{"operator": "Exists"}])
    assert spec["priorityClassName"] == "system-cluster-critical"


def test_objects_have_the_specs_of_the_values(helm: Path, tmp_path: Path) -> None:
    model = {
        "model": {"id": "Qwen/Qwen3-32B"},
        "engine": {"maxModelLen": 1000000, "args": {"seed": 9007199254740992, "on": "on", "rope": 0.5, "empty": ""}},
        "pods": {"worker": {"env": [{"name": "A", "value": "{{ .Values }} $(X) 'quoted' #"}]}},
        "replicas": {"min": 0, "max": 4},
    }
    job = {
        "model": {"id": "m"},
        "input": {"paths": ["s3://b/in/*.parquet"]},
        "output": {"path": "s3://b/out"},
        "prompt": {"template": "Summarize: {{ text }}\n"},
    }
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"models": {"a": model, "b": model}, "batchJobs": {"a": job}}), encoding="utf-8")
    objects = template(helm, MODELS, "-f", values, "--set", "models.b.replicas.max=8", "--set", "labels.team=search")
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert found.keys() == {("LLMService", "a"), ("LLMService", "b"), ("BatchJob", "a")}
    assert found["LLMService", "a"]["spec"] == model
    assert found["LLMService", "b"]["spec"] == model | {"replicas": {"min": 0, "max": 8}}
    assert found["BatchJob", "a"]["spec"] == job
    assert {item["metadata"]["namespace"] for item in objects} == {"ops"}
    assert {item["metadata"]["labels"]["team"] for item in objects} == {"search"}


def test_a_model_that_is_null_is_left_out(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("models: {a: {model: {id: m}}, b: {model: {id: m}}}\n", encoding="utf-8")
    [kept] = template(helm, MODELS, "-f", values, "--set", "models.a=null")
    assert kept["metadata"]["name"] == "b"
    assert template(helm, MODELS, "-f", values, "--set", "models.a=null", "--set", "models.b=null") == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("models.a.replica.max=8", "'replica' not allowed"),
        ("models.a.replicas.max=eight", "got string, want integer"),
        ("models.b.replicas.max=8", "missing property 'model'"),
    ],
)
def test_specs_with_unknown_or_wrong_fields_are_rejected(
    helm: Path, tmp_path: Path, setting: str, message: str
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("models: {a: {model: {id: m}}}\n", encoding="utf-8")
    assert message in rejection(helm, MODELS, "-f", values, "--set", setting)


def test_no_models_are_no_objects(helm: Path) -> None:
    assert template(helm, MODELS) == []


def test_a_repository_can_be_made(helm: Path, tmp_path: Path) -> None:
    for chart in CHARTS:
        run(helm, "package", chart, "--destination", tmp_path)
    run(helm, "repo", "index", tmp_path)
    index = yaml.safe_load((tmp_path / "index.yaml").read_text(encoding="utf-8"))
    assert index["entries"].keys() == {chart.name for chart in CHARTS}
    for [entry] in index["entries"].values():
        assert (tmp_path / entry["urls"][0]).is_file()


@pytest.mark.parametrize(("overlay", "field"), [("dev", "upgradeStrategy"), ("prod", "rayClusterDeletionDelaySeconds")])
def test_kubectl_builds_the_overlays(overlay: str, field: str) -> None:
    kubectl = build.ensure(modules.KUBERNETES, print) / "kubectl"
    [service] = yaml.safe_load_all(run(kubectl, "kustomize", ROOT / "manifests" / "kustomize" / "overlays" / overlay))
    [base] = yaml.safe_load_all((ROOT / "manifests" / "kustomize" / "base" / "rayservice.yaml").read_text("utf-8"))
    assert service["metadata"]["namespace"] == f"llm-{overlay}"
    assert service["metadata"]["labels"]["environment"] == overlay
    assert service["spec"].pop(field)
    assert service["spec"] == base["spec"]


@pytest.mark.parametrize(("environment", "bounds"), [("dev", (0, 1)), ("prod", (2, 8))])
def test_kubectl_builds_the_environments(environment: str, bounds: tuple[int, int]) -> None:
    kubectl = build.ensure(modules.KUBERNETES, print) / "kubectl"
    folder = ROOT / "manifests" / "gitops" / "repository"
    [service] = yaml.safe_load_all(run(kubectl, "kustomize", folder / environment))
    base = yaml.safe_load((folder / "base" / "qwen3-32b.yaml").read_text(encoding="utf-8"))
    assert service["metadata"]["namespace"] == f"llm-{environment}"
    assert (service["spec"]["replicas"]["min"], service["spec"]["replicas"]["max"]) == bounds
    assert {**service["spec"], "replicas": None} == {**base["spec"], "replicas": None}
