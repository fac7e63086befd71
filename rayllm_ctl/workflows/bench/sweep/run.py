"""Deploy, measure and remove the variants of a service, one after another.

The last deployed service is always removed, unless a second interrupt stops the removal.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from rayllm_ctl.errors import INTERRUPTED, ClusterError, ConflictError, UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.model.bench.sweep import Sweep, VariantRecord, in_words
from rayllm_ctl.model.events import Applied, Event, Noted, Observed, Ready, Rendered
from rayllm_ctl.model.kube.labels import SWEEP
from rayllm_ctl.model.observed.health import Health
from rayllm_ctl.workflows.bench.flags import Flags
from rayllm_ctl.workflows.bench.run import measure
from rayllm_ctl.workflows.bench.sweep.plan import PlannedVariant, Prepared
from rayllm_ctl.workflows.bench.sweep.service import (
    delete_command,
    place,
    remove_service,
    require_cluster,
    require_left_here,
    require_own,
)
from rayllm_ctl.workflows.bench.sweep.signals import Interrupts
from rayllm_ctl.workflows.bench.watch import ShowProgress
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout.deploy import DeployOptions, deploy, runs_a_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

Show = Callable[[], AbstractContextManager[Callable[[Event], None]]]
"""Draws the events of one phase."""

WatchLoads = Callable[[], AbstractContextManager[ShowProgress]]
"""Draws the progress of one load test."""


@dataclass(frozen=True)
class SweepOutcome:
    """The outcome of a sweep. error: what ended it early; None after an interrupt."""

    sweep: Sweep
    interrupted: bool = False
    error: UserError | None = None


def run_sweep(
    prepared: Prepared,
    load: Flags,
    timeout: float | None,
    connect: Callable[[], Cluster],
    show: Show,
    watch: WatchLoads,
) -> SweepOutcome:
    """Measure the variants without a result. timeout: seconds for each variant to become ready; None: the plan's limit.

    A variant that does not become ready, or cannot be measured, is recorded. Ctrl-C and SIGTERM end the sweep once the
    running variant is removed.

    Raises UserError if the cluster rules the sweep out before anything is applied, and after a second interrupt,
    which leaves what is there.
    """
    todo = [variant for variant in prepared.variants if variant.rendering is not None]
    rejected = [variant.record for variant in prepared.variants if variant.record.state == "rejected"]
    if not todo and prepared.left is None:
        prepared.folder.begin(rejected)
        return SweepOutcome(_sweep(prepared, {}))
    cluster = connect()
    prepared.folder.begin(rejected)
    namespace = prepared.namespace or cluster.namespace
    require_left_here(cluster, namespace, prepared.folder)
    services = [variant.rendering for variant in todo if variant.rendering is not None]
    if services:
        require_cluster(cluster, services, namespace, local=load.local)
    for service in services:
        require_own(cluster, service.name, namespace, prepared.folder.id)
    with Interrupts() as interrupts:
        return _Run(prepared, load, timeout, cluster, namespace, show, watch, interrupts).all(todo)


class _Run:
    """_left: the service that may be in the cluster. _current: the variant that was begun last."""

    def __init__(
        self,
        prepared: Prepared,
        load: Flags,
        timeout: float | None,
        cluster: Cluster,
        namespace: str,
        show: Show,
        watch: WatchLoads,
        interrupts: Interrupts,
    ) -> None:
        self._prepared, self._load, self._timeout = prepared, load, timeout
        self._cluster, self._namespace = cluster, namespace
        self._show, self._watch, self._interrupts = show, watch, interrupts
        self._done: dict[str, VariantRecord] = {}
        self._left: Rendering | None = None
        self._current: PlannedVariant | None = None

    def all(self, todo: list[PlannedVariant]) -> SweepOutcome:
        """Measure the variants until the last one, an interrupt, or an error that the next ones would meet as well."""
        error: UserError | None = None
        try:
            try:
                if self._prepared.left is not None:
                    self._left = self._prepared.left
                    self._say(f"{self._left.name} was left by an interrupted sweep and is removed first")
                    self._remove()
                    self._interrupts.check()
                for number, planned in enumerate(todo, 1):
                    self._say(
                        f"variant {number} of {len(todo)}: {in_words(planned.variant.values)}, {planned.variant.name}"
                    )
                    self._one(planned)
                    if self._interrupts.count:
                        break
            except KeyboardInterrupt:
                if self._interrupts.count > 1:
                    raise
                self._say(
                    "interrupted; a second interrupt leaves the service as it is" if self._left else "interrupted"
                )
            except UserError as failure:
                error = failure
            try:
                self._remove()
            except UserError as failure:
                error = failure
        except KeyboardInterrupt:
            raise self._what_is_left() from None
        interrupted, current = self._interrupts.count > 0, self._current
        if interrupted and current is not None:
            self._done.setdefault(current.variant.name, replace(current.record, state="interrupted"))
        return SweepOutcome(_sweep(self._prepared, self._done), interrupted, error)

    def _one(self, planned: PlannedVariant) -> None:
        assert planned.rendering is not None
        # Checked again: another client may have created one of this name since.
        require_own(self._cluster, planned.rendering.name, self._namespace, self._prepared.folder.id)
        self._left = planned.rendering  # from a sweep that was killed
        self._remove()
        if self._interrupts.count:
            return
        self._left = planned.rendering
        self._prepared.folder.note_left(place(self._cluster, planned.variant.name, self._namespace))
        self._current = planned
        record = self._measure(planned, planned.rendering)
        if record is not None:
            self._prepared.folder.write(record)
            self._done[planned.variant.name] = record
        self._remove()

    def _measure(self, planned: PlannedVariant, rendering: Rendering) -> VariantRecord | None:
        """The variant's record; None after an interrupt. Raises UserError for what the next one would meet as well."""
        health: list[Health] = []
        record = planned.record
        try:
            record = replace(record, startup_seconds=self._deploy(rendering, health))
            results = self._results(rendering.name)
        except (ClusterError, UsageError):
            raise
        except UserError as error:
            return _failed(record, error, health[-1] if health else None)
        if results.interrupted or self._interrupts.count:
            self._interrupts.note()
            return None
        record = replace(record, state="measured", result=results.to_json())
        if any(run["requests"]["succeeded"] for run in results.runs):
            return record
        kinds = {kind: text for run in results.runs for kind, text in run["errorMessages"].items()}
        why = "; ".join(f"{kind}: {text}" for kind, text in kinds.items())
        return replace(record, state="failed", code="NoAnswer", message=f"no request was answered: {why}")

    def _deploy(self, rendering: Rendering, health: list[Health]) -> float:
        """Seconds from the apply until the service is ready. `health` takes what is seen of it until then."""
        options = DeployOptions(
            timeout=self._timeout, annotations={SWEEP: self._prepared.folder.id}, upgrade=None, record=False
        )
        seconds = 0.0
        with self._show() as tell, ExitStack() as applying:
            # An apply must not arrive after the deletion, so requests are not cut off.
            applying.enter_context(self._interrupts.held())
            for event in deploy([rendering], options, lambda: self._cluster):
                if isinstance(event, Rendered):
                    continue
                tell(event)
                self._interrupts.check()
                if isinstance(event, Applied) and runs_a_service(event):
                    applying.close()
                elif isinstance(event, Observed):
                    health.append(event.health)
                elif isinstance(event, Ready):
                    seconds = event.elapsed
                    health.clear()
        return seconds

    def _results(self, name: str) -> Results:
        self._say("measuring")
        try:
            with self._watch() as show:
                return measure(replace(self._load, name=name), lambda: self._cluster, self._namespace, show)
        finally:
            self._interrupts.take()

    def _remove(self) -> None:
        """Remove the service that may be there. Raises UserError if it is left."""
        if self._left is None:
            return
        try:
            with self._interrupts.held(), self._show() as tell:
                for event in remove_service(self._cluster, self._left, self._namespace, self._prepared.folder.id):
                    tell(event)
        except UserError as error:
            left, self._left = self._left, None
            command = delete_command(left.name, self._namespace)
            raise UserError(
                f"{left.name} could not be removed: {error.message}",
                hint=(*error.hints, command), exit_code=error.exit_code,
            ) from error  # fmt: skip
        self._left = None
        self._prepared.folder.forget_left()

    def _what_is_left(self) -> UserError:
        if self._left is None:
            return UserError("interrupted", exit_code=INTERRUPTED)
        return UserError(
            f"interrupted: {self._left.name} is left in namespace {self._namespace}",
            hint=(
                delete_command(self._left.name, self._namespace),
                "run the same bench sweep again to remove it and continue with the missing variants",
            ),
            exit_code=INTERRUPTED,
        )

    def _say(self, text: str) -> None:
        with self._show() as tell:
            tell(Noted(text))


def _failed(record: VariantRecord, error: UserError, health: Health | None) -> VariantRecord:
    """health: the last that was seen of a service that did not become ready; its first cause is the reason."""
    causes = health.causes if health is not None and not isinstance(error, ConflictError) else ()
    if causes:
        cause = next((cause for cause in causes if cause.terminal), causes[0])
        return replace(record, state="failed", code=cause.code, message=cause.message)
    code = "NotReady" if record.startup_seconds is None else "NotMeasured"
    return replace(record, state="failed", code=code, message=error.message)


def _sweep(prepared: Prepared, done: dict[str, VariantRecord]) -> Sweep:
    records = (done.get(planned_variant.variant.name, planned_variant.record) for planned_variant in prepared.variants)
    return Sweep(prepared.service, prepared.vary, tuple(records))
