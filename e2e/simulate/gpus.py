"""What the product's catalog says of GPUs, by its command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from e2e.cluster.errors import RigError


@cache
def find(name: str) -> Mapping[str, Any]:
    """The GPU that `rayllm-ctl gpus NAME -o json` shows. RigError, with the nearest names, if NAME is not one GPU."""
    done = _gpus(name)
    if done.returncode:
        message, _, hint = done.stderr.partition("hint:")
        raise RigError(re.sub(r"^(✗|error:)\s*", "", message.strip()), hint.strip())
    found = json.loads(done.stdout)
    if found["kind"] != "GPU":
        names = ", ".join(gpu["name"] for gpu in found["items"])
        raise RigError(f"{name!r} is not one GPU", f"use one of {names}")
    return dict(found)


@cache
def catalog() -> Sequence[Mapping[str, Any]]:
    """All GPUs of `rayllm-ctl gpus -o json`. RigError if that fails."""
    done = _gpus()
    if done.returncode:
        raise RigError(f"rayllm-ctl gpus failed: {done.stderr.strip()}")
    return list(json.loads(done.stdout)["items"])


def ray_accelerator_type(labels: Mapping[str, str]) -> str:
    """Ray's name of the GPUs of a node with these labels; empty for a node without any."""
    for gpu in catalog():
        for key, values in gpu["nodeLabels"].items():
            if "product" in key and labels.get(key) in values and gpu["rayAcceleratorType"]:
                return str(gpu["rayAcceleratorType"])
    return ""


def _gpus(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rayllm_ctl", "gpus", *args, "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
