from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from e2e.cluster import shell
from e2e.cluster.errors import RigError


def test_output_of_a_program_that_is_given_input(tmp_path: Path) -> None:
    assert shell.run(["cat"], stdin="text") == "text"
    assert shell.run(["pwd"], cwd=tmp_path).strip() == str(tmp_path)


def test_a_program_that_fails_is_quoted_at_its_end() -> None:
    noise = "; ".join(f"echo line{number} >&2" for number in range(50))
    with pytest.raises(RigError, match=r"failed with 3:\n(?s:.*)line49") as raised:
        shell.run(["sh", "-c", f"{noise}; exit 3"], hint="try again")
    assert "line10\n" not in raised.value.message
    assert raised.value.hint == "try again"


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(RigError, match="no-such-program is not installed"):
        shell.run(["no-such-program"])


def test_programs_that_threads_wait_for_can_be_ended() -> None:
    errors: list[RigError] = []

    def wait() -> None:
        try:
            shell.run(["sleep", "30"])
        except RigError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    deadline = time.monotonic() + 5
    while thread.is_alive() and time.monotonic() < deadline:
        shell.end_running()
        time.sleep(0.02)
    thread.join(0)
    assert not thread.is_alive()
    assert "sleep 30" in errors[0].message
