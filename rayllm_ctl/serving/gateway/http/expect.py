"""`Expect: 100-continue`: a client sends its body when it is asked for it, or not at all if the request is rejected.

Servers ask for the body when an application receives for the first time. Serve's proxy receives at once, and sends the
request on to the ingress, which alone knows what it accepts. So `Held`, in the proxy, keeps back what the proxy
receives until the application asks for it, by a message of an ASGI extension of ours, or responds without it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rayllm_ctl.serving.gateway.requests import Message, Receive, Scope, Send

WANTED: Final = "rayllm.request.wanted"
"""The extension, and the type of the message."""

LONGEST_SECONDS: Final = 5.0
"""After which the body is asked for anyway: an application that knows nothing of this never says that it waits."""


def expects_continue(scope: Scope) -> bool:
    """Whether the client waits to be asked for the body."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"])


def announced(scope: Scope) -> Scope:
    """The scope of a request whose application may ask for the body."""
    return {**scope, "extensions": {**scope.get("extensions", {}), WANTED: {}}}


def asking(scope: Scope, receive: Receive, send: Send) -> Receive:
    """`receive` of an application behind `Held`: the first call asks for the body."""
    if WANTED not in scope.get("extensions", {}):
        return receive
    asked = False

    async def asks() -> Message:
        nonlocal asked
        if not asked:
            asked = True
            await send({"type": WANTED})
        return await receive()

    return asks


class Held:
    """The body of one request, kept back in front of an application.

    seconds: how long at most.
    """

    def __init__(self, receive: Receive, send: Send, seconds: float = LONGEST_SECONDS) -> None:
        self._receive, self._send, self._seconds = receive, send, seconds
        self._released = asyncio.Event()
        self._asked = self._started = False

    @property
    def lacks_response(self) -> bool:
        """Whether the application asked for the body, and has sent no response."""
        return self._asked and not self._started

    async def receive(self) -> Message:
        """The next message of the client, once the body is wanted."""
        if not self._released.is_set():
            try:
                await asyncio.wait_for(self._released.wait(), self._seconds)
            except TimeoutError:
                self._released.set()
        return await self._receive()

    async def send(self, message: Message) -> None:
        """Pass on what the application sends, but for its asking."""
        if message["type"] == WANTED:
            self._asked = True
            self._released.set()
            return
        if message["type"] == "http.response.start":
            self._started = True
            if not self._released.is_set():
                # The body stays unread, and would be taken for the next request of the connection.
                others = [header for header in message.get("headers", ()) if header[0].lower() != b"connection"]
                message = {**message, "headers": [*others, (b"connection", b"close")]}
        await self._send(message)
