"""The gateway of a plan, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.plan.deployment import Deployment

_MIB = 2**20


def gateway_lines(deployment: Deployment) -> Iterator[str]:
    """Checks, access and limits of the gateway; empty if there is none."""
    gateway = deployment.gateway
    if gateway is None:
        return
    yield " · ".join([*_validation(gateway["validation"]), *_further(gateway)])
    secret = deployment.worker_groups[0].pod.keys_secret
    yield f"API keys of Secret {secret}" if gateway["keys"] is not None else "no API keys: all clients are admitted"
    if gateway["limits"] is not None:
        yield _limits(gateway["limits"], deployment)
    if gateway["queue"] is not None:
        yield f"at most {gateway['queue']['maxPending']:,} requests wait, further ones get 503"
    yield "code mounted from a ConfigMap" if deployment.serving_code else "code in the image"


def _validation(checks: Mapping[str, Any]) -> Iterator[str]:
    size = checks["maxBodyBytes"]
    yield f"body up to {size / _MIB:g} MiB" if size >= _MIB else f"body up to {size:,} bytes"
    for name, unit in (("promptCharacters", "characters"), ("promptTokens", "tokens")):
        low, high = checks[name]["min"], checks[name]["max"]
        if low is not None or high is not None:
            most = f"at most {high:,}" if high is not None else ""
            least = f"at least {low:,}" if low is not None else ""
            yield f"prompt of {' and '.join(filter(None, (least, most)))} {unit}"
    output = checks["outputTokens"]
    if output["max"] is not None:
        yield f"answers up to {output['max']:,} tokens" + (
            ", longer ones are rejected" if output["exceeding"] == "reject" else ""
        )
    if checks["parameters"] is not None:
        yield f"only {', '.join(checks['parameters'])}" if checks["parameters"] else "no sampling options"


def _further(gateway: Mapping[str, Any]) -> Iterator[str]:
    cleaning = gateway["cleaning"]
    if cleaning is not None:
        removed = [*cleaning["remove"], *(["further characters"] if cleaning["characters"] else [])]
        removed += [cleaning["normalization"]] if cleaning["normalization"] else []
        yield f"cleaned ({', '.join(removed)})"
    if gateway["cors"] is not None:
        yield f"pages of {', '.join(gateway['cors']['origins'])}"


def _limits(limits: Mapping[str, Any], deployment: Deployment) -> str:
    parts = [
        f"{rate} {what} per {whom}"
        for name, whom in (("perKey", "key"), ("perAddress", "address"))
        for what, rate in limits[name].items()
        if rate is not None
    ]
    if limits["redis"] is None:
        where = "counted by each replica of the ingress"
    else:
        where = f"counted in {'a managed Redis' if deployment.redis else limits['redis']['url']}"
        where += ", denied without it" if limits["onRedisFailure"] == "deny" else ""
    return f"{', '.join(parts) or 'limits of single keys'} · {where}"
