"""The image's `ray` command: Ray's own, which also knows what to do with GPUs that a node only claims to have.

On a real GPU node Ray asks NVIDIA's library for the kind of GPU. Where `ray start` is told of GPUs and the pod has no
NVIDIA device, the stand-in takes over: it names the kind (RAYLLM_STANDIN_GPU, a name of Ray's accelerator types), and
Ray Serve LLM loads the stand-in engine. So manifests need not say that the GPUs are not real.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

ENGINE = "rayllm_standin.engine:StandInEngine"
DEFAULT_GPU = "H100"


def stand_in(arguments: list[str], environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The arguments and the added environment with which Ray runs where GPUs are claimed and there is no device."""
    if arguments[:1] != ["start"] or _number_of_gpus(arguments) == 0:
        return arguments, {}
    resource = f"accelerator_type:{environ.get('RAYLLM_STANDIN_GPU', DEFAULT_GPU)}"
    given = _value(arguments, "--resources")
    resources = {resource: 1, **json.loads(given or "{}")}
    others = _without(arguments, "--resources")
    return [*others, f"--resources={json.dumps(resources)}"], {"RAYLLM_VLLM_ENGINE_CLS": ENGINE}


def main() -> None:
    """Run Ray's command line in this process."""
    arguments, added = sys.argv[1:], {}
    if not Path("/dev/nvidiactl").exists():
        arguments, added = stand_in(arguments, os.environ)
    if added:
        print(f"GPUs are claimed and no NVIDIA device is here: {ENGINE} stands in for vLLM", file=sys.stderr)
        os.environ.update({name: value for name, value in added.items() if name not in os.environ})
    from ray.scripts.scripts import main as ray_main

    sys.argv = ["ray", *arguments]
    ray_main()


def _number_of_gpus(arguments: list[str]) -> float:
    return float(_value(arguments, "--num-gpus") or 0)


def _value(arguments: list[str], option: str) -> str | None:
    """The last value of an option, written `--option=value` or `--option value`."""
    found = None
    for position, word in enumerate(arguments):
        if word.startswith(option + "="):
            found = word.partition("=")[2]
        elif word == option and position + 1 < len(arguments):
            found = arguments[position + 1]
    return found


def _without(arguments: list[str], option: str) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word == option:
            skip = True
        elif not word.startswith(option + "="):
            kept.append(word)
    return kept
