"""What the objects of a cluster say about whether it can run services. Pure, as all of health."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from rayllm_ctl.health.objects.node import Node, read_nodes
from rayllm_ctl.health.objects.operator import read_operator
from rayllm_ctl.health.objects.pod import is_accelerator
from rayllm_ctl.health.objects.quantity import amounts, format_number
from rayllm_ctl.model.kube.kuberay_versions import known_version
from rayllm_ctl.model.kube.partitions import Partition, read_labels
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.text.hint import Hint

_PLUGIN = Hint(remark="install the device plugin of the GPU's vendor, such as the NVIDIA GPU Operator")


def operator_checks(
    deployments: Iterable[Object], pods: Iterable[Object], namespace: str, version: str | None
) -> Iterator[Check]:
    """The KubeRay operator: whether it runs, in a known version, and watches the namespace."""
    operator = read_operator(deployments, pods, {})
    where = f" -n {operator.namespace}" if operator.namespace else ""
    if operator.running is None:
        yield Check(
            "KubeRay", "operator", False, "no Deployment of it was found", (Hint("kubectl get deployments -A"),)
        )
        return
    if not operator.running:
        evidence = "".join(f"; {line}" for line in operator.evidence)
        hint = Hint(f"kubectl describe {operator.subject}{where}")
        yield Check("KubeRay", "operator", False, f"does not run: {operator.why}{evidence}", (hint,))
        return
    yield Check("KubeRay", "operator", True, f"{operator.subject} in namespace {operator.namespace} runs")
    if not operator.watches(namespace):
        watched = ", ".join(operator.watched)
        hint = Hint(
            remark=f"add {namespace} to --watch-namespace of {operator.subject}{where}, or use -n {operator.watched[0]}"
        )
        yield Check("KubeRay", "namespaces", False, f"the operator watches {watched} only", (hint,))
    if version is None:
        yield Check("KubeRay", "version", None, "unknown: the operator's image and labels do not tell it")
    else:
        note = known_version(version)[1]
        yield Check("KubeRay", "version", None if note else True, note or version)


def quota_check(quotas: Iterable[Object], namespace: str) -> Check | None:
    """Which quotas of a namespace have nothing left; None if there is no quota."""
    full, names = [], []
    for quota in quotas:
        name = fields.name(quota)
        names.append(name)
        hard, used = fields.mapping(quota, "status", "hard"), fields.mapping(quota, "status", "used")
        limits, taken = amounts(hard), amounts(used)
        full += [
            f"{name} has no {resource} left ({used[resource]} of {hard[resource]} used)"
            for resource, limit in limits.items()
            if taken.get(resource, -1.0) >= limit
        ]
    if not names:
        return None
    if full:
        return Check(
            "namespace", "quotas", None, "; ".join(full), (Hint(f"kubectl describe resourcequota -n {namespace}"),)
        )
    return Check("namespace", "quotas", True, f"{', '.join(names)}: every resource has some left")


def node_checks(nodes: Iterable[Object], pods: Iterable[Object], gpus: Iterable[GPU]) -> Iterator[Check]:
    """Nodes that are ready, the accelerators that they have free, and GPUs that no device plugin offers."""
    read = list(read_nodes(nodes, pods).values())
    ready = [node for node in read if node.ready]
    if not ready:
        yield Check("nodes", "ready", False, f"0 of {len(read)} are ready", (Hint("kubectl get nodes"),))
        return
    down = sorted(node.name for node in read if not node.ready)
    detail = f"{len(ready)} of {len(read)} are ready" + (f"; not {', '.join(down[:3])}" if down else "")
    yield Check("nodes", "ready", None if down else True, detail)
    listed = list(gpus)
    kinds = {node.name: _gpu_of(node, listed) for node in ready}
    offered: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for node in ready:
        for resource, whole in node.allocatable.items():
            if is_accelerator(resource) and whole:
                gpu = kinds[node.name]
                total = offered[gpu.name if gpu is not None and gpu.resource == resource else resource]
                total[0] += max(0.0, node.free.get(resource, 0.0))
                total[1] += whole
    for name, (free, whole) in sorted(offered.items()):
        yield Check("nodes", name, True, f"{format_number(free)} of {format_number(whole)} free")
    yield from _parts(ready)
    bare = Counter(
        gpu.name for node in ready if (gpu := kinds[node.name]) is not None and not node.allocatable.get(gpu.resource)
    )
    for name, count in sorted(bare.items()):
        what = f"{count} nodes" if count > 1 else "a node"
        # Where other nodes offer some, only their capacity counts.
        failed = None if name in offered else False
        yield Check("nodes", name, failed, f"{what} labelled with it offers none to pods", (_PLUGIN,))
    if not offered and not bare:
        yield Check("nodes", "GPUs", None, "no node offers GPUs: only models on CPU can run", (_PLUGIN,))


def _parts(nodes: Iterable[Node]) -> Iterator[Check]:
    """Nodes whose GPUs are cut into parts or shared, which no plan is for."""
    found: Counter[tuple[str, Partition]] = Counter()
    for node in nodes:
        part = read_labels(node.labels)
        if part is not None:
            found[part] += 1
    for (label, partition), count in sorted(found.items(), key=lambda item: item[0][0]):
        what = f"{count} nodes have" if count > 1 else "a node has"
        detail = f"{what} {label}, {partition.what}, which cannot be planned: {partition.why}"
        yield Check("nodes", "partial GPUs", None, detail, (Hint("rayllm-ctl gpus"),))


def _gpu_of(node: Node, gpus: Iterable[GPU]) -> GPU | None:
    """The GPU that the labels of a node name, if it is only one."""
    found = [gpu for gpu in gpus if _named(node.labels, gpu.node_labels)]
    return found[0] if len(found) == 1 else None


def _named(labels: Mapping[str, str], wanted: Mapping[str, tuple[str, ...]]) -> bool:
    return any(labels.get(key) in values for key, values in wanted.items())
