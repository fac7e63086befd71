"""The GPU catalog: what each kind of GPU has, how clusters label its nodes, and which machines carry it.

Data: data/gpus.json (one entry per kind, with its sources) and data/nodes.json (machine types by cloud: name, GPUs,
CPUs, RAM in GiB, and the memory of a GPU in GiB where it differs from that of the kind). "on-premises" shapes are the
usual build of such a server, not one machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from rayllm_ctl.catalog import data
from rayllm_ctl.catalog import prices as price_lists
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.names import similar
from rayllm_ctl.model.kube.partitions import Partition, read_labels, read_partition
from rayllm_ctl.model.kube.quantities import GIB, gib
from rayllm_ctl.model.plan.hardware import GPU, INSTANCE_TYPE_LABEL, NodeShape
from rayllm_ctl.model.text.problems import quoted

_SAME_MIB = 1024
"""Memory of two kinds of GPU that differ by less is taken as the same size."""

_TAINTS = {
    "nvidia": ("nvidia.com/gpu=present:NoSchedule", "sku=gpu:NoSchedule"),
    "amd": ("amd.com/gpu:NoSchedule", "sku=gpu:NoSchedule"),
}
"""GKE taints every GPU node with the resource's name, which is also what Kubernetes suggests for extended resources
(admission plugin ExtendedResourceToleration); on AKS the second is the documented convention. EKS leaves taints to the
user."""


def load_gpus(prices: price_lists.PriceList | None = None) -> Mapping[str, GPU]:
    """All GPUs by name, in the catalog's order (oldest first); `prices` are laid over the built-in ones."""
    if prices is None:
        return _built_in()
    return _gpus(prices)


def find_gpu(name: str, prices: price_lists.PriceList | None = None) -> GPU:
    """The GPU that a user calls `name`: the catalog's name, an alias or a node label's value, in any case.

    UsageError, with the nearest names, if there is none.
    """
    return load_gpus(prices)[canonical(name)]


def canonical(name: str) -> str:
    """The catalog's name of the GPU that a user calls `name`. UsageError as `find`, and for a part of a GPU."""
    names = _names()
    found = names.get(_key(name))
    if found:
        return found
    part = read_partition(name)
    if part is not None:
        raise _unplanned(name, part)
    close = similar(_key(name), names, 12, 0.5)
    nearest = list(dict.fromkeys(names[key] for key in close))[:3]
    meant = f"did you mean {' or '.join(nearest)}?" if nearest else ""
    raise UsageError(f"unknown GPU {quoted(name)}", hint=(meant, f"rayllm-ctl gpus    # lists all {len(_entries())}"))


def reading(name: str) -> str:
    """What a user should know of how `name` is read, where kinds of GPU with other memory are called the same; else
    empty. The name is one that `canonical` knows."""
    chosen = load_gpus()[canonical(name)]
    family = chosen.name.partition("-")[0]
    if _key(name) != _key(family):
        return ""
    others = [
        gpu
        for gpu in load_gpus().values()
        if gpu.name.startswith(f"{family}-") and abs(gpu.driver_memory_mib - chosen.driver_memory_mib) > _SAME_MIB
    ]
    if not others:
        return ""
    named = " or ".join(f"{gpu.name} ({gib(gpu.memory_bytes)} GiB)" for gpu in others)
    return f"GPU {name} is read as {chosen.name} ({gib(chosen.memory_bytes)} GiB); it may also mean {named}"


def _unplanned(name: str, part: Partition) -> UsageError:
    """That a part of a GPU cannot be planned, and how to plan the whole GPU."""
    known = _names().get(_key(part.whole)) if part.whole else None
    larger = _built_in()[known].larger() if known else None
    hints = [f"--gpu {known}    # the whole GPU"] if known else []
    if larger is not None:
        machine = f"{INSTANCE_TYPE_LABEL}={larger.shapes[0].instance_type}"
        hints.append(f"--gpu {known} --node-selector {machine}    # with {gib(larger.memory_bytes)} GiB")
    return UsageError(
        f"{quoted(name)} is {part.what}, which cannot be planned: {part.why}",
        hint=(*hints, "rayllm-ctl gpus    # lists the GPUs that can be planned"),
    )


_NAMED = 4
_ARCHITECTURE = "kubernetes.io/arch"
"""Label of nodes with the architecture of their CPUs, which the kubelet sets."""


def selected(labels: Mapping[str, str], named: GPU | None, known: Mapping[str, GPU]) -> tuple[GPU, ...]:
    """The kinds of `known` GPUs, or `named` alone, on nodes with `labels` (a node selector).

    UsageError if the labels stand for a part of a GPU, or for other kinds than `named`.
    """
    found = read_labels(labels)
    if found is not None:
        raise _unplanned(*found)
    kinds = (named,) if named is not None else tuple(known.values())
    for key, value in labels.items():
        others = by_node_label(key, value)
        kept = tuple(gpu for gpu in kinds if any(gpu.name == other.name for other in others))
        if others and not kept:
            have = " or ".join(gpu.name for gpu in others[:_NAMED]) + (", ..." if len(others) > _NAMED else "")
            asked = kinds[0].name if len(kinds) == 1 else "of the GPUs that the other labels name"
            raise UsageError(
                f"nodes with the label {key}={value} have {have}, not {asked}",
                hint=(f"--gpu {others[0].name}", f"leave {key} out of the node selector"),
            )
        kinds = kept if others else kinds
    return tuple(gpu.on(labels.get(INSTANCE_TYPE_LABEL, "")) for gpu in kinds)


def by_node_label(key: str, value: str) -> tuple[GPU, ...]:
    """The GPUs that a node with the label `key`=`value` may carry (none: the label says nothing of GPUs)."""
    if key == _ARCHITECTURE:
        return tuple(gpu for gpu in load_gpus().values() if gpu.host_architecture == value)
    return tuple(gpu for gpu in load_gpus().values() if value in gpu.node_labels.get(key, ()))


def unconfirmed(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The labels of `labels` (a node selector), as key=value, that name kinds of GPUs or hosts by a value that no known
    GPU has. Machine types are left out: clouds have more of them than the catalog."""
    known: dict[str, set[str]] = {}
    for gpu in load_gpus().values():
        known.setdefault(_ARCHITECTURE, set()).add(gpu.host_architecture)
        for key, values in gpu.node_labels.items():
            known.setdefault(key, set()).update(values)
    del known[INSTANCE_TYPE_LABEL]
    return tuple(f"{key}={value}" for key, value in sorted(labels.items()) if value not in known.get(key, {value}))


def torch_memory(driver_mib: int) -> int:
    """Total bytes that torch will report for a GPU of which the driver reports `driver_mib` MiB.

    CUDA keeps 0.4 GiB and 0.17 % for itself: within 0.2 GiB for 24 of the 26 kinds of GPU where the catalog has both
    figures (A100-80GB: 0.3 GiB too high, GH200-96GB: 0.5).
    """
    driver = driver_mib / 1024
    return int((driver - 0.4 - 0.0017 * driver) * GIB)


@cache
def _entries() -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(data.read_data("gpus.json")))


@cache
def _built_in() -> Mapping[str, GPU]:
    return _gpus(None)


def _gpus(own: price_lists.PriceList | None) -> dict[str, GPU]:
    shapes = json.loads(data.read_data("nodes.json"))
    priced = _priced(own)
    return {
        entry["name"]: _gpu(entry, shapes[entry["name"]], *priced.get(entry["name"], ({}, ""))) for entry in _entries()
    }


def _priced(own: price_lists.PriceList | None) -> dict[str, tuple[Mapping[str, float], str]]:
    """By GPU: its prices by cloud, and where they are from. The user's own replace the built-in ones of that GPU."""
    priced: dict[str, tuple[Mapping[str, float], str]] = {}
    for source in price_lists.built_in():
        for name, by_cloud in source.by_gpu.items():
            before, origin = priced.get(name, ({}, ""))
            clouds = f"{', '.join(by_cloud)}: {source.note}"
            priced[name] = ({**before, **by_cloud}, f"{origin}; {clouds}" if origin else f"{source.origin}, {clouds}")
    named: dict[str, str] = {}
    if own is None:
        return priced
    for name, by_cloud in own.by_gpu.items():
        gpu = _listed(name, own)
        if gpu in named:
            raise UsageError(
                f"price list {own.origin}: {named[gpu]} and {name} are the same GPU, {gpu}", hint="remove one of them"
            )
        named[gpu] = name
        priced[gpu] = by_cloud, f"{own.origin}, {own.note}"
    return priced


def _listed(name: str, own: price_lists.PriceList) -> str:
    """`canonical` of a name in a user's price list."""
    try:
        return canonical(name)
    except UsageError as error:
        raise UsageError(f"price list {own.origin}: {error.message}", hint=error.hints) from None


def _gpu(
    entry: Mapping[str, Any], machines: Mapping[str, list[list[Any]]], prices: Mapping[str, float], price_source: str
) -> GPU:
    shapes = tuple(_shape(cloud, *machine) for cloud, rows in machines.items() for machine in rows)
    labels = {key: tuple(values) for key, values in entry["nodeLabels"].items()}
    rented = tuple(shape.instance_type for shape in shapes if shape.cloud != "on-premises")
    if rented:
        labels[INSTANCE_TYPE_LABEL] = rented
    measured = entry["torchGiB"]
    nvidia = entry["vendor"] == "nvidia"
    if measured:
        memory = int(measured * GIB)
    else:
        memory = torch_memory(entry["driverMiB"]) if nvidia else entry["driverMiB"] * 2**20
    capability = entry["computeCapability"]
    return GPU(
        name=entry["name"],
        vendor=entry["vendor"],
        memory_bytes=memory,
        memory_measured=bool(measured),
        host_architecture=entry.get("hostArchitecture", "amd64"),
        unified_memory=entry.get("unifiedMemory", False),
        driver_memory_mib=entry["driverMiB"],
        bandwidth=entry["bandwidthGBps"] * 1e9,
        flops={dtype: tera * 1e12 for dtype, tera in entry["denseTFLOPS"].items()},
        architecture=entry["architecture"],
        compute_capability=(capability[0], capability[1]) if capability else None,
        interconnect=entry["interconnect"],
        link_bandwidth=entry["linkGBps"] * 1e9,
        resource="nvidia.com/gpu" if nvidia else "amd.com/gpu",
        ray_accelerator_type=entry["rayAcceleratorType"],
        aliases=tuple(entry["aliases"]),
        node_labels=labels,
        taints=_TAINTS[entry["vendor"]],
        shapes=shapes,
        price_per_hour=prices,
        price_source=price_source,
        sources=tuple(entry["sources"]),
    )


def _shape(
    cloud: str, instance_type: str, gpus: int, cpus: int, memory_gib: int, gpu_gib: float | None = None
) -> NodeShape:
    return NodeShape(cloud, instance_type, gpus, cpus, memory_gib, int(gpu_gib * GIB) if gpu_gib else None)


@cache
def _names() -> Mapping[str, str]:
    """Every way to name a GPU, as a key, to the catalog's name."""
    names: dict[str, str] = {}
    for entry in _entries():
        labels = [value for key, values in entry["nodeLabels"].items() if "product" in key for value in values]
        for alias in (entry["name"], *entry["aliases"], *labels):
            names.setdefault(_key(alias), entry["name"])
    return names


def _key(name: str) -> str:
    """`name` without what people write differently: case, vendor and product words, blanks, dashes and underscores."""
    return re.sub(r"^(nvidia|geforce|tesla|amd|instinct)+", "", re.sub(r"[^a-z0-9]", "", name.lower()))
