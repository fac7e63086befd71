"""Retries: a request whose replica is lost goes to another one, once, if nothing has been answered yet.

Serve's router itself sends a request again that no replica had accepted, for as long as it takes, and forgets replicas
whose actor has died (ray/serve/_private/router.py 2.60). So a request that is lost here was being processed. It may
be what ended the replica, and must not end a third one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

PATIENCE: Final = 5.0
"""Seconds in which there has to be another replica. New replicas take longer, and clients are told to try again."""

PAUSE: Final = 0.1
"""Seconds before the first look, in which the router hears that the actor has died, and between two looks."""


async def answers(
    call: Callable[[], AsyncGenerator[Any, None]],
    is_lost: Callable[[Exception], bool],
    replicas: Callable[[], int],
    retried: Callable[[Exception], None],
) -> AsyncGenerator[Any, None]:
    """What `call` yields, or what it yields when it is called again.

    is_lost: whether an error of a call means that the replica was lost. replicas: how many there are now. retried: is
    told why the request is sent again.
    """
    first: list[Any] = []
    parts = call()
    try:
        first.append(await anext(parts))
    except StopAsyncIteration:
        return
    except Exception as error:
        if not is_lost(error) or not await _another(replicas):
            raise
        retried(error)
        parts = call()
    async with aclosing(parts):
        for part in first:
            yield part
        async for part in parts:
            yield part


async def _another(replicas: Callable[[], int]) -> bool:
    """Wait for a replica that may answer in place of the lost one; whether there is any."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        await asyncio.sleep(PAUSE)
        if replicas():
            return True
    return False
