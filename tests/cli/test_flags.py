"""Flags that mean the same have the same name, form and values in every command."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from rayllm_ctl.cli.app import group
from tests.cli.conftest import Deploy, Run
from tests.cluster.fakeapi import FakeAPI

OF_CLUSTERS = {
    "--namespace": ["-n", "--namespace"],
    "--kubeconfig": ["--kubeconfig"],
    "--context": ["--context"],
    "--as": ["--as"],
    "--as-group": ["--as-group"],
    "--request-timeout": ["--request-timeout"],
}
SHOWN = ["table", "wide", "json", "yaml"]
FORMATS = {
    "shows something": SHOWN,
    "shows objects": [*SHOWN, "name"],
    "changes something": ["json", "yaml", "name"],
    "follows something, or prints a line": ["json", "yaml"],
    "prints manifests": ["yaml", "json", "name"],
    "diff": ["diff", "markdown", "json", "yaml"],
    "check": ["table", "short", "json", "yaml"],
}
WITHOUT_FORMAT = {
    "bench report": "writes a file",
    "bundle": "writes a file",
    "batch download": "writes files",
    "batch head": "prints rows of the output as JSON Lines",
    "batch init": "prints a spec file with comments",
    "batch logs": "prints a log",
    "logs": "prints logs",
    "chat": "prints an answer as it comes",
    "dashboard": "forwards a port",
    "port-forward": "forwards a port",
    "completion": "prints a shell script",
    "config path": "prints a path",
    "config set": "changes a file of this machine",
    "config unset": "changes a file of this machine",
    "help": "prints a help page",
    "image recipe": "prints a Dockerfile",
    "init": "prints a spec file with comments",
    "serve-config": "prints a configuration file of Ray Serve",
    "controller": "runs in the cluster",
}


def walk(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    for below in command.list_commands(click.Context(command)):
        found = command.get_command(click.Context(command), below)
        assert found is not None
        yield from walk(found, f"{name} {below}".strip())


COMMANDS = dict(walk(group))


def options(name: str) -> dict[str, click.Option]:
    """The options of a command by their longest name."""
    return {max(one.opts, key=len): one for one in COMMANDS[name].params if isinstance(one, click.Option)}


@pytest.mark.parametrize("name", [name for name in COMMANDS if "--context" in options(name) and name != "controller"])
def test_commands_that_ask_a_cluster_have_the_flags_of_kubectl(name: str) -> None:
    found = options(name)
    assert {flag: found[flag].opts for flag in OF_CLUSTERS if flag in found} == OF_CLUSTERS


@pytest.mark.parametrize("name", COMMANDS)
def test_formats_are_the_same_everywhere(name: str) -> None:
    output = options(name).get("--output")
    if name in WITHOUT_FORMAT:
        assert output is None or isinstance(output.type, click.Path)
        return
    assert output is not None
    assert output.opts == ["-o", "--output"]
    assert isinstance(output.type, click.Choice)
    assert list(output.type.choices) in FORMATS.values()


def test_files_and_namespaces_have_one_flag() -> None:
    for name in COMMANDS:
        for flag, option in options(name).items():
            if flag in ("--file", "--namespace"):
                assert option.opts == [flag[1:3], flag], name
            if "-n" in option.opts:
                assert flag == "--namespace", name
            # events and logs follow kubectl, where -f is --follow.
            if "-f" in option.opts:
                assert flag == ("--follow" if name in ("events", "logs", "batch logs") else "--file"), name


def test_bounds_of_replicas_are_called_the_same() -> None:
    for name in COMMANDS:
        assert not {"--min", "--max"} & options(name).keys(), name
    assert {"--min-replicas", "--max-replicas"} <= options("scale").keys() & options("deploy").keys()


def test_a_dry_run_is_no_switch() -> None:
    found = {name: options(name)["--dry-run"].type for name in COMMANDS if "--dry-run" in options(name)}
    assert len(found) > 5
    for name, kind in found.items():
        assert isinstance(kind, click.Choice), name
        assert [one for one in ("none", "client", "server") if one in kind.choices] == list(kind.choices), name
        assert {"none", "server"} <= set(kind.choices), name


def test_requests_are_made_as_another_user(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy("--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--max-model-len", "1024",
           "--max-replicas", "1", "--image", "example.com/vllm-cpu:1", "-n", "llm")  # fmt: skip
    api.requests.clear()
    assert run("status", "tiny", "-n", "llm", "--as", "alice", "--as-group", "a", "--as-group", "b").code == 0
    found = {(one.headers.get("Impersonate-User"), one.headers.get("Impersonate-Group")) for one in api.requests}
    assert found == {("alice", "a, b")}


def test_a_group_needs_a_user(run: Run) -> None:
    result = run("status", "--as-group", "a")
    assert result.code == 2
    assert "--as-group requires --as" in result.err
