"""`deploy ... | head`: the reader of the output ends before the command does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

import pytest

from rayllm_ctl.cli import app
from tests.cli.conftest import Deploy
from tests.cli.test_requests import TINY
from tests.cluster.fakeapi import FakeAPI

CHANGE = ("deploy", *TINY, "--env", "COLOR=blue", "--no-wait", "-o", "name")


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    yield stream
    with suppress(BrokenPipeError):
        stream.close()


@pytest.mark.parametrize("streams", [("stdout",), ("stdout", "stderr")])
def test_what_was_begun_is_finished(
    deploy: Deploy, api: FakeAPI, unread: TextIO, monkeypatch: pytest.MonkeyPatch, streams: tuple[str, ...]
) -> None:
    deploy(*TINY)
    for name in streams:
        monkeypatch.setattr(sys, name, unread)
    assert app.run(CHANGE) == 0
    assert "COLOR" in str(api.stored("RayService", "tiny"))
    assert api.names("ControllerRevision") == ["tiny-1", "tiny-2"]


def test_what_was_not_begun_is_no_success(
    deploy: Deploy, api: FakeAPI, unread: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`restart` prints its effect before it makes the change."""
    deploy(*TINY)
    before = api.stored("RayService", "tiny")["metadata"]["resourceVersion"]
    monkeypatch.setattr(sys, "stdout", unread)
    monkeypatch.setattr(sys, "stderr", unread)
    assert app.run(["restart", "tiny", "-n", "llm", "--no-wait"]) == 1
    assert api.stored("RayService", "tiny")["metadata"]["resourceVersion"] == before


def test_what_only_prints_is_no_failure(deploy: Deploy, unread: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(*TINY)
    monkeypatch.setattr(sys, "stdout", unread)
    assert app.run(["status", "tiny", "-n", "llm"]) == 0
