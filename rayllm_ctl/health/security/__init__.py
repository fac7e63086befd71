"""Who can reach a live service, and what its pods may do: checks of objects as they are now.

A check fails where something is open that a change of the spec closes. A warning is what could not be found out, what
only a newer version closes, or what may be meant: an API without keys, an Ingress.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.health.security.accounts import account_checks
from rayllm_ctl.health.security.authentication import authentication_checks
from rayllm_ctl.health.security.containers import container_checks
from rayllm_ctl.health.security.network import network_checks
from rayllm_ctl.health.security.outside import key_checks, outside_checks
from rayllm_ctl.health.security.service import CheckedService, read_checked_service
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check

__all__ = ["CheckedService", "read_checked_service", "security_checks"]

_READERS = (authentication_checks, network_checks, account_checks, container_checks, key_checks, outside_checks)


def security_checks(service: CheckedService) -> Iterator[Check]:
    """All checks of a service, by category; replicas with the same result are one."""
    yield _what(service)
    for checks in _READERS:
        yield from dict.fromkeys(checks(service))
    for note in service.snapshot.notes:
        yield Check("not read", note.partition(" could not be read")[0], None, note.partition(": ")[2])


def _what(service: CheckedService) -> Check:
    """What was looked at."""
    names = [fields.name(one) for one in service.clusters if fields.at(one, "metadata", "uid")]
    rays = dict.fromkeys(fields.text(one, "spec", "rayVersion") or "unknown version" for one in service.clusters)
    pods = sum(member.is_pod for member in service.members)
    parts = [f"{pods} pod{'' if pods == 1 else 's'}", f"Ray {', '.join(rays)}"]
    if names and names != [service.name]:
        parts.insert(0, f"RayCluster {', '.join(names)}")
    parts.append(f"KubeRay {service.kuberay or 'of unknown version'}")
    detail = ", ".join(parts)
    if not pods:
        detail += "; no pod runs: the checks are of the pod templates"
    return Check("service", f"{service.kind} {service.name}", True if pods else None, detail)
