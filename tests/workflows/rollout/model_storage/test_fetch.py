"""Downloads without a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster, connect
from rayllm_ctl.cluster.apply.delete import delete_service
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Applied, Downloading, Noted, Rendered
from rayllm_ctl.model.spec.model_storage import Mirror, MirrorClaim, MirrorTarget, ModelStorage, NewClaim, ObjectStore
from rayllm_ctl.model.spec.service import LLMService, Model, Storage
from rayllm_ctl.workflows.observe import wait as observing
from rayllm_ctl.workflows.rollout.model_storage.fetch import FetchOptions, fetch, fetch_name
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving
from tests.health.storage.manifests import storage_class
from tests.workflows.rollout.model_storage.fakedownloads import DENIED, Downloads

OPTIONS = FetchOptions(timeout=300)
CREATED = MirrorTarget(claim=MirrorClaim("models", create=NewClaim("20Gi")))


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    with serving() as running:
        fakekuberay.operator(running)
        running.put(**storage_class("shared", "nfs.csi.k8s.io", default=True))
        running.put(kind="CSIDriver", metadata={"name": "nfs.csi.k8s.io"})
        yield running


@pytest.fixture
def cluster(api: FakeAPI, tmp_path: Path) -> Cluster:
    return connect(str(kubeconfig(tmp_path / "kubeconfig", api.url, token="s3cret-token")), request_timeout=5)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "LOOK_EVERY", 0.05)


def asked(to: MirrorTarget = CREATED) -> LLMService:
    mirror = Mirror(to)
    model = Model("Qwen/Qwen3-8B")
    storage = Storage(model=ModelStorage(mirror=mirror))
    return LLMService(fetch_name(model.id), model=model, namespace="llm", storage=storage)


def run(cluster: Cluster, options: FetchOptions = OPTIONS, to: MirrorTarget = CREATED) -> list[Any]:
    return list(fetch(asked(to), options, lambda: cluster))


def notes(events: list[Any]) -> list[str]:
    return [event.message for event in events if isinstance(event, Noted)]


def test_a_model_is_fetched_into_a_new_claim(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    events = run(cluster)
    applied = [(event.kind, event.action) for event in events if isinstance(event, Applied)]
    assert sorted(applied) == [
        ("ConfigMap", "created"), ("ConfigMap", "created"), ("Job", "created"), ("PersistentVolumeClaim", "created"),
    ]  # fmt: skip
    assert applied[-1] == ("Job", "created")
    assert [type(event) for event in events if isinstance(event, Downloading)]
    assert notes(events)[-2:] == [
        "in a spec file: storage.model.claim: {name: models, path: Qwen/Qwen3-8B/main}",
        "rayllm-ctl delete fetch-qwen3-8b -n llm    # deletes the Job and its settings; the files stay",
    ]


def test_a_second_fetch_says_that_it_was_complete(api: FakeAPI, cluster: Cluster) -> None:
    runs = Downloads(api, True)
    run(cluster)
    told = notes(run(cluster))
    assert runs.ran == 1
    assert any("had downloaded it before: nothing was fetched" in line for line in told)


def test_a_fetch_is_deleted_by_its_name(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, True)
    run(cluster)
    events = list(delete_service(cluster, RAY_SERVICE, "fetch-qwen3-8b", "llm", wait=False))
    assert {event.kind for event in events if isinstance(event, Applied)} == {"Job", "ConfigMap"}
    assert notes(events) == ["persistentvolumeclaim/models is kept: kubectl delete pvc models -n llm"]


def test_a_fetch_that_fails_names_the_cause_and_the_next_one_continues(api: FakeAPI, cluster: Cluster) -> None:
    runs = Downloads(api, DENIED, True)
    with pytest.raises(UserError, match="DownloadUnauthorized") as raised:
        run(cluster)
    job = api.names("Job")[0]
    assert raised.value.hints == (
        "rayllm-ctl fetch … --hf-token-secret NAME/KEY    # a token with access granted at "
        "https://huggingface.co/Qwen/Qwen3-8B",
        "rayllm-ctl fetch …    # the same command starts it again, and the download continues where it stopped",
        f"kubectl logs job/{job} -n llm",
    )
    assert any("a new one continues the download" in line for line in notes(run(cluster)))
    assert runs.ran == 2


def test_without_a_wait_it_ends_when_the_job_is_applied(api: FakeAPI, cluster: Cluster) -> None:
    Downloads(api, None)
    events = run(cluster, FetchOptions(timeout=300, wait=False))
    assert isinstance(events[-1], Applied)
    assert events[-1].kind == "Job"


@pytest.mark.parametrize("dry_run", ["client", "server"])
def test_a_dry_run_writes_nothing(api: FakeAPI, cluster: Cluster, dry_run: Any) -> None:
    events = run(cluster, FetchOptions(timeout=300, dry_run=dry_run))
    assert isinstance(events[0], Rendered)
    written = [one for one in api.requests if one.method == "PATCH" and one.query.get("dryRun") != "All"]
    assert written == []
    assert bool(api.requests) is (dry_run == "server")


def test_a_claim_that_is_missing_is_rejected_beforehand(api: FakeAPI, cluster: Cluster) -> None:
    with pytest.raises(UserError, match="persistentvolumeclaim/models does not exist in namespace llm"):
        run(cluster, to=MirrorTarget(claim=MirrorClaim("models")))
    assert not [one for one in api.requests if one.method == "PATCH"]


def test_a_secret_without_its_key_is_rejected_beforehand(api: FakeAPI, cluster: Cluster) -> None:
    api.put(kind="Secret", metadata={"name": "s3"}, data={"AWS_ACCESS_KEY_ID": "aWQ="})
    bucket = MirrorTarget(object_store=ObjectStore("s3://bucket/qwen3-8b", secret="s3"))
    with pytest.raises(UserError, match="has no key AWS_SECRET_ACCESS_KEY") as caught:
        run(cluster, to=bucket)
    assert "aWQ=" not in str(caught.value.hints) + caught.value.message
