"""What is read from the environment without huggingface-hub is what that package reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

CODE = """
import json
from pathlib import Path
from rayllm_ctl.catalog.sources import hfenv
own = str(hfenv.hub_cache()), hfenv.offline()
from huggingface_hub import constants
print(json.dumps([own, (str(Path(constants.HF_HUB_CACHE)), constants.HF_HUB_OFFLINE)]))
"""


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"XDG_CACHE_HOME": "/xdg"},
        {"XDG_CACHE_HOME": "/xdg", "HF_HOME": "~/hf"},
        {"HF_HOME": "/data/$USER_OF_TEST/", "USER_OF_TEST": "ada"},
        {"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "~/old"},
        {"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old", "HF_HUB_CACHE": "${HOME}/new"},
        {"HF_HUB_OFFLINE": "1"},
        {"HF_HUB_OFFLINE": "on"},
        {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1"},
        {"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "Yes"},
        {"TRANSFORMERS_OFFLINE": "y"},
    ],
    ids=lambda environment: " ".join(f"{name}={value}" for name, value in environment.items()) or "none",
)
def test_cache_and_offline_are_those_of_the_package(environment: dict[str, str]) -> None:
    names = ("XDG_CACHE_HOME", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_OFFLINE")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env={**inherited, **environment}, capture_output=True, text=True, check=True)
    own, of_package = json.loads(done.stdout)
    assert own == of_package
