"""Other replica bounds of a model in a rendered Serve configuration, whose text stays the same otherwise.

KubeRay compares the text: written in another layout, the next deploy of the same spec would be a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.llm_applications import llm_entries, pattern_of
from rayllm_ctl.model.kube.names import INGRESS_DEPLOYMENT
from rayllm_ctl.model.kube.scaling import Bounds
from rayllm_ctl.serveconfig.applied import FIELD
from rayllm_ctl.serveconfig.document import read_serve_document

if TYPE_CHECKING:
    import yaml


@dataclass(frozen=True)
class ScalableModel:
    """A model of a configuration that was rendered from a spec. application: its place in the list; sole: it shares its
    application with the ingress; first: replicas that it starts with."""

    id: str
    application: int
    name: str
    deployment: int
    bounds: Bounds
    sole: bool
    first: int


def models(config: Any) -> list[ScalableModel]:
    """The models of a configuration, as read from YAML, whose replicas have bounds where rayllm-ctl writes them."""
    applications = config.get("applications") if isinstance(config, Mapping) else None
    return [one for index, item in enumerate(applications or ()) for one in _models(index, item)]


def with_bounds(text: str, model: ScalableModel, bounds: Bounds) -> str:
    """The configuration with other bounds of `model`, and of the ingress that shares its application.

    What follows from them changes too: initial_replicas stay within them, and a queue that holds as many requests as
    run at once keeps doing so. Raises ValueError for what is not laid out as rayllm-ctl does.
    """
    import yaml

    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    data = read_serve_document(text, FIELD, dates_as_text=True).data
    changes: dict[tuple[str | int, ...], int] = {}
    deployments = data["applications"][model.application]["deployments"]
    for index, deployment in enumerate(deployments):
        if index == model.deployment:
            own = bounds
        elif model.sole and deployment.get("name") == INGRESS_DEPLOYMENT:
            # As planner.serve has it: one ingress for each replica that is always there.
            own = Bounds(bounds.low, max(1, bounds.low))
        else:
            continue
        place = ("applications", model.application, "deployments", index, "autoscaling_config")
        scaling = deployment.get("autoscaling_config") or {}
        changes[*place, "min_replicas"], changes[*place, "max_replicas"] = own.low, own.high
        if "initial_replicas" in scaling:
            changes[*place, "initial_replicas"] = min(max(scaling["initial_replicas"], own.low), own.high)
    changes |= dict(_queue(data, model, bounds))
    edits = []
    for path, value in changes.items():
        node = _node(root, path)
        edits.append((node.start_mark.index, node.end_mark.index, str(value)))
    for start, end, number in sorted(edits, reverse=True):
        text = text[:start] + number + text[end:]
    return text


def _models(index: int, application: Mapping[str, Any]) -> Iterator[ScalableModel]:
    names = {one.deployment: one.model_id for one in llm_entries(application)}
    for position, deployment in enumerate(application.get("deployments") or ()):
        scaling = deployment.get("autoscaling_config")
        if deployment.get("name") in names and isinstance(scaling, Mapping) and "max_replicas" in scaling:
            yield ScalableModel(
                id=str(names[deployment["name"]]),
                application=index,
                name=str(application.get("name")),
                deployment=position,
                bounds=Bounds(int(scaling.get("min_replicas", 1)), int(scaling["max_replicas"])),
                sole=pattern_of(application) != "own",
                first=int(scaling.get("initial_replicas", scaling.get("min_replicas", 1))),
            )


def _queue(data: Any, model: ScalableModel, bounds: Bounds) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """The length of the gateway's queue where it is that of planner.gateway: what all replicas take at once."""
    total = after = 0
    for one in models(data):
        deployment = data["applications"][one.application]["deployments"][one.deployment]
        each = int(deployment.get("max_ongoing_requests", 0))
        total += each * one.bounds.high
        after += each * (bounds.high if one == model else one.bounds.high)
    for index, application in enumerate(data["applications"]):
        for position, deployment in enumerate(application.get("deployments") or ()):
            gateway = (deployment.get("user_config") or {}).get("gateway") or {}
            queue = gateway.get("queue") or {}
            if total and queue.get("maxPending") == total:
                place = ("applications", index, "deployments", position, "user_config", "gateway", "queue")
                yield (*place, "maxPending"), after


def _node(node: yaml.Node | None, path: tuple[str | int, ...]) -> yaml.Node:
    """The node at a path, as its marks tell where it stands in the text."""
    import yaml

    for part in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
        elif isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == part), None)
        else:
            node = None
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"{'.'.join(map(str, path))} is missing")
    return node
