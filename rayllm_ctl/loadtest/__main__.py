"""The load test of a Job: settings from a file, progress and results on standard output, a line of JSON each.

    python -m rayllm_ctl.loadtest SETTINGS_FILE

API keys, if any, are in the environment variable RAYLLM_API_KEY, one on each line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from rayllm_ctl.loadtest.session import measure
from rayllm_ctl.loadtest.settings import Settings

MARK = "rayllm-bench "
"""What each line begins with; all else in the log is of somebody else."""


def say(kind: str, data: Any) -> None:
    """Write a line: `progress`, or `results` at the end."""
    sys.stdout.write(f"{MARK}{json.dumps({kind: data})}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure, and say what came of it."""
    data = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    settings = Settings.from_json(data, tuple(os.environ.get("RAYLLM_API_KEY", "").split()))
    say("results", measure(settings, lambda progress: say("progress", progress)))


if __name__ == "__main__":
    main()
