"""The driver of a job: checks the input, runs the pipeline over the parts that are missing, and says how it went."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from rayllm_ctl.serving.batch import manifest, settings
from rayllm_ctl.serving.batch.collector import Collector
from rayllm_ctl.serving.batch.ending import stop_own_job
from rayllm_ctl.serving.batch.failures import ANSWERED, FAILED, REJECTED, ROW_ERRORS, BatchError, of_engine
from rayllm_ctl.serving.batch.inputs import sources
from rayllm_ctl.serving.batch.journal import Answers, Journal
from rayllm_ctl.serving.batch.outputs import Outputs, Totals
from rayllm_ctl.serving.batch.parts import Part
from rayllm_ctl.serving.batch.progress import Progress, say
from rayllm_ctl.serving.batch.readers import reader
from rayllm_ctl.serving.batch.settings import Settings
from rayllm_ctl.serving.batch.storage import Store
from rayllm_ctl.serving.batch.survey import survey


def main(path: str) -> int:
    """Run the job of a settings file. The exit code is one of failures."""
    code = _run(path)
    if code in (ROW_ERRORS, REJECTED):
        stop_own_job()
    return code


def _run(path: str) -> int:
    try:
        return run(settings.load(path))
    except BatchError as error:
        say({"event": "failed", "code": error.code, "message": error.message, "hint": error.hint})
        return error.exit_code
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        failure = of_engine(error)
        say({"event": "failed", "code": failure.code, "message": failure.message, "hint": failure.hint})
        return FAILED


def run(job: Settings) -> int:
    """Run a job. BatchError if it is rejected or fails."""
    with Progress() as progress:
        files = sources(job)
        store = Store(job.output.path, job.storage)
        prints = manifest.fingerprints(job, files)
        again = manifest.check(store, prints)
        progress.to("counting")
        source = reader(job)

        def counted(rows: int) -> None:
            progress.rows = rows

        plan = survey(job, source, files, counted)
        outputs = Outputs(job, store, source, plan)
        pending: list[tuple[int, Part]] = list(enumerate(plan.parts))
        if again:
            manifest.check_rows(store, plan)
            done = store.names()
            for _, part in pending:
                if outputs.name(part) in done:
                    outputs.summary(part, progress.resumed)
            pending = [(number, part) for number, part in pending if outputs.name(part) not in done]
        else:
            manifest.write(store, job, plan, prints)
        resumed = progress.resumed.rows
        totals = Totals(
            resumed,
            progress.resumed.errors,
            progress.resumed.prompt_tokens,
            progress.resumed.completion_tokens,
            list(progress.resumed.first_errors),
        )
        if pending:
            collector, journal = Collector(pending, outputs.write, totals), Journal(store, manifest.fingerprint(prints))
            known = _restore(collector, journal, {number for number, _ in pending}, progress)
            resumed = progress.resumed.rows
            pending = [(number, part) for number, part in pending if collector.is_open(number)]
            if pending:
                _ask(job, collector, journal, pending, known, progress)
    return _result(job, store, totals, resumed, progress.elapsed)


def _restore(collector: Collector, journal: Journal, pending: set[int], progress: Progress) -> Answers:
    """Take the answers that an earlier run has left of parts that are not in the output, and return them."""
    known = journal.recover(pending)
    for number, answers in known.items():
        for index, answer in answers.items():
            collector.restore(number, index, answer)
            progress.resumed.add("", answer)
        if not collector.is_open(number):
            journal.written(number)
    return known


def _ask(
    job: Settings,
    collector: Collector,
    journal: Journal,
    pending: list[tuple[int, Part]],
    known: Answers,
    progress: Progress,
) -> None:
    """Get the answers of all pending rows that are not known into the output."""
    progress.seen = collector.seen
    progress.to("starting")
    from rayllm_ctl.serving.batch.inference import pipeline

    for news in pipeline.answers(job, pending, {number: frozenset(answers) for number, answers in known.items()}):
        if news.engines:
            progress.to("running")
        for number, index, answer in news.answers:
            if not collector.add(number, index, answer):
                continue
            if collector.is_open(number):
                journal.add(number, index, answer)
            else:
                journal.written(number)
        if news.answers:
            progress.answered()
        journal.save_if_due()
    if collector.missing:
        raise BatchError(
            "Failed",
            f"{collector.missing} rows came back without an answer",
            "submit the job again: it does only what is missing",
            exit_code=FAILED,
        )


def _result(job: Settings, store: Store, totals: Totals, resumed: int, elapsed: float) -> int:
    result: dict[str, Any] = {
        "event": "result",
        "rows": totals.rows,
        "answered": totals.rows - totals.errors,
        "errors": totals.errors,
        "resumed": resumed,
        "promptTokens": totals.prompt_tokens,
        "completionTokens": totals.completion_tokens,
        "elapsedSeconds": round(elapsed, 1),
        "output": job.output.path,
        "firstErrors": totals.first_errors,
        "maxErrors": job.job.maxErrors,
    }
    store.write(manifest.RESULT, json.dumps(result, indent=1).encode())
    say(result)
    return ROW_ERRORS if totals.errors > job.job.maxErrors else ANSWERED
