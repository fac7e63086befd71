"""Deployments whose revision could not be written: what later commands know of what they applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.model.kube.labels import UNRECORDED
from tests.cli.conftest import Result, Run
from tests.cli.rollout.test_surroundings import EXPOSED, SPEC
from tests.cluster.fakeapi import Answer, FakeAPI, Request, status

MONITORED = SPEC + "  monitoring: {podMonitor: {}}\n"
MORE = "  replicas: {min: 1, max: 2}\n"
SCALE = ("scale", "tiny", "-n", "llm", "--max-replicas", "4", "--no-wait")
ROLLBACK = ("rollback", "tiny", "-n", "llm", "--no-wait")


class Deployed:
    """Deploys the text of a spec file, recorded or not."""

    def __init__(self, run: Run, api: FakeAPI, file: Path) -> None:
        self._run, self._api, self._file = run, api, file

    def __call__(self, text: str, *arguments: str) -> Result:
        self._file.write_text(text, encoding="utf-8")
        return self._run("deploy", "-f", str(self._file), "--offline", *arguments)

    def unrecorded(self, text: str) -> Result:
        full = (500, {"kind": "Status", "message": "etcdserver: no space"})
        self._api.answer("POST", "/controllerrevisions$", full, times=1)
        result = self(text, "--no-wait")
        assert result.code == 0, str(result)
        assert "no revision is kept" in result.err
        return result


@pytest.fixture
def deployed(run: Run, api: FakeAPI, tmp_path: Path) -> Deployed:
    made = Deployed(run, api, tmp_path / "tiny.yaml")
    assert (first := made(SPEC)).code == 0, str(first)
    return made


def marked(api: FakeAPI) -> str | None:
    """The kinds that the object of the service has beyond those of its history."""
    annotations: dict[str, str] = api.stored("RayService", "tiny")["metadata"].get("annotations") or {}
    return annotations.get(UNRECORDED)


def newest(api: FakeAPI) -> set[str]:
    """The kinds of the newest revision."""
    made: list[dict[str, Any]] = [api.stored("ControllerRevision", name) for name in api.names("ControllerRevision")]
    return {item["kind"] for item in max(made, key=lambda one: int(one["revision"]))["data"]["manifests"]}


def test_the_revision_of_a_scale_has_what_an_unrecorded_deployment_added(
    run: Run, api: FakeAPI, deployed: Deployed
) -> None:
    deployed.unrecorded(MONITORED)
    assert (marked(api), newest(api) & {"PodMonitor"}) == ("PodMonitor", set())
    assert (scaled := run(*SCALE)).code == 0, str(scaled)
    assert (marked(api), newest(api) & {"PodMonitor"}) == (None, {"PodMonitor"})

    assert deployed(MONITORED + MORE, "--no-wait").code == 0
    assert (back := run(*ROLLBACK)).code == 0, str(back)
    assert api.names("PodMonitor") == ["tiny"]


def test_a_rollback_leaves_what_no_revision_names_and_says_so(run: Run, api: FakeAPI, deployed: Deployed) -> None:
    assert deployed(SPEC + MORE).code == 0
    deployed.unrecorded(EXPOSED + MORE)
    result = run(*ROLLBACK)
    assert result.code == 0, str(result)
    assert api.names("Ingress") == ["tiny"]
    assert "Ingress tiny was applied by a deployment that has no revision, and stays as it is" in result.err
    assert "kubectl delete ingress tiny -n llm" in result.err
    again = run(*ROLLBACK, "--to", "1")
    assert (again.code, "is already in the state of revision 1\nIngress tiny was applied by" in again.err) == (1, True)


def test_a_rollback_deletes_what_a_later_revision_added(run: Run, api: FakeAPI, deployed: Deployed) -> None:
    assert deployed(EXPOSED).code == 0
    result = run(*ROLLBACK)
    assert (result.code, api.names("Ingress")) == (0, []), str(result)
    assert "ingress/tiny deleted" in result.err


def test_a_rollback_on_failure_leaves_what_was_there_before_without_a_revision(
    run: Run, api: FakeAPI, deployed: Deployed
) -> None:
    deployed.unrecorded(EXPOSED)
    reconcile, applied = api.applied, []

    def only_the_first_fails(item: dict[str, Any]) -> None:
        if item["kind"] == "RayService":
            applied.append(item)
        if len(applied) > 1:
            reconcile(item)

    api.applied = only_the_first_fails
    both = EXPOSED + MORE + "  monitoring: {podMonitor: {}}\n"
    result = deployed(both, "--timeout", "10ms", "--rollback-on-failure")
    assert result.code == 3, str(result)
    assert "revision 1 was applied again and is Ready" in result.err
    assert (api.names("Ingress"), api.names("PodMonitor")) == (["tiny"], []), str(result)
    assert "Ingress tiny was applied by a deployment that has no revision" in result.err


def test_a_service_that_cannot_be_annotated_either_is_said(run: Run, api: FakeAPI, deployed: Deployed) -> None:
    def full(request: Request) -> Answer | None:
        if "merge-patch" not in request.headers["Content-Type"]:
            return None
        return status(500, "etcdserver: no space", "InternalError")

    api.answer("PATCH", "/rayservices/tiny$", full)
    result = deployed.unrecorded(MONITORED)
    assert "rayservice/tiny cannot be annotated either" in result.err
    assert "scale will not find PodMonitor of it" in result.err
    assert (scaled := run(*SCALE)).code == 0, str(scaled)
    assert api.names("PodMonitor") == ["tiny"]


def test_nothing_is_annotated_where_the_history_names_the_kinds(api: FakeAPI, deployed: Deployed) -> None:
    deployed.unrecorded(SPEC + MORE)
    assert marked(api) is None
