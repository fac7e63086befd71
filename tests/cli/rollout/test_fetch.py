"""`fetch` on the command line."""

from __future__ import annotations

import json

import pytest

from rayllm_ctl.cli import app
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI
from tests.health.storage.manifests import live_claim
from tests.workflows.rollout.model_storage.fakedownloads import Downloads

FETCH = ("fetch", "Qwen/Qwen3-8B", "-n", "llm")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--to", "models"), 'Error: --to: "models" is not claim/NAME[/PATH], s3://BUCKET/PATH or gs://BUCKET/PATH'),
        (
            ("--to", "claim/models", "--storage-secret", "s3"),
            "--storage-secret is for buckets, and neither --from nor --to is one",
        ),
        (("--to", "s3://bucket/a", "--size", "1Gi"), "--size creates a claim, and --to is a bucket"),
        (("--to", "claim/models", "--from", "ftp://host/a"), "--from: "),
        (("--to", "claim/models", "--size", "big"), "--size: "),
        (("--to", "claim/Models"), "--to: "),
        (
            ("--to", "claim/models", "--from", "https://host/a/", "--hf-token-secret", "hf/token"),
            "--hf-token-secret is for the Hugging Face Hub, and --from is another source",
        ),
        (("--to", "claim/models", "--image", "A B"), "--image: not a valid image reference"),
    ],
)
def test_flags_that_are_wrong(flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([*FETCH, *flags, "--dry-run=client"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message.removeprefix("Error: ") in said.err


def test_the_document_has_the_download(run: Run, api: FakeAPI) -> None:
    Downloads(api, True)
    api.put(**live_claim())
    done = run(*FETCH, "--to", "claim/models", "-o", "json")
    assert done.code == 0
    document = json.loads(done.out)
    assert document["kind"] == "Rollout"
    assert [one["kind"] for one in document["applied"]] == ["ConfigMap", "ConfigMap", "Job"]
    assert [(one["source"], one["state"]) for one in document["downloads"]] == [("hf://Qwen/Qwen3-8B", "Complete")]


def test_a_claim_that_cannot_hold_the_model_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["fetch", "Qwen/Qwen3-32B", "--to", "claim/models", "--dry-run=client"]
    assert app.run([*argv, "--size", "60Gi"]) == 2
    said = capsys.readouterr().err
    assert "--size 60Gi is too small: the files of Qwen/Qwen3-32B have 61.0 GiB" in said
    assert "--size 68Gi, or auto" in said
    assert app.run([*argv, "--size", "68Gi"]) == 0


def test_a_size_that_nobody_knows_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    argv = ["fetch", "acme/unheard-of", "--to", "claim/models", "--size", "auto", "--dry-run=client"]
    assert app.run(argv) == 1
    said = capsys.readouterr().err
    assert "--size SIZE    # such as 200Gi" in said
    assert "--model-config" not in said, "fetch has no such flag"


def test_the_size_of_a_model_in_the_catalog_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([*FETCH, "--to", "claim/models", "--size", "auto", "--dry-run=client", "-o", "json"]) == 0
    claim = json.loads(capsys.readouterr().out)["items"][0]
    assert claim["spec"]["resources"]["requests"]["storage"] == "17Gi"  # 15.3 GiB and a tenth


def test_the_manifests_need_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([*FETCH, "--to", "claim/models/a", "--size", "20Gi", "--dry-run=client", "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [item["kind"] for item in items] == ["PersistentVolumeClaim", "ConfigMap", "ConfigMap", "Job"]
    settings = json.loads(items[2]["data"]["settings.json"])
    assert (settings["source"], settings["target"]) == ("hf://Qwen/Qwen3-8B", "/models/a")
