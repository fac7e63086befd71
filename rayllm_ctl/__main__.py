"""`python -m rayllm_ctl`, `rayllm-ctl`, and `kubectl rayllm` through the executable kubectl-rayllm."""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import TYPE_CHECKING, NoReturn, TextIO

from rayllm_ctl.cli.completion.entry import complete_for_plugin, complete_for_shell

if TYPE_CHECKING:
    from typing_extensions import Buffer

_COLLECT_AFTER = 100_000
"""New objects between two runs of the garbage collector. At Python's 700 it runs dozens of times while modules are
imported, and finds nothing."""


def main() -> None:
    """Run the command line and exit with the code of the table in rayllm_ctl.errors."""
    try:
        _main()
    except KeyboardInterrupt:  # while modules are imported; `run` reports all others
        os.write(2, "✗ interrupted\n".encode())
        os._exit(130)


def _main() -> None:
    gc.set_threshold(_COLLECT_AFTER)
    _open_closed_streams()
    if complete_for_shell():
        _end(0)
    from rayllm_ctl.cli.app import run

    for stream in (sys.stdout, sys.stderr):
        # Arguments, YAML and JSON are UTF-8 whatever the locale and PYTHONIOENCODING say. Bytes of an argument that
        # are not UTF-8 become surrogates, which are escaped.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    name = os.path.basename(sys.argv[0])  # noqa: PTH119  pathlib takes 4 ms, and --help does without
    program = "kubectl rayllm" if name.startswith("kubectl-rayllm") else "rayllm-ctl"
    arguments = [os.fsencode(argument).decode("utf-8", "surrogateescape") for argument in sys.argv[1:]]
    codes: dict[str, int] = {}
    code = run(arguments, program, codes)
    _end(code, codes.get("failed"))


def complete_for_kubectl() -> None:
    """The executable kubectl_complete-rayllm, which kubectl asks for completions of `kubectl rayllm`."""
    gc.set_threshold(_COLLECT_AFTER)
    complete_for_plugin(sys.argv[1:])
    _end(0)


class _Discarded(io.FileIO):
    """A file that keeps nothing but whether something was written to it."""

    written = False

    def write(self, data: Buffer, /) -> int:
        self.written = True
        return memoryview(data).nbytes


def _open_closed_streams() -> None:
    """Discard the output to streams that are closed (`>&-`). No file opened later takes their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            os.set_inheritable(number, True)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Discarded(1, "w", closefd=False)))
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115


def _is_discarded(stream: TextIO) -> bool:
    """Whether a command has written to a stream that was closed from the start. Only then has it failed: `deploy`
    writes nothing there, and ends its work in either case."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, _Discarded) and raw.written


def _end(code: int, lost: int | None = None) -> NoReturn:
    """Exit with `code`, or, if an answer cannot be written, with `lost` (None: 1)."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        if _is_discarded(sys.stdout):
            raise ValueError("standard output is closed")
    except BrokenPipeError:  # what reads the output has ended, as `head` does
        os._exit(code)
    except (OSError, ValueError) as error:
        from rayllm_ctl.console.style import Printer
        from rayllm_ctl.errors import FAILED, OK, RULED_OUT

        Printer.for_error().error(f"the output cannot be written: {getattr(error, 'strerror', None) or error}")
        os._exit((lost or FAILED) if code in (OK, FAILED, RULED_OUT) else code)
    # Nothing is left to clean up, and Python takes ten times as long to do it as the rest of the exit.
    os._exit(code)


if __name__ == "__main__":
    main()
