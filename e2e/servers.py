"""Servers on this machine that tests start for themselves."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_START_SECONDS = 20.0


@contextmanager
def running(command: Sequence[str | Path], url: str, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """`command`, from when it answers at `url` until the block ends, or this process does, however it ends."""
    name = Path(command[0]).name
    assert not _answers(url), f"something else answers at {url}, where {name} is to"
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], env=env)
    try:
        end = time.monotonic() + _START_SECONDS
        while not _answers(url):
            assert process.poll() is None, f"{name} ended with exit code {process.returncode}"
            assert time.monotonic() < end, f"{name} does not answer"
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    """A refusal is an answer."""
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
