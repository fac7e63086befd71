"""The environment variables of Hugging Face's own client (huggingface_hub 2.4, constants.py and utils/_auth.py)."""

from __future__ import annotations

import os
from pathlib import Path

_TRUE = ("1", "ON", "YES", "TRUE")


def home() -> Path:
    """HF_HOME, by default huggingface in the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or str(Path(cache) / "huggingface")).expanduser()


def hub_cache() -> Path:
    """HF_HUB_CACHE, or its older name, by default hub in `home`."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return Path(named or str(home() / "hub")).expanduser()


def offline() -> bool:
    """Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids the network."""
    return _is_true(os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE"))


def token() -> str:
    """HF_TOKEN, or its older name, or the token that `hf auth login` stored; empty if there is none.

    HF_HUB_DISABLE_IMPLICIT_TOKEN keeps it from being sent.
    """
    if _is_true(os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN")):
        return ""
    named = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    return (named or _stored_token()).strip()


def _stored_token() -> str:
    path = Path(os.environ.get("HF_TOKEN_PATH") or str(home() / "token")).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _is_true(value: str | None) -> bool:
    return (value or "").upper() in _TRUE
