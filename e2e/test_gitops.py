"""Rendered manifests under GitOps, on simulated nodes: kubectl, Argo CD and Flux apply the same file for ever, next to
the operator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from e2e.harness import Bench, Object

pytestmark = pytest.mark.xdist_group("simulated")

FLAGS = (
    "render", "--offline", "--model", "Qwen/Qwen3-32B", "--name", "gitops", "--gpu", "H100-80GB", "--tp", "4",
    "--max-replicas", "2", "--env", "EMPTY=", "--env", "OMP_NUM_THREADS=4", "--toleration", "team=search",
    "--volume", "pvc:models:/models", "--volume", "secret:ca:/ca", "--cpu", "8000m", "--memory", "65536Mi",
)  # fmt: skip
"""Quantities that Kubernetes would spell otherwise, an empty variable, volumes: what Go types write in a form of their
own. Nothing has to run: the operator writes the object back before it makes a pod."""


def operator_fields(bench: Bench) -> list[Object]:
    """What the operator owns of the RayService beside its status; empty before it has looked at it."""
    args = ("get", "rayservice", "gitops", "-n", bench.namespace, "--show-managed-fields", "-o", "json")
    managers: list[Object] = json.loads(bench.kubectl(*args))["metadata"]["managedFields"]
    own = [entry for entry in managers if entry["manager"] == "kuberay-operator" and "subresource" not in entry]
    return [entry["fieldsV1"] for entry in own]


def test_the_same_file_is_applied_again_and_a_changed_one_too(simulated: Bench) -> None:
    def apply(text: str) -> int:
        simulated.kubectl("apply", "--server-side", "-n", simulated.namespace, "-f", "-", input_text=text)
        generation: int = simulated.get("rayservice", "gitops")["metadata"]["generation"]
        return generation

    first = simulated.run(*FLAGS).out
    more = [*FLAGS, "--max-num-seqs", "128"]
    more[more.index("--max-replicas") + 1] = "3"
    changed = simulated.run(*more).out
    generation = apply(first)
    written = simulated.wait("the operator writes the object back", lambda: operator_fields(simulated), timeout=60)
    assert all("f:spec" not in fields for fields in written), written
    assert apply(first) == generation
    assert apply(changed) == generation + 1
    assert apply(first) == generation + 2
    assert all("f:spec" not in fields for fields in operator_fields(simulated))


def test_a_repository_of_rendered_files_needs_nothing_but_kubectl(simulated: Bench, tmp_path: Path) -> None:
    """Applied with kustomize, twice, until the model answers."""
    spec, repository = tmp_path / "own.yaml", tmp_path / "repository"
    command, *flags = simulated.tiny("own")
    assert command == "deploy"
    spec.write_text(simulated.run("init", *flags).out, encoding="utf-8")
    simulated.run("render", "-f", str(spec), "--output-dir", str(repository))
    git(repository, "init", "--quiet")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "Serve the model")
    git(tmp_path, "clone", "--quiet", str(repository), "clone")
    folder = tmp_path / "clone" / "own"

    def apply() -> int:
        simulated.kubectl("apply", "--server-side", "-k", str(folder))
        generation: int = simulated.get("rayservice", "own")["metadata"]["generation"]
        return generation

    generation = apply()
    simulated.run("wait", "own", "-n", simulated.namespace, "--for", "ready")
    assert apply() == generation
    # The same files, written again: nothing to commit.
    simulated.run("render", "-f", str(spec), "--output-dir", str(tmp_path / "clone"))
    assert git(tmp_path / "clone", "status", "--porcelain") == ""
    assert simulated.run("diff", "-f", str(spec), "-n", simulated.namespace, "--field-manager", "kubectl").out == ""
    answer = simulated.run("chat", "own", "-n", simulated.namespace, "Say something", "--max-tokens", "8").out
    assert answer.strip()


def git(folder: Path, *args: str) -> str:
    """git's standard output. The author is nobody in particular."""
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    done = subprocess.run(["git", "-C", str(folder), *who, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
