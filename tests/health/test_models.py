"""Which deployments hold models: their replicas are those that `status` counts."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.health.objects.cluster_spec import read_cluster_spec
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.model.observed.serve_state import read_serve

ENGINE, OTHER, INGRESS = "LLMServer:a--b", "LLMServer:c", "OpenAiIngress"


def answer(*silent: str, **applications: tuple[str, list[str]]) -> dict[str, Any]:
    """Serve's answer with applications: the ingress deployment of each, and all of its deployments.

    silent: deployments without a replica.
    """
    return {
        "applications": {
            name: {
                "status": "RUNNING",
                "deployment_topology": {"ingress_deployment": ingress},
                "deployments": {
                    one: {
                        "status": "HEALTHY",
                        "target_num_replicas": 1,
                        "replicas": [] if one in silent else [{"replica_id": "r", "state": "RUNNING"}],
                    }
                    for one in deployments
                },
            }
            for name, (ingress, deployments) in applications.items()
        }
    }


@pytest.mark.parametrize(
    ("serve", "models"),
    [
        (answer(chat=(INGRESS, [ENGINE, INGRESS])), [ENGINE]),
        (answer(chat=(INGRESS, [INGRESS]), chat_a=(ENGINE, [ENGINE]), chat_c=(OTHER, [OTHER])), [ENGINE, OTHER]),
        (answer(text=("Translator", ["Translator"])), ["Translator"]),
    ],
    ids=["one application", "an application for each model", "an application of the user's own"],
)
def test_deployments_that_hold_a_model(serve: dict[str, Any], models: list[str]) -> None:
    assert [one.name for one in cluster(serve).models] == models


def cluster(serve: dict[str, Any]) -> RayCluster:
    return RayCluster("c", "active", None, read_cluster_spec({}), (), read_serve(serve), frozenset(), unseen=True)


@pytest.mark.parametrize(
    ("silent", "serving"),
    [((), True), ((ENGINE,), True), ((ENGINE, OTHER), False), ((INGRESS,), False)],
    ids=["all run", "one model is down", "no model runs", "the ingress is down"],
)
def test_a_service_of_several_models_serves_with_its_ingress_and_one_of_them(
    silent: tuple[str, ...], serving: bool
) -> None:
    found = answer(*silent, chat=(INGRESS, [INGRESS]), chat_a=(ENGINE, [ENGINE]), chat_c=(OTHER, [OTHER]))
    assert cluster(found).serving is serving
