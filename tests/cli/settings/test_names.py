"""A setting means the same for every command that has its flag."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click

from rayllm_ctl.cli import app
from rayllm_ctl.cli.settings.names import (
    OTHER_MEANING,
    is_setting,
    setting_fields,
    setting_name,
    setting_options,
    variable,
)

SAME_IN_OTHER_WORDS = {
    ("controller", "kubeconfig"), ("controller", "namespace"), ("controller", "offline"), ("adopt", "offline"),
    ("apply", "offline"), ("check", "offline"), ("init", "namespace"), ("render", "namespace"), ("rbac", "namespace"),
    ("batch submit", "kuberay-version"), ("deploy", "kuberay-version"),
    ("gpus", "prices"), ("plan", "namespace"), ("batch init", "namespace"), ("fetch", "image"),
}  # fmt: skip


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_flags_of_one_name_are_one_setting_or_declared_to_mean_something_else() -> None:
    known, foreign = setting_options(), defaultdict(set)
    for path, command in commands(app.group):
        for option in command.params:
            name = setting_name(option)
            if not isinstance(option, click.Option) or name not in known:
                continue
            same = option.help == known[name].help and option.type.name == known[name].type.name
            if is_setting(option, path):
                assert same or (path, name) in SAME_IN_OTHER_WORDS, (path, name)
            else:
                foreign[path].add(name)
                assert not same or path in ("batch init", "batch submit"), (path, name)
    assert foreign.keys() == OTHER_MEANING.keys()


def test_every_setting_has_a_flag_and_a_variable_of_its_name() -> None:
    assert setting_options().keys() == setting_fields().keys()
    assert variable("hf-token-secret") == "RAYLLM_HF_TOKEN_SECRET"
    assert {"namespace", "gpu", "image", "offline", "hf-token-secret"} <= setting_fields().keys()


def test_what_may_be_a_secret_is_no_setting() -> None:
    assert setting_fields().keys() & {"env", "engine-arg", "api-key-file", "model", "name"} == set()
