"""Volumes of models that vanish under running pods, and image volumes that a cluster does not support."""

from __future__ import annotations

import re

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.kube.model_downloads import IMAGE_PATH
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

_NO_RUNTIME_SUPPORT = re.compile(r"failed to mkdir \"\"")
"""What containerd before 2.1 answers, which sees a mount without a path on the host (kubernetes-sigs/kind#3745)."""

_SETTLED = 10.0
"""Seconds after which a claim that is being deleted counts: a deploy may replace it, pods and all."""


def vanished_claim(context: ServiceContext, pod: Pod) -> Finding | None:
    """A claim that is being deleted under a pod, or has lost its volume."""
    for volume in fields.items(pod.item, "spec", "volumes"):
        name = fields.text(volume, "persistentVolumeClaim", "claimName")
        claim = context.claim(name) if name else None
        if claim is None or not pod.alive:
            continue
        since = fields.deleted(claim)
        lost = fields.text(claim, "status", "phase") == "Lost"
        if not lost and (since is None or context.age(since) < _SETTLED):
            continue
        told = (
            f"has lost its volume {fields.text(claim, 'spec', 'volumeName')}"
            if lost
            else "is being deleted, and is gone once no pod uses it: pods that start later wait for it forever"
        )
        evidence = f"persistentvolumeclaim/{name}: " + (
            "status.phase Lost" if lost else f"metadata.deletionTimestamp {since:%Y-%m-%d %H:%M:%S}"
        )
        return finding(
            "VolumeNotReady",
            f"persistentvolumeclaim/{name}",
            f"the volume claim {name} of {pod.subject} {told}",
            headline=f"the volume claim {name} {'has lost its volume' if lost else 'is being deleted'}",
            evidence=(evidence, *(event.quoted() for event in context.events.of("PersistentVolumeClaim", name)[-1:])),
            hint=(
                Hint(f"kubectl describe pvc {name} -n {context.namespace}"),
                Hint(f"kubectl get pv {fields.text(claim, 'spec', 'volumeName')}".rstrip(), "its reclaim policy"),
                Hint(f"rayllm-ctl restart {context.name} -n {context.namespace}", "once there is a claim again"),
            ),
            since=since,
            key=(name,),
        )
    return None


def image_volume(context: ServiceContext, pod: Pod) -> Finding | None:
    """An image volume that the API server dropped, or that the node's container runtime does not know."""
    images = {
        fields.text(one, "name"): fields.text(one, "image", "reference")
        for one in fields.items(pod.item, "spec", "volumes")
        if fields.mapping(one, "image")
    }
    specs = fields.items(pod.item, "spec", "containers")
    mounts = [one for spec in specs for one in fields.items(spec, "volumeMounts")]
    dropped = [one for one in mounts if fields.text(one, "mountPath") == IMAGE_PATH and one.get("name") not in images]
    if dropped:
        name = fields.text(dropped[0], "name")
        return _unsupported(
            context,
            pod,
            f"the cluster does not support image volumes: the API server dropped the image of volume {name} of "
            f"{pod.subject}, which is mounted empty",
            f"{pod.subject}: spec.volumes: {name} has no image, and is mounted at {IMAGE_PATH}",
        )
    if not images:
        return None
    for container in pod.containers:
        if container.state == "waiting" and _NO_RUNTIME_SUPPORT.search(container.message):
            return _unsupported(
                context,
                pod,
                f"the container runtime of node {pod.node} does not support image volumes, which {pod.subject} needs "
                f"for {', '.join(images.values())}",
                f"{pod.subject}: {container.name} {container.reason}: {one_line(container.message, 400)}",
            )
    return None


def _unsupported(context: ServiceContext, pod: Pod, message: str, evidence: str) -> Finding:
    return finding(
        "VolumeNotReady",
        pod.subject,
        message,
        headline="image volumes are not supported",
        evidence=(evidence,),
        hint=(
            Hint("kubectl get nodes -o wide", "image volumes need Kubernetes 1.35 and containerd 2.1 or CRI-O 1.31"),
            Hint(remark="spec.storage.model.claim or .mirror in place of .image, on older nodes"),
            Hint(f"kubectl describe pod {pod.name} -n {context.namespace}"),
        ),
        terminal=True,
        since=pod.created,
        key=("image volume",),
    )
