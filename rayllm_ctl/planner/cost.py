"""What a plan costs: price per GPU-hour x GPUs x replicas. Prices are data that a user can override."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.plan import Band


def gpu_price(gpu: GPU) -> Band | None:
    """USD per GPU-hour: the cheapest cloud, the median, the dearest. None where no price is known."""
    prices = sorted(price for price in gpu.price_per_hour.values() if price > 0)
    if not prices:
        return None
    middle = (prices[(len(prices) - 1) // 2] + prices[len(prices) // 2]) / 2
    return Band(prices[0], middle, prices[-1])


def replica_price(gpu: GPU, gpus_per_replica: int) -> float | None:
    """USD per hour of one replica at the median price: what searches compare."""
    price = gpu_price(gpu)
    return price.typical * gpus_per_replica if price else None


def cost(
    gpu: GPU, gpus_per_replica: int, replicas: int, max_replicas: int, tokens_per_second: Band | None
) -> Mapping[str, Any]:
    """The cost section of a plan: USD per hour at the least and the most replicas, and per million output tokens.

    smallestMachine is there where clouds rent the GPU only by more than a replica needs: the rest is for others.
    tokens_per_second: output of one replica at the load the plan assumes; None where it is not known.
    """
    price = gpu_price(gpu)
    if price is None:
        return {"known": False, "note": f"no price of {gpu.name} is known; --prices FILE can add one"}
    result: dict[str, Any] = {
        "known": True,
        "currency": "USD",
        "source": gpu.price_source,
        "perGpuHour": dict(sorted(gpu.price_per_hour.items())),
        "perHour": _scaled(price, gpus_per_replica * replicas),
        "perHourAtMaxReplicas": _scaled(price, gpus_per_replica * max_replicas),
    }
    rented = [shape.gpus for shape in gpu.shapes if shape.cloud != "on-premises"]
    if rented and min(rented) > gpus_per_replica:
        result["smallestMachine"] = min(rented)
    if tokens_per_second is not None and tokens_per_second.low > 0:
        per_token = price.typical * gpus_per_replica / 3600
        result["perMillionOutputTokens"] = Band(
            round(1e6 * per_token / tokens_per_second.high, 3),
            round(1e6 * per_token / tokens_per_second.typical, 3),
            round(1e6 * per_token / tokens_per_second.low, 3),
        )
    return result


def _scaled(price: Band, gpus: int) -> Band:
    return Band(round(price.low * gpus, 2), round(price.typical * gpus, 2), round(price.high * gpus, 2))
