"""Rendering one service, and many: CPU and memory.

    python -m benches.bench_render [SERVICES]     # 1,000 by default

CPU is user and system time together. Exit code 1 where render is not within its limits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "manifests" / "qwen3-32b" / "llmservice.yaml"
RENDER = (sys.executable, "-m", "rayllm_ctl", "render", "--offline")
ROUNDS = 5
MOST_MIB = 300
MOST_GROWTH = 1.5
"""Times the CPU per service of a tenth of the services: rendering time must grow linearly."""
MOST_SHARE = 0.1
"""Of the CPU of a command for each service: what is imported and compiled once must not be paid for again."""


def cpu(argv: Sequence[str | Path], environment: dict[str, str]) -> tuple[float, float]:
    """CPU seconds and peak memory in MiB of a command."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT, env=environment)
    assert process.stderr is not None
    err = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{argv[0]}: exit code {process.returncode}\n{err.decode()[-2000:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    services = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "NO_COLOR": "1"}
        one = min(cpu([*RENDER, "-f", SPEC], environment)[0] for _ in range(ROUNDS))
        sys.stdout.write(f"one service      {1e3 * one:6.0f} ms CPU\n")
        specs = []
        spec = SPEC.read_text(encoding="utf-8")
        for number in range(services):
            path = folder / f"{number}.yaml"
            path.write_text(spec.replace("name: qwen3-32b", f"name: service-{number}", 1), encoding="utf-8")
            specs += ["-f", str(path)]
        tenth = services // 10
        few, _ = cpu([*RENDER, *specs[: 2 * tenth], "--output-dir", folder / "few"], environment)
        many, mib = cpu([*RENDER, *specs, "--output-dir", folder / "many"], environment)
        growth = ((many - one) / services) / ((few - one) / tenth)
        share = many / (one * services)
        sys.stdout.write(f"{services} services   {many:6.1f} s CPU, {mib:.0f} MiB   ")
        sys.stdout.write(f"{share:.3f} of a command for each   CPU per service {growth:.2f} x that of {tenth}\n")
    missed = share > MOST_SHARE or mib > MOST_MIB or growth > MOST_GROWTH
    sys.stdout.write("a limit is missed\n" if missed else "all within their limits\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
