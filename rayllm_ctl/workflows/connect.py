"""Reach the cluster that a kubeconfig names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rayllm_ctl.cluster import connect as connect_to

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def connect(
    kubeconfig: str | None,
    context: str | None,
    *,
    acting_as: tuple[str, tuple[str, ...]] | None,
    request_timeout: float,
    notify: Callable[[str], None],
    kubeconfig_from: str,
) -> Cluster:
    """The cluster of `kubeconfig` and `context` (None: as the environment says). request_timeout in seconds.

    acting_as: a user and groups to impersonate, instead of those of the kubeconfig.

    notify: called with a line for the user while a credential plugin is slow. kubeconfig_from: what named
    `kubeconfig`, for messages. Raises UserError if the kubeconfig
    cannot be used.
    """
    return connect_to(
        kubeconfig,
        context,
        acting_as=acting_as,
        request_timeout=request_timeout,
        notify=notify,
        kubeconfig_from=kubeconfig_from,
    )
