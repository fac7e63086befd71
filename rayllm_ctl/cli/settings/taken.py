"""Values that the current command took from the environment or the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rayllm_ctl.frozen import dataclass

TAKEN = "rayllm.settings"
"""In the meta of a context: the values that were taken, by the name of the parameter."""


@dataclass(frozen=True)
class SettingValue:
    """The value of a setting that no flag has given, and where it is from: RAYLLM_GPU, or config.yaml:3."""

    name: str
    text: str
    value: Any
    place: str
    from_variable: bool

    @property
    def label(self) -> str:
        """What messages begin with: RAYLLM_GPU, or config.yaml:3: gpu."""
        return self.place if self.from_variable else f"{self.place}: {self.name}"


def taken_settings() -> Mapping[str, SettingValue]:
    """The values that the current command took from the environment or the file, by the name of the parameter."""
    ctx = click.get_current_context(silent=True)
    found: dict[str, SettingValue] = {} if ctx is None else ctx.meta.get(TAKEN, {})
    return found


def spec_values(values: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """`values` of the flags that were given, by the field of the spec. Those of settings are for `below_spec`.

    fields: the field of each parameter.
    """
    taken = taken_settings()
    return {fields[name]: value for name, value in values.items() if value not in (None, ()) and name not in taken}
