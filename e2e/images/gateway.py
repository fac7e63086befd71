"""What `rayllm-ctl image recipe` adds to an image with Ray and vLLM, for the serving image.

Not in the layer below, which takes long to make and has all that changes seldom.
"""

from __future__ import annotations

from pathlib import Path

from e2e.cluster.shell import run
from e2e.images import packages

LOCK = Path(__file__).with_name("gateway.lock")


def install(site: Path) -> None:
    """Install exactly the lock file into `site`, checking every digest. Raises RigError if it fails."""
    *command, _ = packages.pip_command(site)
    run([*command, str(LOCK)], hint="is the package index reachable, and pip part of this Python?")
