"""Where volumes are, against the nodes that the pods can run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayllm_ctl.health.objects.node import Node, read_nodes
from rayllm_ctl.health.objects.pod import read_pod
from rayllm_ctl.health.storage.report import found
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.storage_facts import ClaimUse, StorageFacts
from rayllm_ctl.model.text.hint import Hint

ZONE = "topology.kubernetes.io/zone"

_ZONES = (ZONE, "topology.gke.io/zone", "topology.ebs.csi.aws.com/zone", "topology.disk.csi.azure.com/zone",
          "failure-domain.beta.kubernetes.io/zone")  # fmt: skip
"""Labels of zones in topologies of volumes."""


def volume_placement_checks(use: ClaimUse, stored: Object, facts: StorageFacts) -> Iterator[Check]:
    """Whether pods of each kind have a node from which the volume of a bound claim can be reached."""
    volume = next(
        (one for one in facts.volumes or () if fields.name(one) == fields.text(stored, "spec", "volumeName")), None
    )
    terms = fields.items(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
    if not terms:
        return
    for nodes in _nodes_of_templates(use, facts):
        if not any(node.matches_any(terms) for node in nodes):
            where = ", ".join(sorted(_zones_of_terms(terms))) or "other nodes"
            zones = ", ".join(sorted(_zones(nodes))) or ", ".join(node.name for node in nodes[:3])
            yield found(
                use, False, f"has its volume in {where}, and the nodes for the pods are in {zones}",
                Hint(f"kubectl get pv {fields.name(volume or {})} -o yaml    # its nodeAffinity"),
                Hint(remark=f"a claim with a volume in {zones} in {use.field}.{use.key}"),
            )  # fmt: skip
            return


def class_placement_checks(use: ClaimUse, storage_class: Object, zonal: bool, facts: StorageFacts) -> Iterator[Check]:
    """Whether the volume that a class makes can be in a zone without nodes for the pods.

    With WaitForFirstConsumer it is made in the zone of the first pod that mounts it, which may be that of the download
    Job; with Immediate in any zone of the class.
    """
    groups = _nodes_of_templates(use, facts)
    usable = set.intersection(*map(_zones, groups)) if groups else set[str]()
    if not usable:
        return
    name, field = fields.name(storage_class), f"{use.field}.create.storageClass"
    allowed = {
        value
        for term in fields.items(storage_class, "allowedTopologies")
        for one in fields.items(term, "matchLabelExpressions")
        if fields.text(one, "key") in _ZONES
        for value in fields.words(one, "values")
    }
    shown = ", ".join(sorted(usable))
    if allowed and not allowed & usable:
        yield found(
            use, False,
            f"StorageClass {name} makes volumes in {', '.join(sorted(allowed))}, and the nodes for the pods are in "
            f"{shown}", Hint(remark=f"{field}: a class with volumes in {shown}"),
        )  # fmt: skip
        return
    everywhere = _zones(list(read_nodes(facts.nodes or (), ()).values()))
    possible = allowed or everywhere
    if zonal and use.writer == "the download Job" and possible - usable:
        yield found(
            use, None,
            f"StorageClass {name} makes its volume in one zone, which may be {', '.join(sorted(possible - usable))}, "
            f"and the nodes for the pods are in {shown}",
            Hint(remark=f"{field}: a class with allowedTopologies in {shown}"),
        )  # fmt: skip


def _nodes_of_templates(use: ClaimUse, facts: StorageFacts) -> list[list[Node]]:
    """The ready nodes that the pods of each template can run on; without templates that have none now."""
    nodes = [node for node in read_nodes(facts.nodes or (), ()).values() if node.ready]
    found_nodes = []
    for template in use.templates:
        pod = read_pod({"metadata": {}, "spec": fields.mapping(template, "spec")})
        found_nodes.append([
            node for node in nodes
            if node.selected_by(pod) and not node.untolerated(pod) and node.could_fit(pod.requests)
        ])  # fmt: skip
    return [one for one in found_nodes if one]


def _zones(nodes: Sequence[Node]) -> set[str]:
    return {node.labels[ZONE] for node in nodes if ZONE in node.labels}


def _zones_of_terms(terms: Sequence[Object]) -> set[str]:
    return {
        value
        for term in terms
        for one in fields.items(term, "matchExpressions")
        if fields.text(one, "key") in (*_ZONES, "kubernetes.io/hostname")
        for value in fields.words(one, "values")
    }
