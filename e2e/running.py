"""A command that runs beside a test, which waits for what it says."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable

from e2e.harness import Bench

_LIMIT_SECONDS = 300.0
"""For anything that a test waits for. Commands that wait have longer time-outs, whose exit code is another one."""


class Running:
    """rayllm-ctl in the background. It ends with the bench at the latest. out, err: the lines that it has written."""

    def __init__(self, bench: Bench, *args: str) -> None:
        self.out: list[str] = []
        self.err: list[str] = []
        self.process = bench.start(*args)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        # Both are read all the time: a full pipe would stop the command.
        self._readers = [
            threading.Thread(target=lines.extend, args=(stream,), daemon=True)
            for lines, stream in ((self.out, self.process.stdout), (self.err, self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def says(self, pattern: str) -> str:
        """Wait until standard error has a line with `pattern`; that line."""
        return self._wait(pattern, lambda: next((line for line in self.err if re.search(pattern, line)), ""))

    def prints(self, lines: int = 1) -> list[str]:
        """Wait until standard output has so many lines; all that it has."""
        self._wait(f"{lines} lines of output", lambda: " " * (len(self.out) >= lines))
        return list(self.out)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, str]:
        """Wait until it ends; its exit code and standard error."""
        code = self.process.wait(_LIMIT_SECONDS)
        for reader in self._readers:
            reader.join()
        err = "".join(self.err)
        assert "Traceback" not in err, err
        return code, err

    def _wait(self, what: str, found: Callable[[], str]) -> str:
        end = time.monotonic() + _LIMIT_SECONDS
        while not (line := found()):
            assert self.process.poll() is None or found(), f"it ended before {what}: {''.join(self.err)}"
            assert time.monotonic() < end, f"not within {_LIMIT_SECONDS:.0f} s: {what}; {''.join(self.err)}"
            time.sleep(0.1)
        return line
