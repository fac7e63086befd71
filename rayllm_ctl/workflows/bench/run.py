"""Measure a service, or any OpenAI-compatible server, under load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rayllm_ctl import __version__
from rayllm_ctl.errors import UsageError
from rayllm_ctl.loadtest.session import measure as measure_here
from rayllm_ctl.loadtest.settings import Objective, Settings, Target
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.workflows.access.chat import choose_model, endpoint
from rayllm_ctl.workflows.bench import calibrate as benchcalibrate
from rayllm_ctl.workflows.bench import service as benchservice
from rayllm_ctl.workflows.bench.flags import Flags, check_flags, key_source, loads, prompts_of, tokenizer_of
from rayllm_ctl.workflows.bench.predict import Seen, with_predictions
from rayllm_ctl.workflows.bench.search import search_rate
from rayllm_ctl.workflows.bench.startup_plans import measured_memory, read_startup_plans
from rayllm_ctl.workflows.bench.url import target_of, url_look, url_versions
from rayllm_ctl.workflows.bench.watch import LoadWatch, RunLoads, ShowProgress

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.loadtest.prompts import Tokenizer


def measure(flags: Flags, connect: Callable[[], Cluster], namespace: str | None, show: ShowProgress) -> Results:
    """Run the load test of the flags. Raises UsageError for contradictory flags, UserError while there is no service to
    measure."""
    check_flags(flags)
    tokenizer = tokenizer_of(flags.tokenizer)
    if flags.calibrate:
        benchcalibrate.check_calibration(flags)
    elif flags.startup_plans:
        raise UsageError("--startup-plan requires --calibrate", hint="--calibrate calibration.yaml")
    ranks = read_startup_plans(flags.startup_plans)
    watch = LoadWatch(show, searching=flags.find_max)
    with _place(flags, connect, namespace, watch, tokenizer) as (target, shown, sending, seen):
        memory = measured_memory(ranks, seen.planned) if ranks else None
        run = watch.over(sending, seen.look)
        objective = flags.slo or Objective()
        prompts = prompts_of(flags, tokenizer)
        settings = Settings(target, loads(flags), prompts, objective, dict(flags.fields), flags.stream)
        if flags.find_max:
            runs, highest = search_rate(settings, lambda load: run(load)[0])
            runs = _stated(with_predictions(seen.planned, runs), flags, seen)
            return Results(shown, target.models, runs, searched=True, highest_rate=highest)
        runs = _stated(with_predictions(seen.planned, run(settings), memory), flags, seen)
        return Results(shown, target.models, runs)


def _stated(runs: Sequence[Mapping[str, Any]], flags: Flags, seen: Seen) -> tuple[Mapping[str, Any], ...]:
    """`runs` with the facts that the generator does not know: the tokenizer of the prompts, and the versions."""
    versions = {"rayllm-ctl": __version__, **seen.versions}
    found = []
    for run in runs:
        prompts = {"prompts": {**run["prompts"], "tokenizer": flags.tokenizer}} if "prompts" in run else {}
        found.append({**run, **prompts, "versions": versions})
    return tuple(found)


def _at_url(target: Target) -> Seen:
    return Seen(url_look(target), "the plan of a server at --url is unknown", url_versions(target))


def rejected_key_hint(flags: Flags, results: Results) -> str:
    """What to type if the server rejected requests for want of a valid API key; empty if it did not."""
    if not any(f"http_{status}" in run["errors"] for run in results.runs for status in (401, 403)):
        return ""
    if flags.url is None and not flags.local:
        return "--api-key-secret NAME/KEY    # a Secret with a key that the server accepts"
    if flags.keys:
        return f"the server rejected a key of {key_source(flags)}: use one that it accepts"
    return "--api-key-file FILE    # or RAYLLM_API_KEY"


@contextmanager
def _place(
    flags: Flags, connect: Callable[[], Cluster], namespace: str | None, watch: LoadWatch, tokenizer: Tokenizer | None
) -> Iterator[tuple[Target, str, RunLoads, Seen]]:
    """The target, its display name, the sender (this machine or a Job), and facts about the service."""

    def here(settings: Settings) -> Sequence[Mapping[str, Any]]:
        return measure_here(settings, watch.report, tokenizer)

    if flags.url is not None:
        target = target_of(flags, flags.url)
        yield target, flags.url, here, _at_url(target)
        return
    assert flags.name is not None
    cluster = connect()
    address = endpoint(cluster, flags.name, namespace or cluster.namespace)
    models = tuple(choose_model(address, model) for model in flags.models or (None,))
    seen = benchservice.seen(cluster, address, models)
    if flags.local:
        with benchservice.forward_service(cluster, address, models, flags.api, flags.keys) as target:
            yield target, f"{address.name} in {address.namespace}, through the API server", here, seen
        return
    there = benchservice.in_cluster(cluster, address, flags.api_key_secret, watch)
    yield Target(address.url, models, api=flags.api), f"{address.name} in {address.namespace}", there, seen
