"""`make demo`: from nothing to a model that answers, with every command shown as a user would type it."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time

from e2e.harness import kubectl_program, rig

NAME = "demo"
NAMESPACE = "llm"
QUESTION = "What is Kubernetes?"


def main() -> int:
    """0 when the model has answered."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("--cluster", choices=["own", "existing"], default="own", help="existing: the kubeconfig's")
    parser.add_argument("--image", help="with --cluster existing: an image with Ray, vLLM and /models/tiny")
    options = parser.parse_args()
    if options.cluster == "existing" and not options.image:
        parser.error("--cluster existing needs --image")
    begin = time.monotonic()
    if options.cluster == "own":
        from e2e.images.serving import REF

        image = REF
        say("a Kubernetes of our own: etcd, API server, scheduler, two nodes, KubeRay")
        if rig("up", "--nodes", "2").returncode:
            return 1
        os.environ["KUBECONFIG"] = rig("kubeconfig").stdout.strip()
    else:
        image = options.image
    up = time.monotonic() - begin
    subprocess.run([kubectl_program(), "create", "namespace", NAMESPACE], capture_output=True, check=False)
    deploy = tiny(NAME, image)
    for command in (
        deploy,
        ["chat", NAME, QUESTION, "-n", NAMESPACE, "--max-tokens", "64"],
        ["endpoint", NAME, "-n", NAMESPACE],
    ):
        if code := show(command):
            return code
    total = time.monotonic() - begin
    say(f"done after {total:.0f} s, {up:.0f} s of them for the cluster")
    go_on(options.cluster == "own")
    return 0


def tiny(name: str, image: str) -> list[str]:
    """The command that deploys the tiny model of the image on CPUs, with one replica or two."""
    return [
        "deploy", "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", name,
        "--image", image, "--min-replicas", "1", "--max-replicas", "2", "--max-model-len", "1024", "-n", NAMESPACE,
    ]  # fmt: skip


def say(text: str) -> None:
    print(f"\n# {text}", file=sys.stderr, flush=True)


def show(command: list[str]) -> int:
    """Print the command as a user would type it, run it, return its exit code."""
    print(f"\n$ rayllm-ctl {shlex.join(command)}", file=sys.stderr, flush=True)
    return subprocess.run([sys.executable, "-m", "rayllm_ctl", *command], check=False).returncode


def go_on(own: bool) -> None:
    """What to type next, and how to take it down."""
    lines = ["go on"]
    if own:
        lines += ["  source .venv/bin/activate", "  export KUBECONFIG=$(python -m e2e.cluster kubeconfig)"]
    lines += [
        f"  rayllm-ctl status {NAME} -n {NAMESPACE}",
        f"  rayllm-ctl chat {NAME} -n {NAMESPACE}",
        f"  rayllm-ctl watch {NAME} -n {NAMESPACE}",
        "take it down",
        f"  rayllm-ctl delete {NAME} -n {NAMESPACE}",
    ]
    if own:
        lines.append("  python -m e2e.cluster down")
    print("\n" + "\n".join(lines), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
