"""Prime numbers, for tables whose sizes are the next ones after a base."""

from __future__ import annotations

from functools import lru_cache

from rayllm_ctl.catalog.modelconfig.fields import COMPLETE_CONFIG
from rayllm_ctl.errors import UserError

_MOST = 2**12
"""No model asks for as many."""

_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Bases whose Miller-Rabin test is certain for every number below 2**64 (OEIS A014233)."""


@lru_cache(maxsize=64)
def primes_from(least: int, count: int) -> tuple[int, ...]:
    """The first `count` primes that are not below `least`. UserError if that is more than any model asks for."""
    if count > _MOST:
        raise UserError(
            f"config.json asks for {count} tables of runs of tokens: more than any model has",
            hint=COMPLETE_CONFIG,
        )
    found: list[int] = []
    number = max(least, 2)
    while len(found) < count:
        if _is_prime(number):
            found.append(number)
        number += 1 if number == 2 or number % 2 == 0 else 2
    return tuple(found)


def _is_prime(number: int) -> bool:
    for witness in _WITNESSES:
        if number % witness == 0:
            return number == witness
    odd, halvings = number - 1, 0
    while odd % 2 == 0:
        odd, halvings = odd // 2, halvings + 1
    return all(_passes(number, witness, odd, halvings) for witness in _WITNESSES)


def _passes(number: int, witness: int, odd: int, halvings: int) -> bool:
    power = pow(witness, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(halvings - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
