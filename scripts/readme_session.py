"""Write the session at the top of README.md as it is printed now; with --check only say whether it is current.

It needs no cluster: the service that is stuck is recorded in manifests/bundle.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- session: made by `make docs` -->\n```\n", "```\n<!-- /session -->"
QWEN = ("--model", "Qwen/Qwen3-32B", "--offline")
COMMANDS = {
    ("plan", *QWEN, "--gpu", "H100-80GB", "--tp", "2"): ("✔", "ready in", "cost"),
    ("deploy", *QWEN, "--gpu", "L4", "--tp", "2"): ("✗", "hint:"),
    ("status", "qwen3-32b", "--from", "manifests/bundle"): ("qwen3-32b", "cause", "evidence"),
}
"""Commands, and how the rows begin that are shown: all of them would fill a page."""


def session() -> str:
    return "".join(
        f"$ rayllm-ctl {shlex.join(command)}\n{shown(command, first)}" for command, first in COMMANDS.items()
    )


def shown(command: tuple[str, ...], first: tuple[str, ...]) -> str:
    """The rows of both streams that begin like this, with their further lines; `…` stands for the others."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "PYTHONIOENCODING": "utf-8", "HF_HUB_OFFLINE": "1"}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    printed = subprocess.run(
        [sys.executable, "-m", "rayllm_ctl", *command], cwd=README.parent, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    ).stdout  # fmt: skip
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    kept: list[str] = []
    is_shown = False
    for line in lines:
        if not line.startswith("    "):
            is_shown = line.strip().startswith(first)
        kept += [line] if is_shown else []
    return "".join(f"{line}\n" for line in (kept if kept == lines else [*kept, "  …"]))


def main() -> int:
    """0 when the README is (now) current, 1 when --check finds that it is not."""
    before = README.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    text = f"{head}{BEGIN}{session()}{END}{rest.partition(END)[2]}"
    if "--check" not in sys.argv[1:]:
        README.write_text(text, encoding="utf-8")
    elif text != before:
        sys.stderr.write("the session in README.md is not what is printed\n\nhint: make docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
