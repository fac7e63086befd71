"""How a driver ends so that KubeRay does not start the job again."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest

from rayllm_ctl.serving.batch import ending
from tests.serving.batch.conftest import Rig


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs that Ray was asked to stop."""
    jobs: list[str] = []
    fake: Any = ModuleType("ray.job_submission")

    class Client:
        def stop_job(self, job: str) -> None:
            jobs.append(job)
            if job == "gone":
                raise RuntimeError("Request failed with status code 404")

    fake.JobSubmissionClient = Client
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.setitem(sys.modules, "ray.job_submission", fake)
    monkeypatch.setattr(ending, "_WAIT_SECONDS", 0)
    return jobs


def submitted_as(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"runtime_env": {}, "metadata": {"job_submission_id": job}}
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps(config))


def test_a_job_whose_input_is_rejected_or_with_too_many_errors_stops_itself(
    rig: Rig, stopped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted_as("job-abc", monkeypatch)
    rig.write("1.txt", "x\n")
    assert rig.run(rig.settings("text", "jsonl"))[0] == 0
    assert stopped == []
    assert rig.run(rig.settings("text", "jsonl", sampling={"seed": 1}))[0] == 2
    assert stopped == ["job-abc"]
    assert (
        rig.run(
            rig.settings(
                "text", "jsonl", input={"paths": [], "prompts": [" "]}, output={"path": str(rig.root / "other")}
            )
        )[0]
        == 1
    )
    assert len(stopped) == 2


def test_a_job_that_failed_is_left_to_kuberay(rig: Rig, stopped: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    submitted_as("job-abc", monkeypatch)
    rig.write("1.txt", "x\ny\n")
    rig.stop_after = 1
    assert rig.run(rig.settings("text", "jsonl"))[0] == 3
    assert stopped == []


def test_what_ray_did_not_start_is_not_stopped(stopped: list[str]) -> None:
    ending.stop_own_job()
    assert stopped == []


def test_a_stop_that_fails_is_said(
    stopped: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted_as("gone", monkeypatch)
    ending.stop_own_job()
    assert stopped == ["gone"]
    assert "could not be stopped, so KubeRay may start it again" in capsys.readouterr().err
