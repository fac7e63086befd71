from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rayllm_ctl.cluster import Cluster, connect
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    with serving() as running:
        yield running


@pytest.fixture
def cluster(api: FakeAPI, tmp_path: Path) -> Cluster:
    """The fake API server, default namespace llm."""
    return connect(str(kubeconfig(tmp_path / "kubeconfig", api.url, token="s3cret-token")), request_timeout=5)
