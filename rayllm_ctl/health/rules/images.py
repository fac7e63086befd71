"""Images that cannot be pulled, and whether another try can help."""

from __future__ import annotations

import re

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding, finding
from rayllm_ctl.health.objects.pod import Container, Pod
from rayllm_ctl.health.sentences.exceptions import one_line
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.text.hint import Hint

_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
)


@dataclass(frozen=True)
class _Kind:
    """`patience`: seconds of failing pulls after which no further try is expected to help; None: one always may."""

    pattern: re.Pattern[str]
    what: str
    patience: float | None


def _kind(pattern: str, what: str, patience: float | None) -> _Kind:
    return _Kind(re.compile(pattern, re.I), what, patience)


# What registries and containerd answer, first match wins. "pull access denied" is what a registry says of a repository
# that does not exist to somebody who is not logged in.
_KINDS = (
    _kind(r"InvalidImageName|couldn't parse image name|invalid reference format", "is not a valid image name", 0.0),
    _kind(r"ErrImageNeverPull|pull policy of Never", "is not on the node, and the pull policy is Never", 0.0),
    _kind(r"no match for platform|no matching manifest", "has no variant for the node's platform", 0.0),
    _kind(r"no space left on device", "does not fit on the node's disk", None),
    _kind(r"pull access denied|insufficient_scope", "does not exist or needs credentials", 0.0),
    _kind(r"\b401\b|\b403\b|unauthorized|no basic auth credentials|denied:|authentication required",
          "needs credentials that the pod does not have", 0.0),
    _kind(r"too ?many ?requests|\b429\b", "cannot be pulled for now: the registry limits the rate of requests", None),
    _kind(r"no such host|server misbehaving|name resolution|Name or service not known",
          "is in a registry whose name does not resolve", None),
    _kind(r"connection refused|connection reset|network is unreachable|no route to host|i/o timeout|deadline exceeded|"
          r"TLS handshake timeout|\bEOF\b", "is in a registry that cannot be reached", None),
    _kind(r"\b50[0234]\b|Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out",
          "is in a registry that fails to answer", None),
    _kind(r"NotFound|not found|manifest unknown|does not exist|name unknown|\b404\b",
          "does not exist in its registry", 0.0),
    _kind(r"x509|certificate", "is in a registry whose certificate is not trusted", 12.0),
    _kind(r"", "cannot be pulled", 180.0),
)  # fmt: skip


def image(context: ServiceContext, pod: Pod) -> Finding | None:
    """The first container whose image cannot be pulled; with a wrong worker image that is KubeRay's init container."""
    for container in pod.containers:
        if container.state != "waiting":
            continue
        if container.reason in _REASONS:
            return _failed(context, pod, container, f"{container.reason}: {container.message}")
        said = _failing_again(context, pod, container)
        if said:
            return _failed(context, pod, container, said)
    return None


def _failing_again(context: ServiceContext, pod: Pod, container: Container) -> str:
    """Between two tries a container only says ContainerCreating: what the last try ended with stands in the events."""
    if container.reason not in ("ContainerCreating", "PodInitializing"):
        return ""
    quoted = f'"{container.image}"'
    about = [
        event
        for event in context.events.of("Pod", pod.name, "Failed", "Pulled", "InspectFailed")
        if quoted in event.message
    ]
    return about[-1].message if about and about[-1].warning else ""


def _failed(context: ServiceContext, pod: Pod, container: Container, said: str) -> Finding:
    told = [
        event for event in context.events.of("Pod", pod.name, "Failed", "InspectFailed", "ErrImageNeverPull")
        if f'"{container.image}"' in event.message
    ]  # fmt: skip
    first = told[0].first if told else pod.created
    secrets = context.events.of("Pod", pod.name, "FailedToRetrieveImagePullSecret")
    # The back-off's own message may lack the reason, which only the pull's event has.
    text = f"{said} {told[-1].message if told else ''}"
    volume = _image_of_a_volume(pod, said)
    image = volume or container.image
    of = "a volume" if volume else f"container {container.name}"
    kind = next(kind for kind in _KINDS if kind.pattern.search(text.replace(image, "")))
    return finding(
        "ImagePullFailed",
        pod.subject,
        f"the image {image} of {of} {kind.what}",
        headline=f"the image {image} {kind.what}",
        evidence=(
            f"{pod.subject}: {one_line(said, 500)}",
            *(event.quoted()[:500] for event in (*told[-1:], *secrets[-1:])),
        ),
        hint=_hints(context, pod, container, kind.what, volume),
        terminal=kind.patience is not None and context.age(first) >= kind.patience,
        since=first,
        key=(image,),
    )


def _image_of_a_volume(pod: Pod, said: str) -> str:
    """The image of an image volume, if it is the one that a message names: the kubelet pulls it for the container."""
    volumes = fields.items(pod.item, "spec", "volumes")
    references = (fields.text(one, "image", "reference") for one in volumes)
    return next((one for one in references if one and one in said), "")


def _hints(context: ServiceContext, pod: Pod, container: Container, what: str, volume: str) -> tuple[Hint, ...]:
    if volume:
        change = Hint(remark="spec.storage.model.image.reference: one that the cluster can pull")
    elif container.name == "autoscaler":
        change = Hint(f"kubectl edit {context.resource} -n {context.namespace}", "autoscalerOptions.image")
    else:
        change = Hint(f"{context.deploy} --image IMAGE", "one that the cluster can pull")
    if "credentials" in what:
        return (
            Hint(f"kubectl get serviceaccount default -n {context.namespace} -o yaml", "its imagePullSecrets"),
            change,
        )
    return (change, Hint(f"kubectl describe pod {pod.name} -n {context.namespace}"))
