"""KUBECTL_EXTERNAL_DIFF: the user's own program shows the differences, run as `kubectl diff` runs it.

Source: Kubernetes 1.36, k8s.io/kubectl/pkg/cmd/diff/diff.go (DiffProgram): the program gets the folders of both
versions, then its own parameters, of which only those of letters, digits, dashes and equal signs are kept; it exits
with 0 or 1 unless it failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rayllm_ctl.errors import NO_ANSWER, UserError
from rayllm_ctl.model.observed.changes import Diff
from rayllm_ctl.model.observed.unified_diff import file_name, unified_text

DIFF_VARIABLE = "KUBECTL_EXTERNAL_DIFF"

_PARAMETER = re.compile(r"[a-zA-Z0-9=-]+")


def split(value: str) -> tuple[str, list[str], list[str]]:
    """The program in the variable's value, its parameters, and those that kubectl drops."""
    program, *parameters = value.split(" ")
    kept = [one for one in parameters if _PARAMETER.fullmatch(one)]
    return program, kept, [one for one in parameters if one and one not in kept]


def show(diff: Diff, program: str, parameters: Sequence[str]) -> None:
    """Run `program` on the two versions of all objects; its output is ours. UserError if it fails."""
    with tempfile.TemporaryDirectory(prefix="rayllm-ctl-diff-") as folder:
        places = [Path(folder) / name for name in diff.sides]
        for place in places:
            place.mkdir()
        for item in diff.objects:
            for place, side in zip(places, (item.before, item.after), strict=True):
                if side is not None:
                    (place / file_name(item)).write_text(unified_text(side), encoding="utf-8")
        sys.stdout.flush()
        try:
            done = subprocess.run([program, *map(str, places), *parameters], check=False)
        except OSError as error:
            raise UserError(
                f"{DIFF_VARIABLE}: {program} cannot be run: {error.strerror}", hint=f"unset {DIFF_VARIABLE}",
                exit_code=NO_ANSWER,
            ) from error  # fmt: skip
    if done.returncode not in (0, 1):
        raise UserError(
            f"{DIFF_VARIABLE}: {program} failed with exit code {done.returncode}", hint=f"unset {DIFF_VARIABLE}"
        )
