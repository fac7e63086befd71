"""Hints name the cluster and the namespace that were typed."""

from __future__ import annotations

import pytest

from rayllm_ctl.cli import app
from rayllm_ctl.cli.parsing.pasted import with_flags_typed
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (("-n", "other"), "rayllm-ctl scale x --max-replicas 4 -n other"),
        (("-n", "a", "--context", "test"), "rayllm-ctl scale x --max-replicas 4 -n a --context test"),
        (("--as", "bob smith", "--as-group", "g", "--as-group", "h"),
         "rayllm-ctl scale x --max-replicas 4 --as 'bob smith' --as-group g --as-group h"),
        ((), "rayllm-ctl scale x --max-replicas 4"),
    ],
)  # fmt: skip
def test_a_hint_has_the_cluster_and_the_namespace_that_were_typed(flags: tuple[str, ...], hint: str, run: Run) -> None:
    assert run("scale", "x", *flags).err.endswith(f"\nhint: {hint}\n")


def test_bounds_given_twice_lead_to_commands_with_one_of_the_forms(run: Run) -> None:
    assert run("scale", "x", "--replicas", "2", "--max-replicas", "4", "-n", "a").err.endswith(
        "\nhint: rayllm-ctl scale x --replicas 2 -n a\n"
        "      rayllm-ctl scale x --min-replicas 2 --max-replicas 4 -n a\n"
    )


@pytest.mark.parametrize(
    ("hint", "pasted"),
    [
        ("rayllm-ctl deploy -f FILE    # later", "rayllm-ctl deploy -f FILE -n a --context prod    # later"),
        ("rayllm-ctl status x -n b", "rayllm-ctl status x -n b --context prod"),
        ("rayllm-ctl keys list x    # all", "rayllm-ctl keys list x -n a --context prod    # all"),
        ("rayllm-ctl scale --help", "rayllm-ctl scale --help"),
        ("rayllm-ctl gpus", "rayllm-ctl gpus"),
        ("rayllm-ctl render -f FILE > new.yaml", "rayllm-ctl render -f FILE -n a > new.yaml"),
        ("kubectl get pods -n b", "kubectl --context prod get pods -n b"),
        ("--model NAME", "--model NAME"),
    ],
)
def test_which_hints_are_completed(hint: str, pasted: str) -> None:
    with app.group.make_context("rayllm-ctl", ["status"]) as root:
        status = app.group.get_command(root, "status")
        assert status is not None
        with status.make_context("status", ["x", "-n", "a", "--context", "prod"], parent=root) as ctx:
            assert with_flags_typed([hint], ctx) == (pasted,)
