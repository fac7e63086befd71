"""Whether Ray asks its clients for a token, and what an answer of no needs to become a yes."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.health.security.service import CheckedService, Member
from rayllm_ctl.model.kube.releases import TOKEN_KUBERAY, TOKEN_RAY, is_older
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.text.hint import Hint

_CATEGORY, _NAME = "Ray", "token authentication"
_UPGRADE = Hint(
    "helm upgrade kuberay-operator kuberay-operator --repo https://ray-project.github.io/kuberay-helm/ "
    "-n kuberay-system"
)


def requires_token(service: CheckedService) -> bool:
    """Whether every head asks for a token at Ray's ports."""
    return all(_asks(head) for head in service.heads)


def authentication_checks(service: CheckedService) -> Iterator[Check]:
    """Whether whoever reaches Ray's ports can run code in the pods."""
    if requires_token(service):
        kubernetes = any(fields.flag(head.cluster, "authOptions", "enableK8sTokenAuth") for head in service.heads)
        how = "a token of Kubernetes (enableK8sTokenAuth)" if kubernetes else "the token of the RayCluster"
        yield Check(_CATEGORY, _NAME, True, f"on: clients of Ray's ports must send {how}")
        return
    off = "off: whoever can connect to the dashboard (8265), GCS (6379) or Ray client (10001) can run code in the pods"
    if _wanted(service):
        hint = Hint(f"rayllm-ctl status {service.name} -n {service.namespace}")
        yield Check(_CATEGORY, _NAME, False, f"{off}; the spec turns it on, and no head with it runs yet", (hint,))
        return
    ray = next((fields.text(one, "spec", "rayVersion") for one in service.clusters), "")
    if is_older(ray, TOKEN_RAY):
        hint = service.change(
            "spec.engine.image: an image with Ray 2.52 or newer",
            "rayVersion and the images: those of Ray 2.52 or newer",
        )
        yield Check(_CATEGORY, _NAME, None, f"{off}; Ray {ray} does not support it (requires 2.52)", (hint,))
        return
    if is_older(service.kuberay or "", TOKEN_KUBERAY):
        why = f"KubeRay {service.kuberay} does not support it (requires 1.5.1)"
        yield Check(_CATEGORY, _NAME, None, f"{off}; {why}", (_UPGRADE,))
        return
    unset = "" if ray else "rayVersion: the version of Ray in the image, 2.52 or newer, and "
    hint = service.change("spec.ray.authentication.mode: token", f"{unset}authOptions.mode: token")
    yield Check(_CATEGORY, _NAME, False, off, (hint,))


def _asks(head: Member) -> bool:
    """What a pod runs with counts; the spec of its RayCluster, where there is no pod."""
    if not head.is_pod:
        return fields.text(head.cluster, "authOptions", "mode") == "token"
    container = next(iter(fields.items(head.spec, "containers")), {})
    modes = (fields.text(one, "value") for one in fields.items(container, "env") if one.get("name") == "RAY_AUTH_MODE")
    return next(modes, "").lower() == "token"


def _wanted(service: CheckedService) -> bool:
    at = service.cluster_field.split(".")
    return fields.text(service.workload, *at, "authOptions", "mode") == "token"
