from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "rayllm-ctl" / "e2e"


def write(text: str) -> Callable[[Path], None]:
    def make(out: Path) -> None:
        (out / "file").write_text(text)

    return make


def test_an_entry_is_made_once(own_cache: Path) -> None:
    first = cache.ensure("kind", "key-1.0", write("first"))
    again = cache.ensure("kind", "key-1.0", write("second"))
    assert first == again == own_cache / "kind" / "key-1.0" == cache.entry("kind", "key-1.0")
    assert (first / "file").read_text() == "first"


def test_another_key_is_another_entry() -> None:
    cache.ensure("kind", "1", write("one"))
    assert (cache.ensure("kind", "2", write("two")) / "file").read_text() == "two"


def test_a_failure_leaves_no_entry_and_no_work_directory(own_cache: Path) -> None:
    def fail(out: Path) -> None:
        (out / "half").write_text("half")
        raise RuntimeError("the compiler said no")

    with pytest.raises(RuntimeError, match="the compiler said no"):
        cache.ensure("kind", "key", fail)
    assert not cache.entry("kind", "key").exists()
    assert not list((own_cache / "kind").glob("*.making"))
    assert (cache.ensure("kind", "key", write("whole")) / "file").read_text() == "whole"


def _make_slowly(started: str) -> None:
    def make(out: Path) -> None:
        (out / "half").write_text("half")
        Path(started).touch()
        time.sleep(60)

    cache.ensure("kind", "key", make)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_killed_process_left_half_made_is_removed(tmp_path: Path, own_cache: Path) -> None:
    started = tmp_path / "started"
    maker = multiprocessing.get_context("fork").Process(target=_make_slowly, args=(str(started),))
    maker.start()
    _until(started.exists)
    # While it lives its work is left alone, also by those who make other entries.
    cache.ensure("kind", "other", write("other"))
    assert (own_cache / "kind" / ".key.making" / "half").exists()
    os.kill(maker.pid or 0, signal.SIGKILL)
    maker.join()
    cache.ensure("kind", "third", write("third"))
    assert not (own_cache / "kind" / ".key.making").exists()
    made = cache.ensure("kind", "key", write("whole"))
    assert sorted(path.name for path in made.iterdir()) == ["file"]


def _append(directory: str) -> None:
    def make(out: Path) -> None:
        with (Path(directory) / "calls").open("a") as calls:
            calls.write("x")
        time.sleep(0.2)
        (out / "file").write_text("made")

    cache.ensure("kind", "key", make)


def test_processes_that_want_the_same_entry_make_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    makers = [context.Process(target=_append, args=(str(tmp_path),)) for _ in range(3)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(10)
    assert [maker.exitcode for maker in makers] == [0, 0, 0]
    assert (tmp_path / "calls").read_text() == "x"


@pytest.mark.parametrize("key", ["", "..", ".hidden", "a/b", "a b", "/etc"])
def test_keys_that_are_no_file_names_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="not a plain file name"):
        cache.entry("kind", key)


def test_a_relative_cache_directory_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache.root() == Path("/home/someone/.cache/rayllm-ctl/e2e")
