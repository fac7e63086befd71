"""The load generator of `bench` next to hey, `vllm bench serve` and guidellm: the same figures, and no more CPU.

    python -m benches.bench_load [PAIRS]     # of runs of ours and of hey, 3 by default

All of them run in the serving image's root file system, against a server that does nothing but write answers. vLLM's
program is the one of that image, hey is built from source, and guidellm comes from the package index. Exit code 1 where
a limit is not met.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benches.inside import run
from e2e.cluster import build, cache, modules
from e2e.cluster.progress import to_stderr
from e2e.cluster.shell import run as shell
from e2e.images import packages, serving

_LOCK = Path(__file__).with_name("guidellm.lock")


def _guidellm() -> Path:
    """The folder with guidellm and its dependencies, installed if it is not in the cache."""

    def make(work: Path) -> None:
        *command, _ = packages.pip_command(work)
        shell([*command, str(_LOCK)], hint="is the package index reachable, and pip part of this Python?")

    return cache.ensure("guidellm", serving.recipe_key([_LOCK]), make)


if __name__ == "__main__":
    pairs = sys.argv[1] if len(sys.argv) > 1 else "3"
    build.ensure(modules.HEY, to_stderr())
    files = ["load_inside.py", "load_server.py", build.program(modules.HEY, "hey")]
    sys.exit(run(files, pairs, {}, _guidellm()))
