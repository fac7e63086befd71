"""What remains of a traceback, and what it stands for."""

from __future__ import annotations

import pytest

from rayllm_ctl.health.sentences.classify import classify
from rayllm_ctl.health.sentences.exceptions import last_line, one_line, read_exceptions, read_failure, reason


def test_the_last_exception_of_nested_tracebacks_counts() -> None:
    failure = read_failure(
        "ray.exceptions.RayTaskError(RuntimeError): ray::build() (pid=1)\n"
        "RuntimeError: Traceback (most recent call last):\n"
        '  File "a.py", line 1, in build\n'
        "    raise ValueError(x)\n"
        "ValueError: no such option\n"
    )
    assert failure is not None
    assert failure.text == "ValueError: no such option"
    assert failure.code == "ApplicationFailed"


def test_an_exception_keeps_its_further_lines_but_not_the_advertisement() -> None:
    failure = read_failure(
        "pydantic_core.ValidationError: 1 validation error for LLMConfig\n"
        "accelerator_type\n"
        "  Value error, Unsupported accelerator type: NOTAGPU\n"
        "    For further information visit https://errors.pydantic.dev/2.14/v/value_error\n"
    )
    assert failure is not None
    assert failure.text.endswith("accelerator_type Value error, Unsupported accelerator type: NOTAGPU")


def test_text_without_an_exception_is_no_failure() -> None:
    assert read_failure("The deployment is UPDATING.\n  File 'x', line 3") is None


def test_the_root_in_a_log_is_not_what_only_points_at_it() -> None:
    failure = read_exceptions(
        "(Worker_TP1 pid=9) ERROR 03-01 12:00:00 [mp.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\n"
        "(EngineCore_DP0 pid=8) ERROR 03-01 12:00:01 [core.py:2] RuntimeError: WorkerProc initialization failed due "
        "to an exception in a background process. See root cause above.\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    assert failure is not None
    assert failure.code == "EngineOutOfMemory"
    assert failure.text == "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"


def test_a_log_of_deaths_alone_has_no_root() -> None:
    assert (
        read_exceptions("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.")
        is None
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ValueError: No available memory for the cache blocks. Try increasing", "EngineOutOfMemory"),
        ("ValueError: Free memory on device cuda:0 (3.2/23.4 GiB) is less than desired", "EngineOutOfMemory"),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error.", "ModelAccessDenied"),
        ("huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. Repository Not Found", "ModelNotFound"),
        ("requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://hub/x", "ModelAccessDenied"),
        ("OSError: org/m does not appear to have a file named config.json", "ModelNotFound"),
        ("FileNotFoundError: No such model directory: /models/x", "ModelNotFound"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/srv/prompts.txt'", "ApplicationFailed"),
        ("ModuleNotFoundError: No module named 'gateway'", "ApplicationFailed"),
        ("ray.exceptions.OutOfMemoryError: 1 worker(s) were killed", "OOMKilled"),
        ("AssertionError: 32 heads must be divisible by tensor parallel size 3", "ApplicationFailed"),
    ],
)  # fmt: skip
def test_what_an_exception_stands_for(text: str, code: str) -> None:
    assert classify(text) == code


def test_the_line_that_says_most_of_a_containers_log() -> None:
    assert last_line("starting\nError: bad flag\nUsage: x\n  -a string\n") == "Error: bad flag"
    assert last_line("one\ntwo\n\n") == "two"
    assert last_line("") == ""


VALIDATION = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (9) is greater than the derived max_model_len (max_position_embeddings=4 \
or model_max_length=None in model's config.json). [type=value_error, input_value=ArgsKwargs((), {'model': 'org/m', \
'hf_token': 'x'}), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""


def test_the_line_below_a_validation_error_is_the_cause() -> None:
    failure = read_failure(VALIDATION)
    assert failure is not None
    assert reason(failure.text).startswith("ModelConfig: User-specified max_model_len (9) is greater than the derived")
    assert last_line(f"INFO starting\n{VALIDATION}INFO stopped\n") == reason(failure.text)
    assert "input_value" not in failure.text


def test_no_token_survives() -> None:
    assert one_line("401 for hf_abcdefghijklmnopqrstuvwx, Authorization: Bearer abc.def") == (
        "401 for ***, Authorization: Bearer ***"
    )
    failure = read_failure("ValueError: bad token hf_abcdefghijklmnopqrstuvwx")
    assert failure is not None
    assert "hf_" not in failure.text
