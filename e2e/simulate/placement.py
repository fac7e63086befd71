"""Where Ray puts the bundles of a placement group: the rules that decide whether a replica can start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Resources = Mapping[str, float]

_TINY = 1e-6


def place(bundles: Sequence[Resources], strategy: str, free: Mapping[str, Resources]) -> list[str] | None:
    """The node of each bundle, or None if they do not fit as the strategy demands.

    `free` is what each node has left. Strategies are Ray's: STRICT_PACK puts all bundles on one node, STRICT_SPREAD
    each on its own; PACK and SPREAD prefer that and take what there is.
    """
    nodes = sorted(free)
    if strategy == "STRICT_SPREAD":
        return _first_fit(bundles, nodes, free, distinct=True)
    if strategy in ("STRICT_PACK", "PACK"):
        for node in nodes:
            if _first_fit(bundles, [node], free, distinct=False):
                return [node] * len(bundles)
        if strategy == "STRICT_PACK":
            return None
        return _first_fit(bundles, nodes, free, distinct=False)
    return _first_fit(bundles, nodes, free, distinct=True) or _first_fit(bundles, nodes, free, distinct=False)


def subtract(resources: Resources, used: Resources) -> dict[str, float]:
    """What is left of `resources`."""
    return {name: amount - used.get(name, 0.0) for name, amount in resources.items()}


def fits(wanted: Resources, free: Resources) -> bool:
    """Whether a node with `free` can take `wanted`."""
    return all(free.get(name, 0.0) + _TINY >= amount for name, amount in wanted.items() if amount > 0)


def _first_fit(
    bundles: Sequence[Resources], nodes: Sequence[str], free: Mapping[str, Resources], *, distinct: bool
) -> list[str] | None:
    left = {node: dict(free[node]) for node in nodes}
    chosen: list[str] = []
    for bundle in bundles:
        open_nodes = (node for node in nodes if not (distinct and node in chosen))
        node = next((node for node in open_nodes if fits(bundle, left[node])), None)
        if node is None:
            return None
        left[node] = subtract(left[node], bundle)
        chosen.append(node)
    return chosen
