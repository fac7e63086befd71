"""Token authentication of Ray: whether a RayCluster asks its clients for a token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.releases import TOKEN_KUBERAY, is_older
from rayllm_ctl.model.spec.ray_options import Authentication, AuthenticationMode, RayOptions
from rayllm_ctl.model.spec.service import LLMService

if TYPE_CHECKING:
    from rayllm_ctl.model.spec.batch import BatchJob

_FIELD = "authOptions"


@dataclass(frozen=True)
class KnownCluster:
    """The facts of a cluster that the decision depends on.

    kuberay: the version of the operator, empty: unknown. asks: whether the running service asks for a token; None:
    there is no service, or it could not be read.
    """

    kuberay: str = ""
    asks: bool | None = None


@dataclass(frozen=True)
class TokenDecision:
    """mode: as in spec.ray.authentication. why_off: why there is no token although the spec does not reject one."""

    mode: AuthenticationMode
    why_off: str = ""


def decide_token(source: LLMService | BatchJob, cluster: KnownCluster) -> TokenDecision:
    """Whether Ray asks for a token: as the spec states; by default yes, as far as the cluster allows it.

    A service that runs without a token keeps doing so: with one, KubeRay would start a second RayCluster beside the
    first, with as many GPUs again, for a change that nobody made. The version of Ray in the image does not matter:
    each that is supported has tokens (model.spec.checks.ray_features.OLDEST_RAY).
    """
    if not depends_on_cluster(source):
        return TokenDecision(source.ray.authentication.mode or "token")
    if is_older(cluster.kuberay, TOKEN_KUBERAY):
        return TokenDecision(
            "none",
            f"off: KubeRay {cluster.kuberay} does not support it (requires 1.5.1); whoever can connect to Ray's ports "
            "can run code in the pods",
        )
    if cluster.asks is False:
        return TokenDecision(
            "none",
            "off, as in the running service; spec.ray.authentication.mode: token turns it on in a new RayCluster",
        )
    return TokenDecision("token")


def with_token(ray: RayOptions, token: TokenDecision) -> RayOptions:
    """`ray` with the mode of authentication that was decided."""
    return replace(ray, authentication=replace(ray.authentication, mode=token.mode))


def depends_on_cluster(source: LLMService | BatchJob) -> bool:
    """Whether the decision is the cluster's: not where the spec states it, in its field or in a patch, nor for a job on
    a RayCluster that exists.
    """
    if not isinstance(source, LLMService) and source.cluster is not None:
        return False
    patched = any(_names(one.patch, _FIELD) for one in source.patches)
    return source.ray.authentication == Authentication() and not patched


def _names(patch: Any, field: str) -> bool:
    """Whether a patch has a field, as a key or in the path of an operation."""
    if isinstance(patch, Mapping):
        paths = (str(patch.get(key, "")).split("/") for key in ("path", "from"))
        return field in patch or any(field in path for path in paths) or _names(list(patch.values()), field)
    return isinstance(patch, (list, tuple)) and any(_names(one, field) for one in patch)
