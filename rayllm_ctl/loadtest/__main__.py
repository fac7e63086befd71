"""The load test of a Job: settings from a file, progress and results on standard output, a line of JSON each.

    python -m rayllm_ctl.loadtest SETTINGS_FILE

API keys, if any, are in the environment variable RAYLLM_API_KEY, one on each line.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rayllm_ctl.loadtest.session import measure
from rayllm_ctl.loadtest.settings import Settings

MARK = "rayllm-bench "
"""What each line begins with; all else in the log is of somebody else."""


CONNECT_SECONDS = 20.0
"""How long a service that has just become ready may refuse connections: each node learns of its addresses by itself."""


def wait_for_connection(url: str, seconds: float = CONNECT_SECONDS) -> None:
    """Return as soon as the server of `url` takes a connection, or after `seconds`: then the load says that it does
    not."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        with suppress(OSError):
            socket.create_connection(address, timeout=left).close()
            return
        time.sleep(min(0.2, left))


def say(kind: str, data: Any) -> None:
    """Write a line: `progress`, or `results` at the end."""
    sys.stdout.write(f"{MARK}{json.dumps({kind: data})}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure, and report the results."""
    data = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    settings = Settings.from_json(data, tuple(os.environ.get("RAYLLM_API_KEY", "").split()))
    wait_for_connection(settings.target.url)
    say("results", measure(settings, lambda progress: say("progress", progress)))


if __name__ == "__main__":
    main()
