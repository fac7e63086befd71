"""The context of every command: flags that were not given take their value from the environment or the configuration
file. The order is flag, variable, file, default; Click's own order with a variable for each command is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from rayllm_ctl.cli.settings.names import is_setting, setting_name
from rayllm_ctl.cli.settings.taken import TAKEN, SettingValue
from rayllm_ctl.errors import UserError

_HERMETIC: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "render": lambda params: True,  # noqa: ARG005
    "diff": lambda params: bool(params.get("local")),
}
"""Commands whose output depends on the command line and the files that it names alone, by what was typed."""

_UNLESS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "namespace": lambda given: given.get("all_namespaces") or given.get("bundle"),
    "offline": lambda given: given.get("from_hub") or given.get("service"),
    "from-hub": lambda given: given.get("offline"),
    "template-dir": lambda given: given.get("serve_config") or given.get("service"),
    "kuberay-version": lambda given: given.get("dry_run") != "client",
}
"""Settings without effect beside other flags, by the parameters that were typed: to set both would be an error."""

_WITHOUT_EFFECT = frozenset({"context", "kubeconfig", "request-timeout", "offline", "from-hub"})
"""Settings that cannot change what a hermetic command prints."""


def with_settings(command: click.Command) -> click.Command:
    """`command`, and those below it, with a context that knows settings."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            with_settings(below)
    else:
        command.context_class = SettingContext
    return command


class SettingContext(click.Context):
    """The context of a command. Click asks it for a default when a flag is not given.

    excludes: whether settings have no effect beside flags that exclude them.
    """

    excludes = True

    def lookup_default(self, name: str, call: bool = True) -> Any:
        found = self._setting(name) if self._anything_set() else None
        if found is not None:
            return found.value
        return super().lookup_default(name) if call else super().lookup_default(name, call=False)

    def invoke(self, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Report variables without a meaning, and with --debug where values are from; then run the command."""
        if not self._is_own(callback):
            return super().invoke(callback, *args, **kwargs)
        if self._anything_set():
            self._warn()
        if self.meta.get("rayllm.debug"):
            self._explain()
        try:
            return super().invoke(callback, *args, **kwargs)
        except UserError as error:
            from rayllm_ctl.cli.parsing.pasted import with_flags_typed

            error.hints = (*with_flags_typed(error.hints, self), *self._origins(error))
            raise

    def _is_own(self, callback: object) -> bool:
        return callback is self.command.callback

    @property
    def _name(self) -> str:
        return self.command_path.removeprefix(self.find_root().command_path).strip()

    def _anything_set(self) -> bool:
        if "rayllm.any" not in self.meta:
            from rayllm_ctl.cli.settings.sources import is_anything_set

            self.meta["rayllm.any"] = is_anything_set()
        found: bool = self.meta["rayllm.any"]
        return found

    def _is_hermetic(self) -> bool:
        return self._name in _HERMETIC and _HERMETIC[self._name](self._typed_params())

    def _setting(self, name: str) -> SettingValue | None:
        option = next((param for param in self.command.params if param.name == name), None)
        if not isinstance(option, click.Option) or not is_setting(option, self._name) or self._is_hermetic():
            return None
        excluded = _UNLESS.get(setting_name(option))
        if excluded is not None and self.excludes and excluded(self._typed_params()):
            return None
        from rayllm_ctl.cli.settings.sources import find_setting

        try:
            found = find_setting(setting_name(option), option, self)
        except UserError:
            if self.resilient_parsing:  # a completion, or a default on a help page
                return None
            raise
        if found is not None:
            self.meta.setdefault(TAKEN, {})[name] = found
        return found

    def _warn(self) -> None:
        from rayllm_ctl.cli.settings.sources import find_setting, unknown_variables

        flags = {setting_name(option): option for option in self.command.params if isinstance(option, click.Option)}
        for line in unknown_variables(self._name, flags):
            click.echo(line, err=True)
        if not self._is_hermetic():
            return
        ignored = []
        for name, option in flags.items():
            if name in _WITHOUT_EFFECT or not is_setting(option, self._name) or self._given(option):
                continue
            found = find_setting(name, option, self)
            if found is not None:
                ignored.append(f"{found.place} (--{name} {found.text})")
        if ignored:
            click.echo(f"ignored: {', '.join(ignored)}; {self._name} depends on its flags and files alone", err=True)

    def _typed_params(self) -> dict[str, Any]:
        """The values of flags on the command line, which Click reads before it asks for defaults."""
        source = self.get_parameter_source
        return {name: value for name, value in self.params.items() if source(name) is ParameterSource.COMMANDLINE}

    def _given(self, option: click.Option) -> bool:
        return self.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE

    def _explain(self) -> None:
        """Print where each value that is not a default is from."""
        taken, overridden = self.meta.get(TAKEN, {}), self._overridden()
        for option in self.command.params:
            if not isinstance(option, click.Option):
                continue
            name, found = setting_name(option), taken.get(option.name)
            if found is not None:
                if name not in overridden:
                    click.echo(f"--{name} {found.text}    # {found.place}", err=True)
            elif self._given(option):
                value = _typed(option, self.params.get(option.name or ""))
                click.echo(f"--{name} {value}".rstrip() + "    # command line", err=True)

    def _overridden(self) -> set[str]:
        """The names of settings that have no effect beside the spec file or other flags."""
        from rayllm_ctl.cli.settings.below import without_effect
        from rayllm_ctl.cli.settings.names import setting_fields

        fields = setting_fields()
        typed = {
            fields[setting_name(option)]: self.params.get(option.name or "")
            for option in self.command.params
            if isinstance(option, click.Option) and self._given(option) and fields.get(setting_name(option))
        }
        try:
            return without_effect(self.params.get("file"), typed)
        except UserError:
            return set()  # the command reports what is wrong with the file

    def _origins(self, error: UserError) -> list[str]:
        """Where the values are from that an error speaks of, if they were not typed."""
        text = "\n".join((error.message, *error.hints))
        lines = []
        for found in self.meta.get(TAKEN, {}).values():
            words = [f"--{found.name}", *([] if _is_short(found.text) else found.text.split())]
            said = any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in words)
            if said and found.place not in text:
                lines.append(f"--{found.name} {found.text} is from {found.place}")
        return lines


def _is_short(text: str) -> bool:
    """Whether a value may stand in a sentence by chance."""
    return len(text) < 3 or text.isdecimal() or text in ("true", "false", "auto")


def _typed(option: click.Option, value: Any) -> str:
    """The value of a flag that was typed. Values of variables for pods are not repeated: they may be secrets."""
    if option.is_flag:
        return ""
    if setting_name(option) in ("env", "engine-arg", "sampling-arg", "set"):
        return " ".join(f"{key}=***" for key, _ in value)
    values = value if option.multiple and isinstance(value, tuple) else (value,)
    return " ".join(map(str, values))
