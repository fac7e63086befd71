"""Fixtures of the fake API server, for workflows that read of it what no other fake has."""

from __future__ import annotations

from tests.cluster.conftest import api, cluster

__all__ = ["api", "cluster"]
