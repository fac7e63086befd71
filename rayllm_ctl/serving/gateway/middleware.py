"""The gateway as a pure ASGI middleware."""

from __future__ import annotations

from rayllm_ctl.serving.gateway.application import App
from rayllm_ctl.serving.gateway.errors import Rejected, server_error
from rayllm_ctl.serving.gateway.exchange import Exchange, log
from rayllm_ctl.serving.gateway.http.expect import asking
from rayllm_ctl.serving.gateway.pipeline import handle
from rayllm_ctl.serving.gateway.requests import Disconnected, Receive, Scope, Send
from rayllm_ctl.serving.gateway.state import State


class Gateway:
    """Stands in front of an ASGI application with the OpenAI API.

    Each request is handled by the state that `state` holds when it arrives; assigning another one takes effect with the
    next request and changes nothing for those in flight. Without a state everything passes.
    """

    def __init__(self, app: App, state: State | None = None) -> None:
        self.app = app
        self.state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection of the server."""
        if scope["type"] == "http":
            receive = asking(scope, receive, send)
        state = self.state
        if state is None or scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            # The API has no WebSockets, and no step of the gateway understands them.
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        exchange = Exchange(state, scope, receive, send)
        try:
            await handle(exchange, self.app)
        except Rejected as rejected:
            await exchange.reject(rejected.rejection)
        except Disconnected:
            exchange.disconnected = True
        except Exception:
            log.exception("request %s failed", exchange.request_id)
            if exchange.started:
                raise
            await exchange.reject(server_error(500, exchange.request_id))
        finally:
            exchange.close()
