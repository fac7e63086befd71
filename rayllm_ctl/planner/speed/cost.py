"""What a plan costs: price per GPU-hour x GPUs x replicas. Prices are data that a user can override."""

from __future__ import annotations

from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Band, Cost, UnknownCost


def gpu_price(gpu: GPU) -> Band | None:
    """USD per GPU-hour: the cheapest cloud, the median, the dearest. None if no price is known."""
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
) -> Cost | UnknownCost:
    """What the replicas cost per hour, and the output tokens of one.

    tokens_per_second: output of one replica at the load the plan assumes; None if it is not known.
    """
    price = gpu_price(gpu)
    if price is None:
        return UnknownCost(note=f"the price of {gpu.name} is unknown; --prices FILE can add one")
    rented = [shape.gpus for shape in gpu.shapes if shape.cloud != "on-premises"]
    return Cost(
        source=gpu.price_source,
        per_gpu_hour=dict(sorted(gpu.price_per_hour.items())),
        per_hour=_scaled(price, gpus_per_replica * replicas),
        per_hour_at_max_replicas=_scaled(price, gpus_per_replica * max_replicas),
        smallest_machine=min(rented) if rented and min(rented) > gpus_per_replica else None,
        per_million_output_tokens=per_million_output_tokens(price.typical * gpus_per_replica, tokens_per_second),
    )


def per_million_output_tokens(per_hour: float, tokens_per_second: Band | None) -> Band | None:
    """USD per million output tokens of a replica that costs `per_hour`."""
    if tokens_per_second is None or tokens_per_second.low <= 0:
        return None
    per_second = per_hour / 3600
    ends = (tokens_per_second.high, tokens_per_second.typical, tokens_per_second.low)
    return Band(*(round(1e6 * per_second / tokens, 3) for tokens in ends))


def _scaled(price: Band, gpus: int) -> Band:
    return Band(round(price.low * gpus, 2), round(price.typical * gpus, 2), round(price.high * gpus, 2))
