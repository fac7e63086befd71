"""Rules and expressions of CEL about single values, which several sections have."""

from __future__ import annotations

from rayllm_ctl.model.text import patterns
from rayllm_ctl.model.text.patterns import Pattern
from rayllm_ctl.specfile.crd.constraints import LABEL_KEY
from rayllm_ctl.specfile.crd.rule import CelRule


def matches(of: str, pattern: Pattern) -> str:
    return f"{of}.matches(r'^(?:{pattern.expression})$')"


def matches_object_name(of: str) -> str:
    return f"size({of}) <= 253 && {matches(of, patterns.DNS_SUBDOMAIN)}"


def matches_data_key(of: str) -> str:
    return f"{matches(of, patterns.DATA_KEY)} && !({of} in ['.', '..'])"


def given_name(field: str, message: str) -> CelRule:
    """The name of a Secret, which an error must not repeat: it may be what the Secret holds."""
    return CelRule(f"!has(self.{field}) || ({matches_object_name(f'self.{field}')})", message, f".{field}")


def keys(kind: str) -> CelRule:
    return CelRule(f"self.all(key, {matches('key', LABEL_KEY)})", f"not a valid {kind} key")


POSITIVE = CelRule("type(self) == int ? self > 0 : self.matches('[1-9]')", "must be greater than 0")
WHOLE_SECONDS = CelRule(
    "type(self) == int || (timestamp('2000-01-01T00:00:00Z') + duration(self)).getMilliseconds() == 0",
    "must be a whole number of seconds",
)
