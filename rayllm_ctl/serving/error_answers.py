"""What the ingress answers when it raises: an error in the form of OpenAI's, wherever the response is."""

from __future__ import annotations

from collections.abc import Callable

from rayllm_ctl.serving.gateway.application import App
from rayllm_ctl.serving.gateway.errors import error_body
from rayllm_ctl.serving.gateway.requests import Message, Receive, Scope, Send
from rayllm_ctl.serving.gateway.steps import Rejection


class ErrorAnswers:
    """An ASGI middleware. A stream of events that has begun ends with one that has the error.

    rejection: what a client is told of an error.
    """

    def __init__(self, app: App, rejection: Callable[[Exception], Rejection]) -> None:
        self._app = app
        self._rejection = rejection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = streams = False

        async def watched(message: Message) -> None:
            nonlocal begun, streams
            if message["type"] == "http.response.start":
                streams = any(value.startswith(b"text/event-stream") for _, value in message["headers"])
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if scope["type"] != "http" or (begun and not streams):
                raise
            reason = self._rejection(error)
            if begun:
                # Without `data: [DONE]`, which would say that the answer is complete.
                await _end(send, b"data: " + error_body(reason) + b"\n\n")
            else:
                await _answer(send, reason)


async def _answer(send: Send, reason: Rejection) -> None:
    body = error_body(reason)
    described = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": reason.status, "headers": [*described, *reason.headers]})
    await _end(send, body)


async def _end(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": False})
