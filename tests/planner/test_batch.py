"""What a batch job adds to the plan of its engine."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rayllm_ctl.model.plan.batch import BatchPlan
from rayllm_ctl.model.spec.batch import BatchJob, BatchLoad, BatchModel, Concurrency, Input, Job, Output
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.model_storage import Mirror, MirrorClaim, MirrorTarget, ModelClaim, ModelStorage
from rayllm_ctl.model.spec.service import Accelerator, Engine
from rayllm_ctl.planner.batch.batch import BATCHES
from rayllm_ctl.workflows.render.batch import make_batch_plan

JOB = BatchJob(
    "job",
    BatchModel("meta-llama/Llama-3.1-8B-Instruct"),
    Input(paths=("s3://b/in.txt",)),
    Output("s3://b/out"),
    accelerator=Accelerator(gpu="H100-80GB"),
    engine=Engine(max_model_len=8192),
    load=BatchLoad(rows=100_000, input_tokens=1000, output_tokens=200),
)


def planned(**changes: Any) -> BatchPlan:
    return make_batch_plan(dataclasses.replace(JOB, **changes), OFFLINE)


def test_time_and_cost_follow_from_the_planned_rate() -> None:
    one, four = planned(), planned(concurrency=Concurrency(max=4))
    assert one.estimate is not None
    assert four.estimate is not None
    assert one.plan.throughput is not None
    assert one.plan.startup is not None
    rate, start = one.plan.throughput.at_load.requests_per_second.typical, one.plan.startup.total.typical
    assert one.estimate.seconds.typical == pytest.approx(start + 100_000 / rate)
    assert four.estimate.seconds.typical == pytest.approx(start + 25_000 / rate)
    assert one.estimate.seconds.low < one.estimate.seconds.typical < one.estimate.seconds.high
    # Four replicas cost four times as much while they start, and as much for the rows.
    assert one.estimate.cost is not None
    assert four.estimate.cost is not None
    assert 1 < four.estimate.cost.typical / one.estimate.cost.typical < 1.5


def test_a_job_with_a_mirror_takes_as_long_as_its_download_more() -> None:
    claim = ModelStorage(claim=ModelClaim("weights"))
    mirror = ModelStorage(mirror=Mirror(MirrorTarget(claim=MirrorClaim("weights"))))
    read, mirrored = (planned(storage=dataclasses.replace(JOB.storage, model=one)) for one in (claim, mirror))
    assert read.estimate is not None
    assert mirrored.estimate is not None
    assert mirrored.plan.startup is not None
    job = mirrored.plan.startup.model_download
    assert job is not None
    assert mirrored.estimate.seconds.typical == pytest.approx(read.estimate.seconds.typical + job.typical)


def test_the_load_of_a_row_is_what_is_sampled() -> None:
    plan = planned(load=BatchLoad(rows=10), sampling=dataclasses.replace(JOB.sampling, max_tokens=77))
    assert plan.plan.throughput is not None
    assert plan.plan.throughput.load.output_tokens == 77


def test_a_limit_of_answers_above_the_context_is_named() -> None:
    limit = "the context of 8,192 tokens ends answers before the limit of 8,193 (sampling.maxTokens)"
    above, equal = (
        planned(sampling=dataclasses.replace(JOB.sampling, max_tokens=number)).plan for number in (8193, 8192)
    )
    assert (above.verdict, limit in above.warnings) == ("fits", True)
    assert limit[:30] not in "".join(equal.warnings)


def test_what_resolves_a_limit_above_the_context_is_the_limit() -> None:
    sampling = dataclasses.replace(JOB.sampling, max_tokens=999_999)
    plan = planned(sampling=sampling, load=BatchLoad(), engine=Engine()).plan
    assert [reason.code for reason in plan.reasons] == ["load-above-context"]
    assert [one.flags for one in plan.suggestions] == ["--max-tokens 131071"]
    assert plan.reasons[0].suggestion == "--max-tokens 131071"
    given = planned(sampling=sampling, load=BatchLoad(output_tokens=999_999), engine=Engine()).plan
    assert [one.flags for one in given.suggestions] == ["--output-tokens 131071"]


def test_batches_fill_the_engine_and_few_rows_reach_every_replica() -> None:
    plan = planned()
    assert plan.plan.engine is not None
    assert plan.plan.throughput is not None
    held = min(plan.plan.engine.max_num_seqs, plan.plan.throughput.concurrency_at_load.high)
    # About half of the rows of batches in progress are answered already.
    assert plan.batch_size * BATCHES >= 2 * min(held, 128 * BATCHES)
    few = planned(load=BatchLoad(rows=20), concurrency=Concurrency(4, 4))
    assert few.batch_size == 5
    assert planned(job=Job(batch_size=7)).batch_size == 7


def test_a_plan_that_does_not_fit_deploys_nothing() -> None:
    plan = planned(engine=Engine(max_model_len=10**9))
    assert (plan.runs, plan.deployment) == (False, None)
