"""The pod templates of a service: who decides about nodes, variables and their order."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.model.spec.pod_options import EnvironmentVariable, PodOptions, Pods
from rayllm_ctl.model.spec.service import Engine, LLMService, Model, Scheduling
from rayllm_ctl.planner.deployment.affinity import affinity
from rayllm_ctl.planner.deployment.pod_templates import LOST_NODE, head_template, worker_template
from tests.render.plans import H100

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
NODE_7 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-7"]}]}
LABELS = {"y": ("h100", "h200"), "x": ("H100",)}


def terms(found: dict[str, Any]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = found["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return listed


def admits(term: dict[str, Any], labels: dict[str, str], name: str) -> bool:
    """Whether a node satisfies a term of In expressions."""
    expressions = [(labels.get(part["key"]), part["values"]) for part in term.get("matchExpressions", [])]
    fields = [(name, part["values"]) for part in term.get("matchFields", [])]
    return all(value in values for value, values in (*expressions, *fields))


def test_a_node_has_to_satisfy_the_user_and_the_gpu() -> None:
    given = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE_A, NODE_7]}}}
    found = terms(affinity(given, LABELS))
    for labels, name, fits in (
        ({"zone": "a", "x": "H100"}, "n", True),
        ({"zone": "b", "y": "h200"}, "gpu-7", True),
        ({"zone": "a"}, "n", False),
        ({"zone": "b", "x": "H100"}, "n", False),
        ({}, "gpu-7", False),
    ):
        assert any(admits(term, labels, name) for term in found) == fits, (labels, name)


def test_the_rest_of_an_affinity_stays() -> None:
    given = {"podAntiAffinity": {"x": 1}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [1]}}
    found = affinity(given, LABELS)
    assert found["podAntiAffinity"] == {"x": 1}
    assert found["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == [1]
    assert len(terms(found)) == len(LABELS)
    assert affinity(given, {}) == given
    assert affinity({}, {}) == {}


def test_a_node_selector_replaces_the_labels_of_the_gpu_and_not_the_users_affinity() -> None:
    given = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE_A]}}}
    service = LLMService("q", Model("m"), pods=Pods(worker=PodOptions(affinity=given)))
    assert worker_template(service, None, H100, Scheduling({"pool": "gpu"})).placement.affinity == given
    assert len(terms(dict(worker_template(service, None, H100, Scheduling()).placement.affinity))) == 2
    assert head_template(service, None).placement.affinity == {}


def test_variables_can_refer_to_those_of_the_engine() -> None:
    own = (EnvironmentVariable("Z", "1"), EnvironmentVariable("A", "$(Z) $(B)"))
    service = LLMService("q", Model("m"), engine=Engine(env={"C": "3", "B": "2"}), pods=Pods(PodOptions(env=own)))
    common = ["B", "C", *LOST_NODE]
    assert [variable.name for variable in head_template(service, None).env] == [*common, "Z", "A"]
    assert [variable.name for variable in worker_template(service, None, None, Scheduling()).env] == common


def test_raw_parts_have_the_form_in_which_go_writes_them() -> None:
    spread: dict[str, Any] = {"maxSkew": 1, "labelSelector": {"matchLabels": {}, "matchExpressions": []}, "x": None}
    options = PodOptions(
        topology_spread_constraints=(spread,), container_security_context={"capabilities": {"add": []}}
    )
    found = head_template(LLMService("q", Model("m"), pods=Pods(options)), None)
    assert found.topology_spread_constraints == ({"maxSkew": 1, "labelSelector": {}},)
    assert found.container_security_context["capabilities"] == {}
