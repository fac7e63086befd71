"""A controller of the command line, to count what it asks, or to end it at a request."""

from __future__ import annotations

import re
import threading
import urllib.request

from e2e.harness import Bench

WRITE = re.compile(r"(POST|PUT|PATCH|DELETE) ")
_ASKS = re.compile(r"dryRun=|selfsubject|/proxy/|/leases")
"""Writes to nothing, and those of the Lease."""


class Running:
    """A controller of a bench's namespace without a Lease, until `end`. port: of its probes and metrics."""

    def __init__(self, bench: Bench, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._args = ("controller", "-n", bench.namespace, "--no-leader-election", "--listen", f"127.0.0.1:{port}")
        self._bench = bench
        self._said: list[str] = []
        self._ended = threading.Event()
        self.process = bench.start(*self._args)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Take up what it logs, as a full pipe would stop it, and start it again when it ends, as the kubelet does."""
        while True:
            assert self.process.stderr is not None
            self._said.extend(self.process.stderr)
            if self._ended.wait(2):
                return
            self.process = self._bench.start(*self._args)

    @property
    def said(self) -> str:
        """The end of its log."""
        return "".join(self._said[-40:])

    def kill(self) -> None:
        """Kill it for good."""
        self._ended.set()
        self.process.kill()

    def end(self) -> None:
        """Kill it for good; fails if it has reported a defect."""
        self.kill()
        self.process.wait(10)
        assert "Traceback" not in "".join(self._said), self.said

    def metrics(self) -> str:
        """Its metrics; empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self._url}/metrics", timeout=10) as answer:
                content: bytes = answer.read()
        except OSError:
            return ""
        return content.decode()

    def reconciled(self) -> float:
        """How many reconciliations have ended."""
        found = re.findall(r"^rayllm_controller_reconcile_total\{.*\} (\S+)$", self.metrics(), re.MULTILINE)
        return sum(map(float, found))

    def quantile(self, part: float) -> str:
        """The bound in seconds below which this part of its reconciliations was."""
        name = r"rayllm_controller_reconcile_duration_seconds_bucket"
        buckets: list[tuple[str, str]] = re.findall(rf'^{name}\{{le="(\S+)"\}} (\S+)$', self.metrics(), re.MULTILINE)
        total = float(buckets[-1][1])
        return next(bound for bound, count in buckets if float(count) >= part * total)


def is_write(request: str) -> bool:
    """Whether a request, as in `PATCH /api/v1/…`, changes an object other than a Lease."""
    return bool(WRITE.match(request)) and not _ASKS.search(request)
