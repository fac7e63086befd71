"""The command line: `python -m e2e.cluster up | down | status | kubeconfig | logs`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import layout, progress, report, rig
from e2e.cluster.errors import RigError
from e2e.cluster.state import Options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it did what was asked, 1 with the reason on stderr if not, 2 for wrong usage."""
    given = _parser().parse_args(arguments)
    try:
        return _run(given)
    except RigError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(given: argparse.Namespace) -> int:
    if given.command == "up":
        options = Options(given.nodes, tuple(given.simulate), given.claim_gpus, given.network_policies)
        run = rig.up(options, progress.to_stderr())
        print(f"export KUBECONFIG={run.kubeconfig}")
    elif given.command == "down":
        rig.down(progress.to_stderr())
    elif given.command == "status":
        print(report.as_json() if given.output == "json" else report.as_table())
        return 0 if report.is_up() else 1
    elif given.command == "kubeconfig":
        print(report.kubeconfig())
    else:
        _print_log(report.log(given.component))
    return 0


def _print_log(log: Path) -> None:
    with log.open("rb") as file:
        sys.stdout.buffer.write(file.read())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.cluster", description="Kubernetes with KubeRay on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="bring the cluster up and wait until it is ready")
    up.add_argument("--nodes", type=_nodes, default=2, metavar="N", help="real nodes (default 2)")
    up.add_argument(
        "--simulate",
        action="append",
        default=[],
        metavar="GPU:NxM",
        help="M simulated nodes of N GPUs each, such as H100-80GB:8x2; may be repeated",
    )
    up.add_argument(
        "--claim-gpus", default="", metavar="GPU:N", help="the last real node claims N GPUs, such as H100-80GB:8"
    )
    up.add_argument("--network-policies", action="store_true", help="enforce NetworkPolicies on the real nodes")
    commands.add_parser("down", help="take it down and leave nothing behind")
    status = commands.add_parser("status", help="what runs; exit code 1 unless all of it does")
    status.add_argument("-o", "--output", choices=["table", "json"], default="table")
    commands.add_parser("kubeconfig", help="print the path of the administrator's kubeconfig")
    logs = commands.add_parser("logs", help="print a component's log, or list the components")
    logs.add_argument("component", nargs="?", default="")
    return parser


def _nodes(text: str) -> int:
    number = int(text)
    if not 1 <= number <= layout.MAX_NODES:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and {layout.MAX_NODES}")
    return number


if __name__ == "__main__":
    # `... logs etcd | head` ends quietly.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
