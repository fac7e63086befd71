"""The controller with pods that really run: vLLM, a gateway with two models, a batch job, an upgrade under load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import hub
from e2e.cluster.load import load
from e2e.cluster.progress import to_stderr
from e2e.controllers import API_VERSION, Declared, Release, released, tiny_spec
from e2e.harness import ENDS_SOON, STAND_IN, Bench, Object
from e2e.images import controller
from e2e.images.oci import Image
from e2e.load import Load
from e2e.s3 import PORT, serving

pytestmark = [pytest.mark.xdist_group("controller"), pytest.mark.slow]

PODS = {"cpu": "500m", "memory": "4Gi"}


@pytest.fixture(scope="module")
def operator(shared: Bench, controller_image: Image) -> Iterator[Release]:
    """The chart of this checkout, responsible for the namespace of the module alone."""
    with released(shared) as release:
        release.install(controller_image, f"watchNamespaces={{{shared.namespace}}}")
        release.helm("test", release.name, "--timeout", "120s")
        yield release


def test_two_services_with_vllm_answer(operator: Release, shared: Bench) -> None:
    assert operator.bench.target is shared.target
    small = {"path": "/models/tiny", "accelerator": {"kind": "cpu"}, "resources": {"worker": PODS}}
    gateway = {
        "models": [{"id": "first", **small}, {"id": "second", **small}],
        "engine": {"image": shared.target.image},
        "resources": {"head": {"cpu": "300m", "memory": "4Gi"}, "ingress": {"cpu": "300m", "memory": "3Gi"}},
        "gateway": {},
    }
    several, single = Declared(shared, "several"), Declared(shared, "single")
    several.apply(gateway)
    several.wait("Ready", timeout=580)
    assert several.condition("GatewayReady")[0] == "True"
    for model in ("first", "second"):
        answer = shared.run("chat", "several", "--model", model, "Hello", "--max-tokens", "8", "-n", shared.namespace)
        assert answer.out.strip()
    several.delete()
    shared.wait("all that it owned is gone", lambda: not several.left(), timeout=300)
    single.apply(tiny_spec(shared, "single") | {"replicas": {"count": 1}})
    single.wait("Ready", timeout=580)
    assert shared.run("chat", "single", "Hello", "--max-tokens", "8", "-n", shared.namespace).out.strip()
    single.delete()
    shared.wait("all that it owned is gone", lambda: not single.left(), timeout=300)


def test_a_batch_job_runs_once(operator: Release, shared: Bench, host_address: str, tmp_path: Path) -> None:
    assert operator.bench.target is shared.target
    with serving(tmp_path, f"{host_address}:{PORT}") as s3:
        (s3.folder / "data").mkdir()
        keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
        shared.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": keys})
        job = Declared(shared, "haikus", "BatchJob")
        job.apply(
            {
                "model": {"id": "tiny", "path": "/models/tiny"},
                "accelerator": {"kind": "cpu"},
                "engine": {
                    "image": shared.target.image, "maxModelLen": 1024,
                    "env": {"RAYLLM_BATCH_ENGINE_STAGE": "rayllm_standin.batch:StandInStage"},
                },
                "input": {"prompts": ["a", "b", "c"]},
                "output": {"path": "s3://data/haikus", "format": "jsonl"},
                "storage": {"endpoint": s3.endpoint, "region": "us-east-1", "credentialsSecret": "s3"},
                "resources": {"head": {"cpu": "500m", "memory": "4Gi"}, "worker": {"cpu": "500m", "memory": "3Gi"}},
                "sampling": {"maxTokens": 8},
            }
        )  # fmt: skip
        job.wait("Complete", timeout=400)
        lines = [
            line for part in (s3.folder / "data" / "haikus").glob("part-*") for line in part.read_text().splitlines()
        ]
        assert len(lines) == 3, lines
        before = job.bench.get("rayjob", "haikus")["metadata"]["uid"]
        # The controller starts anew, and does not run it again.
        operator.bench.kubectl("delete", "pods", "--all", "-n", operator.bench.namespace)
        operator.bench.kubectl("rollout", "status", "deployment", "-n", operator.bench.namespace, "--timeout=120s")
        assert job.condition("Complete")[0] == "True"
        assert job.bench.get("rayjob", "haikus")["metadata"]["uid"] == before
        job.delete()
        shared.wait("all that it owned is gone", lambda: not job.left(), timeout=300)


def test_a_model_is_downloaded_before_its_pods(
    operator: Release, shared: Bench, host_address: str, tmp_path: Path
) -> None:
    """A download that the hub denies is told with its cause, and continues when its Job is deleted; for a change, too,
    during which the service answers as before.
    """
    assert operator.bench.target is shared.target
    model, service, where = "Qwen/Qwen3-0.6B", Declared(shared, "mirrored"), ("-n", shared.namespace)
    with hub.serving(host_address) as served, hub.shared_volume(shared, "mirrored", tmp_path / "models") as volume:
        served.files[model] = served.files.pop(hub.MODEL)
        create = {"size": "10Gi", "storageClass": volume, "accessModes": ["ReadWriteMany"]}

        def spec(folder: str) -> Object:
            claim = {"name": "mirrored", "path": folder, "create": create}
            env = {**ENDS_SOON, **STAND_IN, "HF_ENDPOINT": served.address, "HF_HUB_OFFLINE": "0"}
            return {
                "model": {"id": model}, "accelerator": {"kind": "cpu"}, "replicas": {"count": 1},
                "resources": {"worker": PODS}, "storage": {"model": {"mirror": {"from": "hf", "to": {"claim": claim}}}},
                "engine": {"image": shared.target.image, "maxModelLen": 512, "env": env},
            }  # fmt: skip

        def start_again() -> None:
            # Its pod says so a moment before the Job.
            shared.wait("the Job has failed", lambda: any(map(is_failed, shared.items("jobs"))), timeout=60)
            (job,) = [one["metadata"]["name"] for one in shared.items("jobs") if is_failed(one)]
            assert f"kubectl delete job {job} -n {shared.namespace}" in service.message("Stalled")
            shared.kubectl("delete", "job", job, *where)

        served.mode = "gated"
        service.apply(spec("first"))
        service.wait("Stalled", reason="DownloadUnauthorized")
        assert service.condition("Applied") == ("False", "Downloading")
        assert "RayService/mirrored" not in service.children()
        assert "403" in shared.run("status", "mirrored", *where, code=None).out
        assert "DownloadUnauthorized" in shared.run("logs", "mirrored", "--download", *where).out
        served.mode = "ok"
        start_again()
        service.settled(timeout=400)
        before = shared.get("rayservice", "mirrored")["metadata"]["generation"]

        served.mode = "gated"
        generation = service.apply(spec("second"))
        service.wait("Planned")
        if service.condition("Upgrading") == ("False", "NeedsConsent"):  # without room for another replica
            service.apply(spec("second"), {"rayllm.io/accept": str(generation)})
        service.wait("Stalled", reason="DownloadUnauthorized")
        assert service.condition("Ready")[0] == "True"
        assert shared.run("chat", "mirrored", "Hello", "--max-tokens", "8", *where).out.strip()
        assert shared.get("rayservice", "mirrored")["metadata"]["generation"] == before
        served.mode = "ok"
        start_again()
        service.settled(timeout=400)
        assert "/models/second" in shared.get("rayservice", "mirrored")["spec"]["serveConfigV2"]
        assert hub.marker(tmp_path / "models" / "second")["source"] == f"hf://{model}"
        service.delete()
        shared.wait("all that it owned is gone", lambda: not service.left(), timeout=300)


def is_failed(job: Object) -> bool:
    """Whether a Job has failed for good."""
    conditions = job["status"].get("conditions") or ()
    return any((one["type"], one["status"]) == ("Failed", "True") for one in conditions)


def test_another_release_of_the_controller_changes_no_child(operator: Release, shared: Bench) -> None:
    """Under load, of which no request fails. It renders nothing again until it is asked to."""
    image = controller.ensure(to_stderr(), release="0.2.0")
    load(image)
    service = Declared(shared, "steady")
    spec = tiny_spec(shared, "steady") | {"replicas": {"count": 1}}
    spec["engine"] = {**spec["engine"], "env": STAND_IN}
    service.apply(spec)
    service.wait("Ready", timeout=400)
    service.settled(timeout=400)
    children = written(service)
    assert any(name.startswith("RayService/") for name in children)
    with shared.proxied("steady-serve-svc") as base, Load(base, "tiny", clients=2, max_tokens=16) as sent:
        shared.wait("requests are answered", lambda: sent.answered > 5, timeout=120)
        operator.install(image, f"watchNamespaces={{{shared.namespace}}}")
        (pod,) = pods(operator)
        assert pod["spec"]["containers"][0]["image"] == image.ref
        operator.bench.wait("the new one reconciles", lambda: holds(operator), timeout=60)
        # What it has looked at it says the generation of.
        generation = service.apply({**spec, "renderVersion": "again", "planOnly": True})
        service.wait("Applied", "False", "PlanOnly")
        assert service.status["observedGeneration"] == generation
        answered = sent.answered
        shared.wait("requests are answered", lambda: sent.answered > answered + 5, timeout=120)
    print(f"load: {sent.figures()}")
    assert sent.failed == []
    assert written(service) == children
    service.delete()
    shared.wait("all that it owned is gone", lambda: not service.left(), timeout=300)


def test_adopt_and_release_under_load(operator: Release, shared: Bench, tmp_path: Path) -> None:
    """A service of the command line is handed over and taken back: no pod restarts, and no request fails."""
    assert operator.bench.target is shared.target
    service, where = Declared(shared, "handed"), ("-n", shared.namespace)
    spec = tiny_spec(shared, "handed") | {"replicas": {"min": 1, "max": 1}}
    spec["engine"] = {**spec["engine"], "env": STAND_IN}
    file = tmp_path / "handed.json"
    file.write_text(
        json.dumps({"apiVersion": API_VERSION, "kind": "LLMService", "metadata": {"name": "handed"}, "spec": spec})
    )
    shared.run("deploy", "-f", str(file), "--offline", *where)
    with shared.proxied("handed-serve-svc") as base, Load(base, "tiny", clients=2, max_tokens=16) as sent:
        shared.wait("requests are answered", lambda: sent.answered > 5, timeout=120)
        before = containers(shared)
        shared.run("adopt", "handed", "-f", str(file), "--offline", *where)
        service.settled(timeout=300)
        adopted = sent.answered
        shared.wait("requests are answered", lambda: sent.answered > adopted + 5, timeout=120)
        shared.run("release", "handed", *where)
        released_at = sent.answered
        shared.wait("requests are answered", lambda: sent.answered > released_at + 5, timeout=120)
        assert containers(shared) == before
    print(f"load: {sent.figures()}")
    assert sent.failed == []
    shared.run("delete", "handed", *where)


def containers(bench: Bench) -> dict[str, list[tuple[str, int]]]:
    """The containers of each Ray pod, with the number of their restarts."""
    return {
        pod["metadata"]["uid"]: [
            (one["containerID"], one["restartCount"]) for one in pod["status"]["containerStatuses"]
        ]
        for pod in bench.items("pods", "ray.io/is-ray-node=yes")
    }


def pods(operator: Release) -> list[Object]:
    """The pods of the controller that are not on their way out."""
    found = operator.bench.items("pods", f"app.kubernetes.io/instance={operator.name}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def holds(operator: Release) -> bool:
    """Whether the one pod of the controller has the Lease."""
    holder = str(operator.bench.get("lease", "rayllm-controller")["spec"].get("holderIdentity") or "")
    return [holder.startswith(pod["metadata"]["name"]) for pod in pods(operator)] == [True]


def written(service: Declared) -> dict[str, Any]:
    """The generation of each child, and what was written of it but for its status."""
    return {
        name: (
            item["metadata"].get("generation"),
            json.dumps([one for one in item["metadata"]["managedFields"] if "subresource" not in one]),
        )
        for name, item in service.children().items()
    }
