"""Requests that fail before or after the API server has done what they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import UnreachableError
from rayllm_ctl.errors import UserError

BROKEN = UnreachableError("the connection broke")


class Interruption:
    """Fails one request. at: its number; None: none. sent: after the API server has done it. count: of the requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: UserError = BROKEN) -> None:
        self.at: int | None = None
        self.sent = False
        self.count = 0
        exchange = Cluster._exchange

        def counted(cluster: Cluster, method: str, path: str, **options: Any) -> tuple[int, bytes]:
            number, self.count = self.count, self.count + 1
            if number != self.at:
                return exchange(cluster, method, path, **options)
            if self.sent:
                exchange(cluster, method, path, **options)
            raise error

        monkeypatch.setattr(Cluster, "_exchange", counted)
