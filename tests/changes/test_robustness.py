"""Files may hold anything: no explanation raises, and what differs is never called unchanged."""

from __future__ import annotations

import sys
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.changes import objects, raycluster, rayjob, rayservice
from rayllm_ctl.changes.compare import compare_manifests
from rayllm_ctl.console.rollout.diff import diff_document, format_markdown, format_meaning
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.changes import Diff, Explain, Running

WORDS = (
    "name", "groupName", "spec", "metadata", "labels", "template", "containers", "workerGroupSpecs", "headGroupSpec",
    "rayClusterConfig", "upgradeStrategy", "type", "minReplicas", "limits", "resources", "tolerations", "suspend",
    "applications", "deployments", "args", "llm_configs", "model_loading_config", "model_id", "import_path",
    "autoscaling_config", "min_replicas", "num_replicas", "rolling_update_percentage", "http_options",
)  # fmt: skip

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "1Gi", "Recreate", "None", "|`*<"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=20,
)
specs = st.dictionaries(st.sampled_from(WORDS), values, max_size=5) | values
explainers: st.SearchStrategy[Explain] = st.sampled_from(
    [objects.explain_object, raycluster.explain_raycluster, rayjob.explain_rayjob, rayservice.explain_rayservice]
)


def item(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "a"}, "spec": spec}


def forms(before: Any, after: Any, explain: Explain) -> list[Any]:
    """What is shown of a change, in every form; nothing where the two sides are the same."""
    found = compare_manifests(item(before), item(after), explain, Running(clusters=("a-b",)))
    if found.action == "unchanged":
        assert found.before == found.after
        return []
    assert found.before != found.after
    diff = Diff((found,))
    meaning = list(format_meaning(diff, Printer.on(sys.stdout, "never")))
    return [meaning, format_markdown(diff), diff_document(diff)["objects"]]


@given(specs, specs, explainers)
def test_any_two_objects(before: Any, after: Any, explain: Explain) -> None:
    assert all(forms(before, after, explain))


@given(values, values)
def test_any_two_serve_configurations(before: Any, after: Any) -> None:
    one, other = ({"serveConfigV2": yaml.safe_dump(side)} for side in (before, after))
    assert all(forms(one, other, rayservice.explain_rayservice))


@given(values, values)
def test_any_two_ray_clusters(before: Any, after: Any) -> None:
    assert all(forms({"rayClusterConfig": before}, {"rayClusterConfig": after}, rayservice.explain_rayservice))
