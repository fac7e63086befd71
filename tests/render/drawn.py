"""Services with plans of any kind, drawn once for all tests: drawing one takes eight times as long as rendering it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan.plan import Plan, PodSizes
from rayllm_ctl.model.spec.service import LLMService
from tests.model.services import services
from tests.render.plans import H100, L4, MI300X, RTX_4090, plan, tiny

Planned = tuple[LLMService, Plan]


def for_planned(test: Callable[[Planned], None]) -> Callable[[], None]:
    """The test with each of them, as many as the Hypothesis profile says; a failure names the one."""

    def every() -> None:
        for one in _drawn():
            try:
                test(one)
            except BaseException as error:
                error.add_note(f"with {one!r}")
                raise

    every.__name__, every.__doc__ = test.__name__, test.__doc__
    return every


@functools.cache
def _drawn() -> list[Planned]:
    found: list[Planned] = []

    @settings(phases=[Phase.generate], database=None)
    @given(_planned())
    def draw(one: Planned) -> None:
        found.append(one)

    draw()
    return found


def has_a_runtime(service: LLMService) -> bool:
    """Whether its versions and its image do not contradict each other."""
    try:
        resolve_release(service.engine)
    except UsageError:
        return False
    return True


@st.composite
def _planned(draw: st.DrawFn) -> Planned:
    """A service without a gateway, and a plan that could be its own."""
    service = dataclasses.replace(draw(services().filter(has_a_runtime)), gateway=None)
    tensor = service.parallelism.tensor or draw(st.integers(1, 8))
    pipeline = service.parallelism.pipeline or 1
    if service.accelerator.kind == "cpu":
        return service, tiny(service, tensor)
    gpu = draw(st.sampled_from([H100, L4, RTX_4090, MI300X]))
    one_node = draw(st.booleans())
    pods = PodSizes("1", "8Gi", draw(st.sampled_from(["500m", "4", "32"])), "64Gi",
                    tensor * pipeline if one_node else tensor, 1 if one_node else pipeline, 1.0)  # fmt: skip
    made = plan(service, gpu, tensor=tensor, pipeline=pipeline, pods=pods)
    assume(made.verdict == "fits")  # not with an image for other GPUs
    return service, made
