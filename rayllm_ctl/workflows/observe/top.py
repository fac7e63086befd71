"""The load of a service's replicas: once, or repeatedly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import NotFoundError, ServerFailingError, UnreachableError
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.lookup.services import require
from rayllm_ctl.cluster.ray.top_sample import RayServiceReplicas, ray_cluster_replicas
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.observed.top import LoadMeter, ServiceLoad, ServiceLook
from rayllm_ctl.workflows.services import find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

MOST_BETWEEN = 2.0
"""Maximum seconds between two readings of Ray's reports."""

PATIENCE = 2.0
"""Report intervals after which the rate of every replica that ran throughout is known."""


def load_once(
    cluster: Cluster, name: str, namespace: str, interval: float, notify: Callable[[str], None]
) -> ServiceLoad:
    """The load of a service, after the readings that rates need. interval: seconds between two.

    notify: called with a line if that takes longer. Raises UserError if the service or its Serve cannot be read.
    """
    service = _Service(cluster, name, namespace, interval)
    load = service.read()
    if service.meter.rates_missing and service.report_interval:
        notify(f"waiting for the next report of Ray, which is sent every {service.report_interval:g} s")
    end = time.monotonic() + PATIENCE * service.report_interval
    while service.meter.rates_missing:
        time.sleep(service.pause)
        again = service.read_again()
        load = again if again.replicas is not None else load
        if time.monotonic() > end:
            break
    return load


def follow_load(cluster: Cluster, name: str, namespace: str, interval: float) -> Iterator[ServiceLoad]:
    """The load of a service now and every `interval` seconds, until the caller stops.

    Replicas are None during a temporary failure, with the reason among the problems. Raises UserError if the first
    reading fails, the service is deleted, or a right is missing.
    """
    service = _Service(cluster, name, namespace, interval)
    due = time.monotonic()
    load = service.read()
    while True:
        yield load
        due = max(due + interval, time.monotonic())
        while True:
            time.sleep(max(0.0, min(service.pause, due - time.monotonic())))
            load = service.read_again()
            if time.monotonic() >= due:
                break


class _Service:
    """A service that is read repeatedly. report_interval: seconds between two reports of Ray; 0 if engines are asked
    directly. pause: seconds between two readings, short enough that no report is missed."""

    def __init__(self, cluster: Cluster, name: str, namespace: str, interval: float) -> None:
        self.meter = LoadMeter()
        self.report_interval = 0.0
        self.pause = interval
        self._interval = interval
        self._cluster, self._name, self._namespace = cluster, name, namespace
        with explained(cluster, namespace, RAY_SERVICE.rights_for("top")):
            self._kind, self._known = find_service(cluster, name, namespace)
        self._look: Callable[[dict[str, Any]], ServiceLook] = (
            RayServiceReplicas(cluster) if self._kind is RAY_SERVICE else partial(ray_cluster_replicas, cluster)
        )

    def read(self) -> ServiceLoad:
        """Raises UserError."""
        with explained(self._cluster, self._namespace, self._kind.rights_for("top")):
            known, self._known = self._known, None  # read to find the kind, a moment ago
            look = self._look(known or require(self._cluster, self._kind, self._name, self._namespace))
        if look.report_interval is not None:
            self.report_interval = look.report_interval
            self.pause = min(self._interval, MOST_BETWEEN, look.report_interval / 2)
        return self.meter.load(look, time.monotonic())  # metrics were read last

    def read_again(self) -> ServiceLoad:
        """As `read`, but a temporary failure is only a problem."""
        try:
            return self.read()
        except (UnreachableError, ServerFailingError) as error:
            return ServiceLoad(None, problems=(error.message,))
        except (NotFoundError, ClusterError):
            raise
        except UserError as error:
            return ServiceLoad(None, problems=(error.message,))
