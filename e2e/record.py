"""`make record`: run a short session on the cluster that is up and write it, as it was printed, into the README."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from e2e.demo import NAMESPACE, QUESTION, tiny
from e2e.harness import kubectl_program, rig
from e2e.images.serving import REF

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- session: made by `make record` -->", "<!-- /session -->"
NAME = "talk"


def session() -> list[list[str]]:
    """The commands that are shown, one that is refused among them."""
    llama = ["--model", "meta-llama/Llama-3.1-70B-Instruct", "--offline"]
    return [
        ["plan", *llama, "--gpu", "H100-80GB", "--tp", "4"],
        ["deploy", *llama, "--gpu", "L4", "--tp", "4"],
        tiny(NAME, REF),
        ["chat", NAME, QUESTION, "-n", NAMESPACE, "--max-tokens", "64", "--temperature", "0"],
        ["status", NAME, "-n", NAMESPACE],
    ]


def main() -> int:
    """0 when the README holds the new session."""
    kubeconfig = rig("kubeconfig")
    if kubeconfig.returncode:
        return kubeconfig.returncode
    environment = {
        "PATH": "/usr/bin:/bin",
        "KUBECONFIG": kubeconfig.stdout.strip(),
        "COLUMNS": "110",
        "HOME": "/nowhere",
    }
    subprocess.run(
        [kubectl_program(), "create", "namespace", NAMESPACE], env=environment, capture_output=True, check=False
    )
    text = "".join(show(command, environment) for command in session())
    subprocess.run([sys.executable, "-m", "rayllm_ctl", "delete", NAME, "-n", NAMESPACE], env=environment, check=True)
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{BEGIN}\n```\n{text.rstrip()}\n```\n{END}{after}", encoding="utf-8")
    return 0


def show(command: list[str], environment: dict[str, str]) -> str:
    """The command as a user types it and what it printed, both streams as they came."""
    done = subprocess.run(
        [sys.executable, "-m", "rayllm_ctl", *command],
        env={**environment, "PYTHONIOENCODING": "utf-8"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return f"$ rayllm-ctl {shlex.join(command)}\n{done.stdout.rstrip()}\n\n"


if __name__ == "__main__":
    sys.exit(main())
