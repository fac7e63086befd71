"""`python -m rayllm_ctl.serving.storage download|wait --settings FILE`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable

from rayllm_ctl.serving.storage import settings
from rayllm_ctl.serving.storage.download import download
from rayllm_ctl.serving.storage.events import say_failed
from rayllm_ctl.serving.storage.failures import DONE, StorageError
from rayllm_ctl.serving.storage.wait import wait


def main() -> int:
    """Run the command of the arguments. The exit code is one of failures."""
    parser = argparse.ArgumentParser(prog="rayllm-storage", description="Download a model, or wait until it is there.")
    commands = parser.add_subparsers(dest="command", required=True)
    downloads = commands.add_parser("download", help="download a model")
    downloads.add_argument("--verify", action="store_true", help="read and verify the files of a complete folder too")
    waits = commands.add_parser("wait", help="wait until a model is complete")
    for command in (downloads, waits):
        command.add_argument("--settings", required=True, help="a JSON file")
    given = parser.parse_args()
    if given.command == "wait":
        return _run(lambda: wait(settings.load_settings(given.settings)))
    return _run(lambda: download(settings.load_settings(given.settings), verify=given.verify))


def _run(call: Callable[[], None]) -> int:
    try:
        call()
    except StorageError as error:
        say_failed(error)
        return error.exit_code
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        unexpected = StorageError("DownloadFailed", f"{type(error).__name__}: {error}", "read the log above")
        say_failed(unexpected)
        return unexpected.exit_code
    return DONE


def _end(code: int) -> None:
    """End at once: threads may wait for servers. Files are left as they are, and the next run continues them."""
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: _end(128 + number))
    _end(main())
