"""Why a job ends early: a code that stands for the kind of failure, what failed, and what to do next."""

from __future__ import annotations

import re
from typing import Literal

from rayllm_ctl.serving.buckets.errors import bucket_of, first_line, meaning, missing_token

Code = Literal[
    "InvalidSpec",
    "InputMissing",
    "NoRows",
    "WrongFormat",
    "MissingColumn",
    "ColumnClash",
    "BadTemplate",
    "DuplicateKey",
    "MixedTypes",
    "AccessDenied",
    "OutputNotEmpty",
    "DiskFull",
    "ModelNotFound",
    "EngineFailed",
    "OutOfMemory",
    "Failed",
]

ANSWERED, ROW_ERRORS, REJECTED, FAILED = 0, 1, 2, 3
"""Exit codes: all rows answered; more row errors than allowed; the input was rejected; the job failed."""

_OUT_OF_MEMORY = re.compile(r"out ?of ?memory|CUDA error: out|No available memory for the cache|OOM", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"is not a local folder and is not a valid model|Repository Not Found|RepositoryNotFoundError|GatedRepoError"
    r"|Can't load the configuration of|couldn't connect to .* to load",
    re.IGNORECASE,
)
_ENGINE_CAUSES = re.compile(r"EngineCore|EngineDead|actor.*(died|failed)|the engine crashed|vllm", re.IGNORECASE)
_WRAPPED = re.compile(
    r"^The above exception was the direct cause|^During handling of the above exception", re.MULTILINE
)
"""What stands between an exception and the one that was raised because of it, whose text is Ray's advice."""


class BatchError(Exception):
    """Ends the job. `message` says what failed and why, `hint` what to do next."""

    def __init__(self, code: Code, message: str, hint: str, *, exit_code: int = REJECTED) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.exit_code = code, message, hint, exit_code


def of_storage(error: Exception, what: str) -> BatchError:
    """The BatchError of a failed access to storage; `what` is the path or URL."""
    text, kind = first_line(error), meaning(error)
    if kind == "no-token":
        return BatchError(
            "AccessDenied",
            f"access to {what} was denied: there are no credentials: {missing_token(error)}",
            "mount the key file of a service account and name it in GOOGLE_APPLICATION_CREDENTIALS of spec.engine.env, "
            "or for a public bucket set spec.storage.anonymous (--s3-anonymous)",
        )
    if kind == "no-space":
        return BatchError(
            "DiskFull", f"no space is left for {what}: {text}", "free space there, then submit again", exit_code=FAILED
        )
    if kind == "denied":
        return BatchError(
            "AccessDenied",
            f"access to {what} was denied: {text}",
            "check the credentials, or for a public bucket set spec.storage.anonymous (--s3-anonymous)",
        )
    if kind == "no-bucket":
        return no_bucket(what)
    if kind == "not-found":
        return BatchError("InputMissing", f"{what} was not found: {text}", "check the path and the bucket's name")
    return BatchError(
        "Failed",
        f"{what} cannot be read or written: {text}",
        "check that the pods reach it, then submit again",
        exit_code=FAILED,
    )


def no_bucket(path: str) -> BatchError:
    """The BatchError of a path in a bucket that does not exist."""
    return BatchError(
        "InputMissing", f"the bucket {bucket_of(path)} does not exist", "check its name, the endpoint and the region"
    )


def of_engine(error: BaseException) -> BatchError:
    """The BatchError of an exception that came out of Ray: the last line of the first exception names the cause."""
    text = str(error)
    first = _WRAPPED.split(text)[0].splitlines()
    last = next((line.strip() for line in reversed(first) if line.strip()), type(error).__name__)
    if _NO_MODEL.search(text):
        code: Code = "ModelNotFound"
        hint = "check the model's name, and for a gated model the Hugging Face token"
    elif _OUT_OF_MEMORY.search(text):
        code, hint = (
            "OutOfMemory",
            "lower spec.engine.maxNumSeqs or spec.engine.maxModelLen, or use larger or more GPUs",
        )
    elif _ENGINE_CAUSES.search(text):
        code, hint = "EngineFailed", "read the log above for the engine's own error, then submit again"
    else:
        code, hint = "Failed", "read the log above; submit again to continue with the rows that are missing"
    return BatchError(code, last, hint, exit_code=FAILED)
