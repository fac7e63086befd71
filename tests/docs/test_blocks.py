"""What the pages tell a reader to type works, or the page says why no test runs it.

`sh` is what a reader is to type; `console` also shows what is printed, after lines that begin with `$`. The comment
above a block is `<!-- not run: REASON -->`, or `<!-- file: NAME -->` for a text that later blocks of the page read.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.render.json_patch import json_patch
from rayllm_ctl.specfile.load import load_any
from tests.catalog.hubserver import CONFIG
from tests.docs.pages import BLOCKS, GENERATED, PAGES, ROOT, Block

LANGUAGES = {"python", "sh", "console", "json", "text", "yaml"}
LEFT_OUT = "…"
"""A line of a `console` block that stands for lines of the output."""

RUN = {
    page: [block for block in blocks if block.is_run or block.file is not None]
    for page, blocks in ((page, list(group)) for page, group in groupby(BLOCKS, lambda block: block.page))
    if any(block.is_run for block in blocks)
}


def test_every_block_has_a_language() -> None:
    unmarked = [b.where for b in BLOCKS if b.language not in LANGUAGES and not b.comment.startswith("session: ")]
    assert unmarked == []


def test_no_fence_is_indented() -> None:
    """Such a block would be none of those that are looked at here."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES if page not in GENERATED}
    assert [str(page) for page, text in texts.items() if re.search(r"^[ \t]+```", text, re.M)] == []


def test_blocks_for_a_shell_can_be_parsed() -> None:
    for block in BLOCKS:
        if block.language == "sh":
            done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block.where}: {done.stderr}"


def test_blocks_that_are_not_run_say_why() -> None:
    assert sum(block.is_run for block in BLOCKS) >= 10
    reasons = {block.where: block.comment for block in BLOCKS if block.comment.startswith("not run")}
    assert {where for where, reason in reasons.items() if not re.fullmatch(r"not run: .{5,}", reason)} == set()


def test_blocks_of_json_and_yaml_can_be_read() -> None:
    for block in BLOCKS:
        if block.language == "json":
            assert json.loads(block.text)
        elif block.language == "yaml" and "{%" not in block.text:  # which is a template
            list(yaml.safe_load_all(block.text))


def test_spec_files_in_pages_are_valid() -> None:
    specs = [
        (block, document)
        for block in BLOCKS
        if block.language == "yaml" and "{%" not in block.text
        for document in yaml.safe_load_all(block.text)
        if document.get("apiVersion", "").startswith("rayllm.io/")
    ]
    assert len(specs) >= 2
    for block, document in specs:
        assert load_any(json.dumps(document), source=block.where).name


def test_commands_that_pages_name_exist() -> None:
    known = {name for section in app.COMMANDS.values() for name in section}
    named = {
        (block.where, name)
        for block in BLOCKS
        for name in re.findall(r"\brayllm-ctl ([a-z][a-z-]*)\b(?![./])", block.text)
        if block.language in {"sh", "console", "text"}
    }
    assert {(where, name) for where, name in named if name not in known} == set()


def options(arguments: list[str]) -> set[str] | None:
    """The flags of the command that the arguments begin with and of the commands above it; None of a group."""
    found: click.Command = app.group
    known = {"--help"} | {name for option in found.params for name in (*option.opts, *option.secondary_opts)}
    for word in arguments:
        below = found.get_command(click.Context(found), word) if isinstance(found, click.Group) else None
        if below is None:
            break
        found = below
        known |= {name for option in found.params for name in (*option.opts, *option.secondary_opts)}
    return None if isinstance(found, click.Group) else known


def test_flags_that_pages_name_exist() -> None:
    """Also in blocks that are not run."""
    unknown, seen = [], 0
    for block in BLOCKS:
        if block.language not in {"sh", "console"}:
            continue
        for line in re.findall(r"\brayllm-ctl ((?:[^\n|#&>]|\\\n)*)", block.text):
            arguments = re.findall(r"[^\s=]+", line)
            known = options(arguments)
            if known is None:
                continue
            named = {word for word in arguments if re.fullmatch(r"--[a-z][a-z-]*", word)}
            seen += len(named)
            unknown += [f"{block.where}: rayllm-ctl {arguments[0]} {flag}" for flag in named - known]
    assert seen > 100
    assert unknown == []


def without_a_shell(text: str) -> list[list[str]] | None:
    """The arguments of rayllm-ctl, line by line; None where a line is for a shell."""
    uncommented = re.sub(r"(?:^|\s)#.*", "", text, flags=re.M)
    lines = [shlex.split(line) for line in uncommented.splitlines() if line]
    if re.search(r"[|<>&;$`*\\]", uncommented) or any(program != "rayllm-ctl" for program, *_ in lines):
        return None
    return [arguments for _, *arguments in lines]


def in_a_shell(text: str) -> subprocess.CompletedProcess[str]:
    """Run it as somebody does who stays in the directory to which it changes."""
    before = f"trap 'pwd > {shlex.quote(os.environ['WHERE'])}' EXIT\n"
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", before + text], env=environment, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def shown(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a `console` block with what it shows of their output."""
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.rstrip()


def matches(printed: str, expected: str) -> bool:
    """Whether the output is what is shown, with any lines in place of those that are left out."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line == LEFT_OUT else re.escape(line) + r"[ ]*\n" for line in expected.splitlines()
    )
    return re.fullmatch(pattern, printed.rstrip() + "\n") is not None


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_shell_blocks_work(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As typed, one after another in one terminal; no network: the catalog stands in for the Hub."""
    where = tmp_path / ".where"
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my-model" / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for folder in ("manifests", "charts"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("WHERE", str(where))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.org")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    for block in RUN[page]:
        if block.file is not None:
            (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command, expected in shown(block):
                printed = in_a_shell(f"{command} || true").stdout
                assert matches(printed, expected), f"{block.where}: {command}\n{printed}"
        elif (commands := without_a_shell(block.text)) is not None:
            for arguments in commands:
                assert app.run(arguments) == 0, f"{block.where}: {arguments}\n{capsys.readouterr()}"
        else:
            done = in_a_shell(block.text)
            assert done.returncode == 0, f"{block.where}\n{done.stdout}"
            monkeypatch.chdir(where.read_text(encoding="utf-8").strip())


def overlays() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each patch of a RayService in a kustomization of the pages and of manifests/."""
    texts = [(block.where, block.text) for block in BLOCKS if "kind: Kustomization" in block.text]
    texts += [
        (str(file), file.read_text(encoding="utf-8")) for file in (ROOT / "manifests").rglob("kustomization.yaml")
    ]
    for where, text in texts:
        for document in yaml.safe_load_all(text):
            if isinstance(document, Mapping) and document.get("kind") == "Kustomization":
                patches = [one for one in document.get("patches") or () if one["target"]["kind"] == "RayService"]
                yield from ((where, one) for one in patches)


def test_overlays_of_a_rayservice_change_what_its_serve_configuration_does_not_repeat() -> None:
    """A worker group with more replicas than `serveConfigV2` allows never gets them."""
    text = (ROOT / "manifests/kustomize/base/rayservice.yaml").read_text(encoding="utf-8")
    base = next(one for one in yaml.safe_load_all(text) if one["kind"] == "RayService")

    def bounds(service: Mapping[str, Any]) -> list[tuple[int, int]]:
        groups = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        return [(group["minReplicas"], group["maxReplicas"]) for group in groups]

    found = list(overlays())
    assert len(found) >= 3
    for where, one in found:
        patched = json_patch(base, yaml.safe_load(one["patch"]))
        assert patched != base, where
        assert bounds(patched) == bounds(base), where
