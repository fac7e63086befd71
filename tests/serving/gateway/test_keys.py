"""API keys: who gets in, what a malformed entry does, and when a change of the directory counts."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from rayllm_ctl.serving.gateway.keys import KeyDirectory
from rayllm_ctl.serving.gateway.settings import Rate, RateLimits
from rayllm_ctl.serving.gateway.steps import Client, Headers, Rejection

NOW = 1_800_000_000.0


def entry(key: str, **fields: object) -> str:
    return json.dumps({"sha256": sha256(key.encode()).hexdigest(), **fields})


def bearer(key: str) -> Headers:
    return [(b"host", b"x"), (b"authorization", b"Bearer " + key.encode())]


class Secret:
    """A directory as the kubelet mounts a Secret: files are links into a version that is swapped as a whole."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = 0

    def write(self, **entries: str) -> None:
        self.version += 1
        version = self.directory / f"..version_{self.version}"
        version.mkdir(parents=True)
        for name, content in entries.items():
            (version / name).write_text(content)
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")
        (self.directory / "..data_tmp").symlink_to(version.name)
        (self.directory / "..data_tmp").rename(self.directory / "..data")
        for old in self.directory.iterdir():
            if old.is_symlink() and not old.exists():
                old.unlink()


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path / "keys")


@pytest.fixture
def keys(secret: Secret) -> Iterator[KeyDirectory]:
    made = KeyDirectory(str(secret.directory), interval=3600, now=lambda: NOW)
    yield made
    made.close()


def test_who_gets_in(secret: Secret, keys: KeyDirectory) -> None:
    assert isinstance(keys.authenticate(bearer("sk-a")), Rejection), "no directory: nobody"
    secret.write(
        alice=entry("sk-a", models=["m", "n"], limits={"requests": "60/minute", "tokens": None}, created=None),
        bob=entry("sk-b", expires="2027-01-15T08:00:01Z", created="2026-11-22T00:00:00+00:00"),
        carol=entry("sk-c", expires="2027-01-15T09:00:00+01:00"),
    )
    keys.refresh()
    assert keys.authenticate(bearer("sk-a")) == Client("alice", frozenset({"m", "n"}), RateLimits(Rate(60, 60)))
    assert keys.authenticate(bearer("sk-b")) == Client("bob")
    assert keys.authenticate([(b"authorization", b"BEARER  sk-b ")]) == Client("bob")
    rejected: dict[str, Headers] = {
        "The API key has expired": bearer("sk-c"),
        "The API key is incorrect": bearer("sk-d"),
        "The API key is missing; send it as `Authorization: Bearer KEY`": [(b"x-api-key", b"sk-a")],
    }
    malformed = [b"sk-a", b"Basic sk-a", b"Bearer", b"Bearer sk-a sk-b", b"Bearer\tsk-a", b"Bearersk-a", b""]
    for message, headers in rejected.items():
        assert keys.authenticate(headers) == Rejection(
            401, message, "invalid_api_key", headers=((b"www-authenticate", b"Bearer"),)
        )
    once = "The Authorization header must be `Bearer KEY`, once"
    for value in malformed:
        assert getattr(keys.authenticate([(b"authorization", value)]), "message", "") == once, value
    assert getattr(keys.authenticate([*bearer("sk-a"), *bearer("sk-a")]), "message", "") == once


def test_a_malformed_entry_is_skipped_by_name_and_never_printed(
    secret: Secret, keys: KeyDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    malformed = {
        "plain": "sk-hidden",
        "deep": "[" * 60_000,
        "list": "[]",
        "digest": '{"sha256": "hidden"}',
        "short": '{"sha256": "00"}',
        "none": "{}",
        "unknown": entry("sk-1", hidden=1),
        "models": entry("sk-2", models="hidden"),
        "model": entry("sk-3", models=["m", 1]),
        "rate": entry("sk-4", limits={"requests": "hidden"}),
        "limit": entry("sk-5", limits={"hidden": "1/minute"}),
        "time": entry("sk-6", expires="hidden"),
        "zone": entry("sk-7", expires="2027-01-15T08:00:01"),
        "same": entry("sk-a"),
        "large": entry("sk-8") + " " * 70_000,
    }
    secret.write(alice=entry("sk-a"), **malformed)
    (secret.directory / "..data" / "binary").write_bytes(b"\xff")
    with caplog.at_level(logging.WARNING):
        keys.refresh()
    assert keys.authenticate(bearer("sk-a")) == Client("alice")
    assert {record.args[0] for record in caplog.records if isinstance(record.args, tuple)} == {*malformed, "binary"}
    assert "hidden" not in caplog.text
    assert all(isinstance(keys.authenticate(bearer(f"sk-{number}")), Rejection) for number in range(1, 9))
    assert isinstance(keys.authenticate(bearer("sk-hidden")), Rejection)
    before = len(caplog.records)
    keys.refresh()
    assert len(caplog.records) == before, "said once, not every second"


def test_changes_of_the_secret(
    secret: Secret, keys: KeyDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret.write(alice=entry("sk-a"), bob=entry("sk-b"))
    keys.refresh()
    secret.write(bob=entry("sk-b"), carol=entry("sk-c"))
    assert keys.authenticate(bearer("sk-a")) == Client("alice"), "nothing is read while a request waits"
    keys.refresh()
    assert isinstance(keys.authenticate(bearer("sk-a")), Rejection)
    assert (keys.authenticate(bearer("sk-b")), keys.authenticate(bearer("sk-c"))) == (Client("bob"), Client("carol"))

    read = Path.open
    with monkeypatch.context() as patch:

        def swapped(path: Path, mode: str) -> object:
            path.unlink()
            return read(path, mode)

        secret.write(dave=entry("sk-d"))
        patch.setattr(Path, "open", swapped)
        keys.refresh()
        assert keys.authenticate(bearer("sk-b")) == Client("bob"), "what vanished while it was read is read again"

        def broken(path: Path, mode: str) -> object:
            raise OSError(5, "Input/output error")

        patch.undo()
        secret.write(dave=entry("sk-d"))
        patch.setattr(Path, "open", broken)
        keys.refresh()
        keys.refresh()
        assert keys.authenticate(bearer("sk-b")) == Client("bob")
        assert caplog.text.count("Input/output error") == 1
    keys.refresh()
    assert keys.authenticate(bearer("sk-d")) == Client("dave")
    secret.directory.rename(secret.directory.with_name("gone"))
    keys.refresh()
    assert isinstance(keys.authenticate(bearer("sk-d")), Rejection)


def test_a_plain_directory_is_watched_in_the_background(tmp_path: Path) -> None:
    (tmp_path / "alice").write_text(entry("sk-a"))
    (tmp_path / ".hidden").write_text(entry("sk-h"))
    (tmp_path / "folder").mkdir()
    keys = KeyDirectory(str(tmp_path), interval=0.005)
    try:
        assert keys.authenticate(bearer("sk-a")) == Client("alice")
        assert isinstance(keys.authenticate(bearer("sk-h")), Rejection)
        (tmp_path / "alice").write_text(entry("sk-new"))
        os.utime(tmp_path / "alice", ns=(1, 1))
        deadline = time.monotonic() + 10
        while not isinstance(keys.authenticate(bearer("sk-a")), Rejection):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert keys.authenticate(bearer("sk-new")) == Client("alice")
    finally:
        keys.close()
