"""Objects, Serve's responses and logs without secrets, as far as names and formats identify them.

Masked are data of Secrets, values with the name of a secret (environment variables, flags, fields), and text anywhere
that looks like a known kind of token. References to Secrets stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.changes.masking import LAST_APPLIED, MASK
from rayllm_ctl.model.kube.written import written

_LAST_WORDS = frozenset(
    {"token", "password", "passwd", "pwd", "passphrase", "secret", "credential", "credentials", "authorization",
     "apikey", "apikeys", "passwords"}
)  # fmt: skip
_KEYS = frozenset({"api", "access", "private", "secret", "signing", "encryption", "master", "license", "auth"})
_ENVIRONMENTS = ("env", "env_vars", "envVars")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_NAME = r"token|passw(?:or)?d|passphrase|secret|credentials?|(?:api|access|account|private)[_-]?key|signature|[?&]sig"
_NO_VALUE = r"bearer\b|basic\b|unexpected status|[45]\d\d "
"""Text that may follow such a name without being its value: "failed to fetch anonymous token: 401 Unauthorized"."""

_TEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)", re.S), MASK),
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{6,}"), rf"\1{MASK}"),
    (re.compile(r"""(?i)(authorization["']?\s*[:=]\s*["']?basic\s+)[\w+/=-]+"""), rf"\1{MASK}"),
    (re.compile(r"""(?i)(cookie["']?[ \t]*:[ \t]*)[^\r\n]+"""), rf"\1{MASK}"),
    (re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"), MASK),
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{10,}|sk-[\w-]{16,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
            r"|glpat-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
            r"|nvapi-[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|rayllm-(?=[\w-]*[A-Z])[\w-]{43}(?![\w-]))"
        ),
        MASK,
    ),
    # Blocks of YAML, and lists as vLLM logs its arguments: api_key=['...'].
    (
        re.compile(
            rf"""(?im)^(?P<indent>[ \t]*)(?P<key>[\w."' -]{{0,99}}?(?:{_NAME}|_KEY)["']?:[ \t]+)[|>][+-]?[ \t]*\n"""
            r"(?:[ \t]*\n|(?P=indent)[ \t]+[^\n]*(?:\n|\Z))+"
        ),
        rf"\g<indent>\g<key>{MASK}\n",
    ),
    (re.compile(rf"""(?i)((?:{_NAME})["']?[ \t]*[=:][ \t]*)\[[ \t]*["'][^\]\n]*\]"""), rf"\1[{MASK}]"),
    (
        re.compile(rf"""(?i)((?:{_NAME})["']?[ \t]*[=:][ \t]*["']?)(?!{_NO_VALUE})[^\s"',;&}}\]]+"""),
        rf"\1{MASK}",
    ),
    (re.compile(r"""(\b[A-Z0-9_]+_KEY["']?[ \t]*[=:][ \t]*["']?)[^\s"',;&}\]]+"""), rf"\1{MASK}"),
    (re.compile(rf"(?i)(--[\w-]{{0,40}}?(?:{_NAME})\s+)(?!-)\S+"), rf"\1{MASK}"),
)


def redacted_text(text: str) -> str:
    """A log, a message or an argument without text that looks like a secret."""
    for pattern, mask in _TEXT:
        text = pattern.sub(mask, text)
    return text


def redacted(value: Any) -> Any:
    """JSON data without secrets; objects also without kubectl's copy of what was applied, and of managedFields with the
    times only."""
    return _redacted(value, environment=False)


def _redacted(value: Any, *, environment: bool) -> Any:
    if isinstance(value, Mapping):
        return dict(_fields(value, environment))
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Sequence):
        return list(_items(value, environment))
    return value


def _fields(value: Mapping[str, Any], environment: bool) -> Iterator[tuple[str, Any]]:
    of_secret = value.get("kind") == "Secret"
    for key, part in value.items():
        if key == LAST_APPLIED:
            continue
        if key == "managedFields":
            yield key, written(part)
        elif of_secret and key in ("data", "stringData") and isinstance(part, Mapping):
            yield key, dict.fromkeys(part, MASK)
        elif key == "value" and isinstance(part, str) and _is_secret(str(value.get("name", "")), environment):
            yield key, MASK if part else part
        elif _is_secret(key, environment) and _is_text(part):
            yield key, [MASK] * len(part) if isinstance(part, list) else MASK if part else part
        elif isinstance(part, Mapping) and isinstance(part.get("value"), str) and _is_secret(key, environment):
            yield key, {**_redacted(part, environment=False), "value": MASK}  # KubeRay's redisPassword
        else:
            yield key, _redacted(part, environment=key in _ENVIRONMENTS)


def _items(value: Sequence[Any], environment: bool) -> Iterator[Any]:
    """Items of a list, of which one may be a flag and the next its value."""
    flag = False
    for item in value:
        text = item if isinstance(item, str) else ""
        yield MASK if flag and text and not text.startswith("-") else _redacted(item, environment=environment)
        flag = text.startswith("--") and "=" not in text and _is_secret(text, environment=False)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _is_secret(name: str, environment: bool) -> bool:
    """Whether a value of this name is a secret. environment: the name is that of an environment variable."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if words[-1] in ("key", "keys") and len(words) > 1:
        return environment or words[-2] in _KEYS
    return words[-1] in _LAST_WORDS
