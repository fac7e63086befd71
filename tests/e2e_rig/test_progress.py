from __future__ import annotations

import re
import time

import pytest

from e2e.cluster.progress import Parts, repeating, to_stderr


def test_a_line_tells_the_seconds_since_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    say = to_stderr()
    time.sleep(0.11)
    say("API server ready")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r" +0\.[12] s  API server ready\n", captured.err)


def test_what_takes_long_is_said_again_until_it_is_done() -> None:
    said: list[str] = []
    with repeating(said.append, "still building", seconds=0.02):
        time.sleep(0.1)
    count = len(said)
    assert count >= 2
    assert set(said) == {"still building"}
    time.sleep(0.06)
    assert len(said) == count


def test_what_is_quick_is_not_said_again() -> None:
    said: list[str] = []
    with repeating(said.append, "still building", seconds=5):
        pass
    assert said == []


def test_a_part_that_is_ready_leaves_the_others() -> None:
    said: list[str] = []
    parts = Parts(said.append, ["kubernetes", "kuberay", "serving image"])
    parts("building kubernetes")
    parts.finish("kuberay")
    parts.finish("redis")  # It was there already.
    parts("still building kubernetes")
    parts.finish("kubernetes")
    parts.finish("serving image")
    assert said == [
        "[0/3] building kubernetes",
        "[1/3] kuberay is ready; remaining: kubernetes, serving image",
        "[1/3] still building kubernetes",
        "[2/3] kubernetes is ready; remaining: serving image",
        "[3/3] serving image is ready",
    ]
