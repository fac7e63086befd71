"""Every command works with exactly the rights that its kind lists for it, and says what is missing where one is."""

from __future__ import annotations

import pytest

from rayllm_ctl.cluster import connect
from rayllm_ctl.cluster.api.permissions import format_right
from rayllm_ctl.cluster.preflight.preflight import preflight
from rayllm_ctl.cluster.snapshot.service import collect
from rayllm_ctl.errors import ClusterError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube.api_kinds import APPLIED, kind
from rayllm_ctl.model.workload import Activity, Right
from tests.cli.conftest import Deploy, Run
from tests.cli.test_commands_service import DEPLOY, TINY
from tests.cluster.fakeapi import FakeAPI, Grant

ACTIVITIES: dict[str, tuple[tuple[str, ...], tuple[Activity, ...]]] = {
    "deploy": (DEPLOY, ("apply", "bounds", "follow")),
    "deploy --no-wait": ((*DEPLOY, "--no-wait"), ("apply", "bounds")),
    "deploy --dry-run=server": ((*DEPLOY, "--dry-run=server"), ("apply",)),
    "status": (("status",), ("list",)),
    "status tiny": (("status", "tiny"), ("status",)),
    "watch": (("watch", "tiny", "--timeout", "1ms"), ("follow",)),
    "chat": (("chat", "tiny", "Why?"), ("chat",)),
    "chat tine": (("chat", "tine", "Why?"), ("chat",)),
    "endpoint": (("endpoint", "tiny"), ("endpoint",)),
    "delete": (("delete", "tiny", "--no-wait"), ("delete",)),
    "scale": (("scale", "tiny", "--replicas", "2"), ("apply", "bounds", "record", "follow")),
    "history": (("history", "tiny"), ("history",)),
    "restart": (("restart", "tiny"), ("restart", "follow")),
}


def grants(*rights: Right) -> set[Grant]:
    found = set()
    for right in rights:
        what = kind(right.kind)
        resource = what.plural + (f"/{right.subresource}" if right.subresource else "")
        scope = right.everywhere or not what.namespaced
        found.add((right.verb, f"{resource}.{what.group}" if what.group else resource, scope))
    return found


@pytest.mark.parametrize("again", [False, True], ids=["new", "again"])
@pytest.mark.parametrize("name", ACTIVITIES)
def test_no_other_right_is_asked_for(run: Run, deploy: Deploy, api: FakeAPI, name: str, again: bool) -> None:
    command, activities = ACTIVITIES[name]
    if again or "deploy" not in name:
        deploy(*TINY)
    rights = RAY_SERVICE.rights_for(*activities)
    api.granted = grants(*rights.needed, *rights.display)
    result = run(*command)
    assert result.code == (1 if name == "chat tine" else 0), str(result)
    # What may not be listed is said to be unknown; an LLMService that may not be read leaves a service beside it alone.
    surplus = grants(*(Right("list", one) for one in APPLIED)) if name.startswith(("de", "scale")) else set()
    if "deploy" in name and not again:
        surplus |= grants(Right("get", "LLMService"))
    assert set(api.denied) - surplus == set()


@pytest.mark.parametrize("name", [name for name in ACTIVITIES if name != "chat tine"])
def test_the_needed_rights_are_enough(run: Run, deploy: Deploy, api: FakeAPI, name: str) -> None:
    command, activities = ACTIVITIES[name]
    if "deploy" not in name:
        deploy(*TINY)
    api.granted = grants(*RAY_SERVICE.rights_for(*activities).needed)
    result = run(*command)
    assert "internal error" not in result.err
    if name not in ("status tiny", "deploy"):  # their verdict depends on what cannot be read
        assert result.code == 0, str(result)
    if name == "deploy":
        assert "permissions: not permitted to get namespaces" in result.err


def test_deploy_applies_nothing_while_a_needed_right_is_missing(run: Run, api: FakeAPI) -> None:
    rights = RAY_SERVICE.rights_for("apply", "bounds", "follow")
    right = Right("watch", "EndpointSlice")
    api.granted = grants(*rights.needed, *rights.display) - grants(right)
    result = run(*DEPLOY)
    assert result.code == 5, str(result)
    assert "not permitted to watch endpointslices.discovery.k8s.io in namespace llm" in result.err
    assert api.count("PATCH", ".") == 0


def test_each_needed_right_is_checked_beforehand(run: Run, api: FakeAPI) -> None:
    rights = RAY_SERVICE.rights_for("apply", "bounds", "follow")
    for right in rights.needed:
        api.granted = grants(*rights.needed) - grants(right)
        with pytest.raises(ClusterError, match=f"not permitted to {format_right(right)} in namespace llm"):
            preflight(connect(), RAY_SERVICE.name, "tiny", "llm", rights.needed)


def test_without_serve_the_state_says_what_could_not_be_read(run: Run, api: FakeAPI) -> None:
    assert run(*DEPLOY).code == 0
    rights = RAY_SERVICE.rights_for("status")
    api.granted = grants(*rights.needed, *rights.display) - grants(Right("get", "Service", "proxy"))
    notes = collect(connect(), RAY_SERVICE, "tiny", "llm").notes
    assert notes == ("Serve state could not be read: not permitted to get services/proxy",)


def test_a_watch_names_all_rights_that_it_lacks(run: Run, api: FakeAPI) -> None:
    api.granted = grants(Right("get", "RayService"))
    result = run("watch", "tiny", "--timeout", "5s")
    assert result.code == 5
    assert "list rayservices.ray.io, watch rayservices.ray.io, list rayclusters.ray.io" in result.err
