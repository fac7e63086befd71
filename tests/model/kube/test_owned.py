"""Objects that belong to an LLMService."""

from __future__ import annotations

from rayllm_ctl.model.kube.owned import owned
from rayllm_ctl.workflows.rollout.manifests import as_declared
from tests.health.storage.manifests import job, new_claim

OWNER = {
    "apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService",
    "metadata": {"name": "tiny", "namespace": "llm", "uid": "u"},
}  # fmt: skip


def test_a_job_is_a_child_and_a_claim_is_none() -> None:
    assert owned(job(), OWNER)["metadata"]["ownerReferences"][0]["uid"] == "u"
    claim = owned(new_claim(), OWNER)["metadata"]
    assert claim["namespace"] == "llm"
    assert "ownerReferences" not in claim


def test_a_claim_is_none_either_where_a_command_writes_in_place_of_the_controller() -> None:
    reference = {"kind": "LLMService", "name": "tiny", "uid": "u", "controller": True}
    live = {"kind": "RayService", "metadata": {"name": "tiny", "ownerReferences": [reference]}, "spec": {}}
    made, claim = as_declared(live, [job(), new_claim()])
    assert made["metadata"]["ownerReferences"] == [reference]
    assert "ownerReferences" not in claim["metadata"]
