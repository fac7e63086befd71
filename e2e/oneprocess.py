"""Commands in one process, for tests that run dozens of them: each process would import the same modules again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from e2e.harness import Result

_LOOP = """
import contextlib, io, json, sys
from rayllm_ctl.cli.app import run
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(json.loads(line))
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""
"""Runs the command line with the arguments in each line of standard input."""

_LIMIT_SECONDS = 420.0


class OneProcess:
    """A process that runs rayllm-ctl commands one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *args: str, code: int | None = 0) -> Result:
        """rayllm-ctl with `args`; asserts its exit code unless `code` is None."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        begin = time.monotonic()
        # A command that hangs ends with its process, and so without an answer.
        limit = threading.Timer(_LIMIT_SECONDS, self._process.kill)
        limit.start()
        try:
            self._process.stdin.write(f"{json.dumps(args)}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        finally:
            limit.cancel()
        assert answer, f"rayllm-ctl {' '.join(args)}: no answer of its process"
        ended, out, err = json.loads(answer)
        result = Result(args, ended, out, err, time.monotonic() - begin)
        assert "Traceback" not in result.err, str(result)
        if code is not None:
            assert result.code == code, str(result)
        return result


@contextmanager
def one_process(environment: Mapping[str, str]) -> Iterator[OneProcess]:
    """Such a process, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", _LOOP], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield OneProcess(process)
    finally:
        process.kill()
        process.wait()
