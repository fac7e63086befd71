"""On which nodes pods may run: the labels of a GPU's nodes and the user's own affinity in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Term = Mapping[str, Any]


def affinity(given: Mapping[str, Any], node_labels: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """`given`, an affinity as in a pod, for nodes that also have one of `node_labels`: alternatives, as clouds and
    device plugins label the same GPU differently.

    The terms of a node selector are alternatives and the parts of a term are not, so that both are required means: a
    term for every pair of theirs.
    """
    found = dict(given)
    terms = labelled_terms(node_labels)
    if not terms:
        return found
    nodes = dict(found.get("nodeAffinity") or {})
    required = dict(nodes.get(_REQUIRED) or {})
    if "nodeSelectorTerms" in required:
        terms = _both(required["nodeSelectorTerms"], terms)
    return {**found, "nodeAffinity": {**nodes, _REQUIRED: {**required, "nodeSelectorTerms": terms}}}


def labelled_terms(node_labels: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """Terms of which each is true of a node with one of the labels."""
    return [
        {"matchExpressions": [{"key": label, "operator": "In", "values": list(values)}]}
        for label, values in sorted(node_labels.items())
    ]


def _both(given: Sequence[Term], terms: Sequence[Term]) -> list[dict[str, Any]]:
    return [
        {**one, "matchExpressions": [*(one.get("matchExpressions") or ()), *other["matchExpressions"]]}
        for one in given
        for other in terms
    ]
