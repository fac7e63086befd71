from __future__ import annotations

import threading

import pytest

from e2e.cluster import progress
from e2e.cluster.progress import Parts
from tests.clock import Clock


def test_a_line_tells_the_seconds_since_the_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    say = progress.to_stderr()
    clock.sleep(61.25)
    say("API server ready")
    assert capsys.readouterr() == ("", "  61.2 s  API server ready\n")


def test_what_takes_long_is_said_again_until_it_is_done() -> None:
    said: list[str] = []
    again = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 3:
            again.set()

    before = threading.active_count()
    with progress.repeating(say, "still building", seconds=0.01):
        assert again.wait(30)
    assert set(said) == {"still building"}
    assert threading.active_count() == before, "nothing can say it now"


def test_what_is_quick_is_not_said_again() -> None:
    said: list[str] = []
    with progress.repeating(said.append, "still building", seconds=60):
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
