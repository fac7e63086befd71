from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading

import pytest

from e2e.cluster import interrupt, processes, shell
from e2e.cluster.errors import RigError


def interrupted() -> None:
    """As Ctrl-C does, except that nothing is raised: the next step of Python runs the handler."""
    os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_is_raised_only_where_it_is_asked_for() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupt.noted(lambda: None):  # noqa: PT012
        interrupt.check()
        interrupted()
        reached = interrupt.pending()
        interrupt.check()
        raise AssertionError
    assert reached
    # Outside such a block all is as it was.
    interrupt.check()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_block_that_ends_without_asking_raises_it_too() -> None:
    with pytest.raises(KeyboardInterrupt), interrupt.noted(lambda: None):
        interrupted()


def test_what_fails_because_of_a_signal_counts_as_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt), interrupt.noted(lambda: None):  # noqa: PT012
        interrupted()
        raise RigError("etcd ended")
    with pytest.raises(RigError, match="etcd ended"), interrupt.noted(lambda: None):
        raise RigError("etcd ended")


def test_the_threads_of_a_pool_come_back_from_what_they_wait_for() -> None:
    """Programs, also those that start after the signal, and conditions."""
    asked = threading.Event()
    errors: list[BaseException | None] = []

    def program() -> None:
        while True:
            shell.run(["sleep", "30"])

    def holds() -> bool:
        asked.set()
        return False

    def condition() -> None:
        processes.wait(holds, "it", 30, [])

    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        interrupt.noted(shell.end_running),
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        waiting = [pool.submit(program), pool.submit(condition)]
        assert asked.wait(30)
        processes.wait(lambda: bool(shell._running), "the program", 30, [])
        interrupted()
        # The program alone would continue for 30 s.
        errors += [future.exception(20) for future in waiting]
    assert [type(error) for error in errors] == [KeyboardInterrupt] * 2


def test_a_second_signal_ends_the_process() -> None:
    text = """
import os, signal
from e2e.cluster import interrupt
with interrupt.noted(lambda: None):
    os.kill(os.getpid(), signal.SIGTERM)
    print(interrupt.pending(), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("continues")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "True\n")
