"""Every rule about batch jobs against samples, and that no code lacks a sample and a word in the documentation."""

from __future__ import annotations

import dataclasses
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.health import diagnose_job
from rayllm_ctl.health.diagnosejob import ENDING_RULES, REMARK_RULES, WAITING_RULES
from rayllm_ctl.health.jobcontext import JobContext
from rayllm_ctl.health.rules.jobs import job
from rayllm_ctl.health.rules.jobs import remarks as jobremarks
from rayllm_ctl.model.observed.batch_progress import CODES as DRIVER_CODES
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobOutcome, JobState
from rayllm_ctl.model.text.json_form import to_json
from tests.health.cases import NAME, NAMESPACE, SAMPLES, expected, job_folders, load_case
from tests.health.test_robustness import mutated
from tests.health.test_rules import CODES as SERVICE_CODES
from tests.health.test_rules import DOCUMENT

CODES = DRIVER_CODES | {
    "BackoffLimitExceeded", "ClusterNotFound", "DeadlineExceeded", "DriverLost", "JobStopped",
    "PreRunningDeadlineExceeded", "Retrying", "SubmitterFailed", "Suspended", "TooManyRowErrors",
}  # fmt: skip
"""The stable words of `batch status -o json` beside those of services."""


def read(name: str) -> BatchHealth:
    return diagnose_job(load_case(SAMPLES / f"job-{name}"), NAME, NAMESPACE)


@pytest.mark.parametrize("folder", job_folders(), ids=lambda folder: folder.name)
def test_sample(folder: Path) -> None:
    want = expected(folder)
    health = diagnose_job(load_case(folder), NAME, NAMESPACE)
    told = f"{health.state}: {health.message}\n" + "\n".join(map(str, health.causes))
    assert health.state.value == want["state"], told
    assert [cause.code for cause in health.causes] == want.get("codes", []), told
    for cause in health.causes:
        assert cause.evidence, f"{cause.code} quotes no evidence"
        assert cause.hint, f"{cause.code} says nothing to type"
    first = health.causes[0] if health.causes else None
    assert first is None or first.terminal is want.get("terminal", first.terminal), told
    assert first is None or first.object == want.get("object", first.object), told
    for words in want.get("says", []):
        assert words in told, f"{words!r} is not in\n{told}"
    for words in want.get("hints", []):
        assert first is not None
        assert any(words in str(hint) for hint in first.hint), f"{words!r} is not in {first.hint}"


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("succeeded", JobOutcome.ANSWERED),
        ("succeeded-and-its-log-is-gone", JobOutcome.ANSWERED),
        ("too-many-row-errors", JobOutcome.TOO_MANY_ERRORS),
        ("driver-missing-column", JobOutcome.REJECTED),
        ("driver-failed-by-the-message-alone", JobOutcome.REJECTED),
        ("deadline", JobOutcome.FAILED),
        ("retrying", None),
        ("running", None),
        ("waits-for-gpus", None),
    ],
)
def test_how_it_ended(name: str, outcome: JobOutcome | None) -> None:
    assert read(name).outcome is outcome


def test_figures_of_a_job_that_runs() -> None:
    health = read("running")
    assert health.progress is not None
    assert (health.progress.rows, health.progress.done, health.progress.errors) == (2000, 500, 3)
    assert health.output == "s3://bucket/answers"
    assert [node.kind for node in health.tree] == ["head", "worker", "submitter"]
    assert read("second-attempt").attempt == 2


def test_only_a_job_that_does_nothing_is_terminal_cause() -> None:
    stuck = read("submitter-image-not-found")
    assert stuck.terminal_cause is not None
    running = read("running")
    assert dataclasses.replace(running, causes=stuck.causes).terminal_cause is None
    assert read("waits-for-gpus").terminal_cause is None


@pytest.mark.parametrize(
    "rule", [*ENDING_RULES, *WAITING_RULES, *REMARK_RULES, jobremarks.job_head_down, job.ended_without_a_word],
    ids=lambda rule: rule.__name__,
)  # fmt: skip
def test_every_rule_has_a_sample(rule) -> None:  # type: ignore[no-untyped-def]
    contexts = (JobContext(load_case(folder), NAME, NAMESPACE) for folder in job_folders())
    assert any(rule(context) is not None for context in contexts)


def test_every_code_has_a_sample() -> None:
    seen = {code for folder in job_folders() for code in expected(folder).get("codes", [])}
    assert seen - SERVICE_CODES == CODES - SERVICE_CODES


def test_every_code_is_documented() -> None:
    causes = DOCUMENT.read_text(encoding="utf-8").partition("## Causes of batch jobs")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", causes, re.M)) == CODES


@given(folder=st.sampled_from(job_folders()), seed=st.integers(0, 2**32), share=st.sampled_from((0.01, 0.05, 0.3)))
def test_odd_objects_never_raise(folder: Path, seed: int, share: float) -> None:
    chance = random.Random(seed)
    whole = load_case(folder)
    objects = tuple(mutated(item, share, chance) for item in whole.objects)
    health = diagnose_job(dataclasses.replace(whole, objects=objects), NAME, NAMESPACE)
    assert to_json(health)["state"] in [state.value for state in JobState]


@pytest.mark.parametrize(("name", "since"), [("job-succeeded", "12:09:52"), ("job-running", "12:08:40")])
def test_since_is_when_the_present_state_began(name: str, since: str) -> None:
    """Not when the job began, nor how long it took."""
    case = load_case(SAMPLES / name)
    for item in case.objects:
        if item["kind"] == "RayJob":
            item["status"]["rayJobInfo"] = {"startTime": "2026-03-01T12:08:40Z"}
    assert f"{diagnose_job(case, NAME, NAMESPACE).since:%H:%M:%S}" == since
