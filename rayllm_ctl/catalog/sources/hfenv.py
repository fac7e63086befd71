"""What huggingface_hub 2.4 reads from the environment (constants.py), for commands that do not ask the hub,
and before it is imported.

Importing the package takes longer than reading a model from its cache.
"""

from __future__ import annotations

import os
import urllib.parse
from pathlib import Path

from rayllm_ctl.errors import UsageError

DEFAULT_ENDPOINT = "https://huggingface.co"
_TRUE = ("1", "ON", "YES", "TRUE")


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT, else the public one. UsageError if it is not an http(s) address."""
    address = (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    try:
        parts = urllib.parse.urlsplit(address)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UsageError("HF_ENDPOINT is not an http or https address", hint=f"for example {DEFAULT_ENDPOINT}")
    return address


def hub_cache() -> Path:
    """HF_HUB_CACHE, or its older name; by default hub in HF_HOME, by default huggingface in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return Path(os.path.expandvars(Path(named or f"{home}/hub").expanduser()))


def offline() -> bool:
    """Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids the network."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in _TRUE
