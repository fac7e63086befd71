"""The Helm chart and the overlays, with Helm and kubectl themselves. No cluster is needed.

Helm lays out the objects of `render`, over the whole golden corpus.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import build, modules
from e2e.oneprocess import one_process
from e2e.selectors import unmatched

pytestmark = pytest.mark.xdist_group("chart")

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "rayllm"
SPECS = sorted([*ROOT.glob("tests/render/specs/*.yaml"), *ROOT.glob("manifests/*/llmservice.yaml")])
HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")

HOSTILE = [
    "a: b",
    "{{ .Values }}",
    "'\"\\",
    "line\nline",
    "\t\b\f",
    "on",
    "1e3",
    "ünïcode 漢",
    "\u200b\u2028",
    "$(HOSTNAME) $$x",
    " ",
    "#",
]
"""What would be something else if a template did not quote it."""


@pytest.fixture(scope="session")
def helm() -> Path:
    return build.ensure(modules.HELM, print) / "helm"


def run(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


Render = Callable[..., str]


@pytest.fixture(scope="module")
def render() -> Iterator[Render]:
    """What `render` prints."""
    with one_process(os.environ) as commands:
        yield lambda *flags: commands.run("render", "--offline", "--accept-risk", *map(str, flags)).out


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of a manifest without Helm's labels, in the order of kinds and names."""
    found = [item for item in yaml.safe_load_all(text) if item]
    for item in found:
        for label in HELM_LABELS:
            item["metadata"]["labels"].pop(label, None)
    return sorted(found, key=lambda item: (item["kind"], item["metadata"]["name"]))


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_helm_lays_out_what_render_prints(helm: Path, render: Render, spec: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(render("-f", spec, "--format", "helm-values"), encoding="utf-8")
    laid_out = run(helm, "template", "release", CHART, "-f", values)
    assert objects(laid_out) == objects(render("-f", spec))
    assert laid_out.count("helm.sh/chart") == len(objects(laid_out))
    run(helm, "lint", "--strict", CHART, "-f", values)


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_selector_follows_the_name_of_the_release(helm: Path, render: Render, spec: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(render("-f", spec, "--format", "helm-values"), encoding="utf-8")
    renamed = objects(run(helm, "template", "blue", CHART, "-f", values, "--set", "name="))
    (service,) = (item for item in renamed if item["kind"] in ("RayService", "RayCluster"))
    assert service["metadata"]["name"] == "blue"
    assert unmatched(renamed) == []


def test_text_arrives_as_it_is(helm: Path, render: Render, tmp_path: Path) -> None:
    flags = ["--model", "Qwen/Qwen3-8B", "--gpu", "H100-80GB", "--name", "hostile"]
    flags += [flag for number, text in enumerate(HOSTILE) for flag in ("--env", f"V{number}={text}")]
    flags += ["--engine-arg", f"hf_overrides={json.dumps({text: [text, 0.5, 1e-7, True, None] for text in HOSTILE})}"]
    values = tmp_path / "values.yaml"
    values.write_text(render(*flags, "--format", "helm-values"), encoding="utf-8")
    assert objects(run(helm, "template", "release", CHART, "-f", values)) == objects(render(*flags))


def test_the_chart_without_values(helm: Path) -> None:
    assert "0 chart(s) failed" in run(helm, "lint", "--strict", CHART)
    done = subprocess.run([helm, "template", "x", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "--format helm-values" in done.stderr


def test_misspelled_values_are_rejected(helm: Path) -> None:
    settings = ("--set", "runtime.image=r/i:1", "--set", "engine.maxModelLength=1")
    done = subprocess.run([helm, "template", "x", CHART, *settings], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "maxModelLength" in done.stderr


@pytest.mark.parametrize(
    ("flags", "changes", "message"),
    [
        (("--tp", "2"), ("serve.autoscaling.maxReplicas=5",), "the worker groups can hold only 1: raise"),
        (("--tp", "2"), ("serve.autoscaling.maxReplicas=5", "workerGroups[0].maxWorkers=5"), ""),
        (("--tp", "2"), ("serve.autoscaling.minReplicas=2",), "serve.autoscaling: minReplicas (2) is greater than"),
        (("--tp", "2"), ("workerGroups[0].minWorkers=2",), "workerGroups[0]: minWorkers (2) is greater than"),
        (("--pp", "2", "--tp", "8", "--max-replicas", "2"), ("workerGroups[0].maxWorkers=3",), "can hold only 1"),
        (("--accelerator", "cpu", "--image", "r/i:1"), ("serve.autoscaling.maxReplicas=3",), "can hold only 1"),
    ],
)
def test_bounds_that_disagree_are_rejected(
    helm: Path, render: Render, tmp_path: Path, flags: tuple[str, ...], changes: tuple[str, ...], message: str
) -> None:
    gpu = () if "cpu" in flags else ("--gpu", "H100-80GB")
    values = json.loads(render("--model", "Qwen/Qwen3-8B", *gpu, *flags, "--format", "helm-values", "-o", "json"))
    for path, value in (change.split("=") for change in changes):
        *way, last = path.replace("[0]", ".0").split(".")
        at: Any = values
        for step in way:
            at = at[int(step) if step.isdigit() else step]
        at[last] = int(value)
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    done = subprocess.run([helm, "template", "x", CHART, "-f", file], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (message == ""), done.stderr
    assert message in done.stderr


def test_name_replicas_and_environment_can_be_changed(helm: Path, render: Render, tmp_path: Path) -> None:
    flags = ("--model", "Qwen/Qwen3-8B", "--gpu", "H100-80GB", "--format", "helm-values", "-o", "json")
    values = json.loads(render(*flags))
    values["name"] = ""
    values["serve"]["autoscaling"]["maxReplicas"] = values["workerGroups"][0]["maxWorkers"] = 5
    values["head"]["env"] = [{"name": "A", "value": "b"}]
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    [service] = objects(run(helm, "template", "mine", CHART, "-n", "llm", "-f", file))
    assert service["metadata"]["name"] == "mine"
    assert service["metadata"]["labels"]["app.kubernetes.io/instance"] == "mine"
    [application] = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    assert application["name"] == "mine"
    assert application["deployments"][0]["autoscaling_config"]["max_replicas"] == 5
    cluster = service["spec"]["rayClusterConfig"]
    assert cluster["workerGroupSpecs"][0]["maxReplicas"] == 5
    assert cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}]


def test_a_repository_can_be_made(helm: Path, tmp_path: Path) -> None:
    shutil.copytree(CHART, tmp_path / "rayllm")
    run(helm, "package", tmp_path / "rayllm", "--destination", tmp_path / "repository")
    run(helm, "repo", "index", tmp_path / "repository")
    index = yaml.safe_load((tmp_path / "repository" / "index.yaml").read_text(encoding="utf-8"))
    [entry] = index["entries"]["rayllm"]
    assert (tmp_path / "repository" / entry["urls"][0]).is_file()


@pytest.mark.parametrize(("overlay", "field"), [("dev", "upgradeStrategy"), ("prod", "rayClusterDeletionDelaySeconds")])
def test_kubectl_builds_the_overlays(overlay: str, field: str) -> None:
    kubectl = build.ensure(modules.KUBERNETES, print) / "kubectl"
    [service] = yaml.safe_load_all(run(kubectl, "kustomize", ROOT / "manifests" / "kustomize" / "overlays" / overlay))
    [base] = yaml.safe_load_all((ROOT / "manifests" / "kustomize" / "base" / "rayservice.yaml").read_text("utf-8"))
    assert service["metadata"]["namespace"] == f"llm-{overlay}"
    assert service["metadata"]["labels"]["environment"] == overlay
    assert service["spec"].pop(field)
    assert service["spec"] == base["spec"]
