"""`python -m rayllm_ctl`, `rayllm-ctl`, and `kubectl rayllm` through the executable kubectl-rayllm."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the command line and exit with the code of the table in rayllm_ctl.errors."""
    from rayllm_ctl.cli.app import run

    program = "kubectl rayllm" if Path(sys.argv[0]).name.startswith("kubectl-rayllm") else "rayllm-ctl"
    sys.exit(run(sys.argv[1:], program))


if __name__ == "__main__":
    main()
