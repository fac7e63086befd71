"""What the cluster does not take of a sound spec: said in the status, and looked at again."""

from __future__ import annotations

import pytest

from rayllm_ctl.cluster.api.errors import ServerFailingError
from rayllm_ctl.controller.decide import LATER_SECONDS
from tests.cluster.fakeapi import Request, status
from tests.controller.conftest import Controlled


def test_what_the_cluster_lacks_is_said_until_it_is_there(controlled: Controlled) -> None:
    network = {"network": "restricted", "operatorNamespace": "ray-system"}
    controlled.put(security=network)
    assert controlled.step() == LATER_SECONDS
    assert controlled.condition("Stalled")[:2] == ("True", "MissingPrerequisite")
    assert "kuberay-system" in controlled.condition("Stalled")[2]
    assert controlled.api.names("RayService") == []
    operator = controlled.api.stored("Deployment", "kuberay-operator", "kuberay-system")
    controlled.api.put(**{**operator, "metadata": {**operator["metadata"], "namespace": "ray-system"}})
    controlled.restart()
    controlled.step()
    assert controlled.condition("Applied")[0] == "True"
    assert controlled.condition("Stalled")[0] == "False"


def test_what_admission_would_reject_of_a_change_leaves_the_service(controlled: Controlled) -> None:
    controlled.put()
    controlled.step()
    controlled.run()
    controlled.step()

    def reject(request: Request) -> tuple[int, object] | None:
        dry = request.query.get("dryRun") and "seed" in request.body.decode()
        return status(403, "denied by policy 'no-seeds'", "Forbidden") if dry else None

    controlled.api.answer("PATCH", "/rayservices/tiny$", reject)
    controlled.put(engine={"args": {"seed": 7}})
    controlled.writes()
    assert controlled.step() == LATER_SECONDS
    assert controlled.condition("Stalled")[:2] == ("True", "Rejected")
    assert "no-seeds" in controlled.condition("Stalled")[2]
    assert controlled.condition("Ready")[0] == "True"
    assert [one for one in controlled.writes() if "/status" not in one] == []


def test_a_request_that_fails_is_no_fault_of_the_spec(controlled: Controlled) -> None:
    controlled.put()
    controlled.api.answer("GET", "/deployments$", status(503, "the server is starting"), times=1)
    with pytest.raises(ServerFailingError):
        controlled.step()
    controlled.step()
    assert controlled.condition("Applied")[0] == "True"
