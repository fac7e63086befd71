"""What a user reads of errors that come from libraries."""

from __future__ import annotations

import pytest

from rayllm_ctl.serving.batch.failures import of_engine, of_storage

GCS = (
    "google::cloud::Status({}: Retry policy exhausted, with a last message of Could not create a OAuth2 access token "
    "to authenticate the request. Learn more at https://cloud.google.com. The underlying error message was: {} "
    "error_info={{reason=, domain=}})"
)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            "When listing: AWS Error ACCESS_DENIED during ListObjectsV2 operation",
            "AccessDenied",
            "s3://b/in was denied",
        ),
        (
            "AWS Error UNKNOWN (HTTP status 404): No user exists with the provided access key ID",
            "AccessDenied",
            "denied",
        ),
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2", "InputMissing", "the bucket s3://b does not exist"),
        (
            GCS.format("UNKNOWN", "Cannot open credentials file /key"),
            "AccessDenied",
            "Cannot open credentials file /key",
        ),
        (GCS.format("UNAVAILABLE", "Could not resolve hostname"), "AccessDenied", "there are no credentials"),
    ],
)
def test_storage(text: str, code: str, words: str) -> None:
    failure = of_storage(OSError(text), "s3://b/in")
    assert (failure.code, failure.exit_code) == (code, 2)
    assert words in failure.message
    assert "error_info" not in failure.message


def test_an_error_of_gcs_that_is_no_oserror() -> None:
    import pyarrow as pa

    from rayllm_ctl.serving.batch.failures import BatchError
    from rayllm_ctl.serving.batch.storage import storage_errors

    with pytest.raises(BatchError, match="no credentials"), storage_errors("gs://b/in"):
        raise pa.ArrowException(GCS.format("UNKNOWN", "Cannot open credentials file /key"))
    with pytest.raises(pa.ArrowInvalid), storage_errors("gs://b/in"):
        raise pa.ArrowInvalid("not Parquet")


RAY = """ray::MapWorker(MapBatches(EngineStage)).submit() (pid=1, ip=10.0.0.1)
  File "stage.py", line 63, in udf
{}
The above exception was the direct cause of the following exception:
ray::MapWorker(MapBatches(EngineStage)).submit() (pid=1, ip=10.0.0.1)
ray.exceptions.UserCodeException: UDF failed to process a data block.
To change retry attempts, configure `ray.data.DataContext.get_current()`."""


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("TypeError: an integer is required", "Failed"),
        ("RuntimeError: the engine crashed 20 times in a row without answering a row", "EngineFailed"),
        ("torch.OutOfMemoryError: CUDA out of memory", "OutOfMemory"),
    ],
)
def test_the_cause_is_named_and_not_the_advice_of_ray(line: str, code: str) -> None:
    failure = of_engine(RuntimeError(RAY.format(line)))
    assert (failure.code, failure.message, failure.exit_code) == (code, line, 3)
