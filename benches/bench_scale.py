"""What commands cost beside a thousand services and ten thousand pods, on a cluster of its own.

    python -m benches.bench_scale        # figures, and exit code 1 where a limit is missed

It brings the local cluster up, fills it, and takes it down again; one that is up is not touched.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from e2e.counting import counting
from e2e.crowd import make_pods, make_services
from e2e.harness import OWN_CLUSTER, Bench, Target, kubectl_program, rig
from e2e.images.serving import REF
from e2e.simulated import schedule_on_simulated_nodes

FEW, SERVICES, MANY, PODS = 5, 200, 1_000, 10_000
WATCHED = "watched"
IDLE_SECONDS = 18.0
STARTS = 9

STATUS_CPU_SECONDS = 2.0
WATCH_CPU = 0.02
WATCH_KIB = 120 * 1024
MORE = 1.3
"""Of requests and bytes while nothing changes, as the period happens to begin."""


@dataclass(frozen=True)
class Idle:
    """What `watch` of one service costs in IDLE_SECONDS in which nothing changes. cpu: share of one core."""

    requests: int
    answered: int
    cpu: float
    peak_kib: int


def idle(bench: Bench) -> Idle:
    """Two of them side by side: one to count its requests, and one without a proxy."""
    with tempfile.TemporaryDirectory() as folder, counting(bench, Path(folder)) as (counted_bench, proxy):
        counted_bench.start("watch", WATCHED, "-n", bench.namespace)
        plain = bench.start("watch", WATCHED, "-n", bench.namespace)
        bench.wait("watch has looked twice", lambda: len(proxy.requests) > 40, timeout=90)
        before, answered, cpu = len(proxy.requests), proxy.answered, cpu_seconds(plain)
        time.sleep(IDLE_SECONDS)
        used = cpu_seconds(plain) - cpu
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{plain.pid}/status").read_text())
        assert peak is not None
        found = Idle(len(proxy.requests) - before, proxy.answered - answered, used / IDLE_SECONDS, int(peak[1]))
        plain.kill()
        plain.wait()
    return found


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_cpu(bench: Bench) -> float:
    """The CPU seconds of `status -A`."""
    before = os.times()
    bench.run("status", "-A", "-o", "json", code=None)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def waits(bench: Bench) -> tuple[float, float]:
    """How long after a service has addresses `wait` and `kubectl wait` end, in seconds, p50.

    Services start one after the other, and both commands wait for each of them. What changes first is the service's
    EndpointSlice. `wait` looks at it and asks Serve; `kubectl wait` is told by KubeRay's condition, which follows.
    """
    with Addresses(bench) as addresses, ThreadPoolExecutor(2 * STARTS) as pool:
        pairs = []
        for number in range(STARTS):
            name = f"start-{number}"
            bench.run(*bench.tiny(name), "--no-wait")
            both = (bench.start("wait", name, "-n", bench.namespace), start_kubectl_wait(bench, name))
            pairs.append((name, [pool.submit(ended, wait) for wait in both]))
            time.sleep(0.5)
        ends = {name: [wait.result() for wait in waits] for name, waits in pairs}
        # `wait` may end before what tells of the addresses here has read it.
        bench.wait("the addresses are known", lambda: ends.keys() <= addresses.since.keys(), timeout=10, pause=0.1)
    delays = [[end - addresses.since[name] for end in both] for name, both in ends.items()]
    ours, kubectl = map(statistics.median, zip(*delays, strict=True))
    return ours, kubectl


class Addresses:
    """Since when each service has addresses that take requests, as the API server tells it. Use as a context manager.

    since: time.monotonic() by the name of the service.
    """

    def __init__(self, bench: Bench) -> None:
        self.since: dict[str, float] = {}
        path = f"/apis/discovery.k8s.io/v1/namespaces/{bench.namespace}/endpointslices?watch=true"
        self._process = subprocess.Popen(
            [kubectl_program(), "get", "--raw", path],
            env=bench.target.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            item = json.loads(line)["object"]
            service = item["metadata"]["labels"]["kubernetes.io/service-name"]
            if service.endswith("-serve-svc") and any(one["conditions"]["ready"] for one in item["endpoints"] or ()):
                self.since.setdefault(service.removesuffix("-serve-svc"), time.monotonic())

    def __enter__(self) -> Addresses:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def ended(process: subprocess.Popen[str]) -> float:
    """When a process ends, which must be well."""
    process.wait()  # with a time-out it would look every 50 ms only
    end = time.monotonic()
    assert process.returncode == 0
    return end


def start_kubectl_wait(bench: Bench, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [kubectl_program(), "wait", "--for=condition=Ready", f"rayservice/{name}", "-n", bench.namespace,
         "--timeout=60s"],
        env=bench.target.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def main() -> int:
    """0 where all limits hold."""
    if rig("status").returncode == 0:
        sys.stderr.write("a cluster is up and may be in use: python -m e2e.cluster down\n")
        return 2
    try:
        if code := rig("up", *OWN_CLUSTER).returncode:
            return code
        bench = Bench(Target(Path(rig("kubeconfig").stdout.strip()), REF, own=True), "bench-scale")
        bench.kubectl("create", "namespace", bench.namespace)
        schedule_on_simulated_nodes(bench)
        bench.run(*bench.tiny(WATCHED))
        make_services(bench, range(FEW))
        few = idle(bench)
        make_services(bench, range(FEW, SERVICES))
        status = status_cpu(bench)
        make_services(bench, range(SERVICES, MANY))
        make_pods(bench, PODS, MANY)
        many = idle(bench)
        ours, kubectl = waits(bench)
    finally:
        rig("down")
    checks = {
        f"status -A of {SERVICES} services: {status:.2f} s CPU, at most {STATUS_CPU_SECONDS}": (
            status <= STATUS_CPU_SECONDS
        ),
        f"watch for {IDLE_SECONDS:.0f} s beside {MANY} services: {many.requests} requests, beside {FEW} "
        f"{few.requests}, at most {MORE} times as many": many.requests <= MORE * few.requests,
        f"  {many.answered} bytes, beside {FEW} {few.answered}": many.answered <= MORE * few.answered,
        f"  {many.cpu:.1%} of a core, at most {WATCH_CPU:.1%}": many.cpu <= WATCH_CPU,
        f"  {many.peak_kib} KiB, at most {WATCH_KIB}": many.peak_kib <= WATCH_KIB,
        f"wait ends after {1e3 * ours:.0f} ms, p50; kubectl wait after {1e3 * kubectl:.0f} ms": ours <= kubectl,
    }
    for line, holds in checks.items():
        sys.stdout.write(f"{line}{'' if holds else '  MISSED'}\n")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
