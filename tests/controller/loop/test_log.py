from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from rayllm_ctl.controller.loop.log import LOG, LogFormat, about, error_text, log_to
from rayllm_ctl.controller.types import Key
from rayllm_ctl.errors import UserError

KEY = Key("LLMService", "llm", "qwen")


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Leaves the loggers as they were."""
    root = logging.getLogger()
    urllib3 = logging.getLogger("urllib3")
    handlers, level, own, other = list(root.handlers), root.level, LOG.level, urllib3.level
    yield
    urllib3.setLevel(other)
    root.handlers[:], root.level = handlers, level
    LOG.setLevel(own)


def lines(form: LogFormat) -> list[str]:
    stream = io.StringIO()
    log_to(stream, form)
    LOG.info("applied %d objects", 4, extra=about(KEY))
    LOG.debug("not shown")
    LOG.error("first\n\n  second")
    logging.getLogger("urllib3.connectionpool").warning("not shown: the pool is full")
    logging.getLogger("asyncio").info("not shown")
    logging.getLogger("asyncio").warning("shown")
    return stream.getvalue().splitlines()


def test_text_is_a_line_for_each_message() -> None:
    without_times = [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", "", line) for line in lines("text")]
    assert without_times == [
        "info    llmservice/llm/qwen: applied 4 objects",
        "error   first second",
        "warning shown",
    ]


def test_json_is_an_object_for_each_message() -> None:
    found = [json.loads(line) for line in lines("json")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one.pop("time")) for one in found)
    assert found == [
        {"level": "info", "key": "llmservice/llm/qwen", "message": "applied 4 objects"},
        {"level": "error", "message": "first\n\n  second"},
        {"level": "warning", "message": "shown"},
    ]


def test_errors_for_users_are_shown_and_others_by_their_place() -> None:
    assert error_text(UserError("no quota", hint=("kubectl get quota", "ask"))) == (
        "no quota; hint: kubectl get quota; hint: ask"
    )
    assert error_text(KeyError("hf_token")) == "internal error: KeyError"


def test_a_traceback_is_never_part_of_a_line() -> None:
    stream = io.StringIO()
    log_to(stream, "text")
    try:
        raise ValueError("hf_token")
    except ValueError:
        LOG.exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "hf_token" not in stream.getvalue()
