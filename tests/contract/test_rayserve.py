"""The table of the fields of Ray Serve LLM against the wheels of the releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rayllm_ctl.catalog.rayserve import releases
from rayllm_ctl.catalog.releases import RELEASES
from rayllm_ctl.serveconfig.deployment import AUTOSCALING_FIELDS, DEPLOYMENT_FIELDS
from rayllm_ctl.serveconfig.runtimeenv import FIELDS
from scripts.rayserve_fields import facts, runtime_env
from tests.contract.library import Library
from tests.contract.wheels import WheelMissing, sources


def in_order(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: sorted(value) if isinstance(value, list) else value for key, value in found.items()}


@pytest.mark.parametrize("release", [release.ray for release in RELEASES])
def test_the_table_is_what_the_wheel_has(release: str) -> None:
    try:
        library = Library("ray", sources("ray", release))
    except WheelMissing as missing:
        pytest.fail(str(missing), pytrace=False)
    try:
        assert in_order(releases()[release]) == in_order(facts(library)), "python -m scripts.rayserve_fields"
        assert set(runtime_env(library)) == FIELDS
    finally:
        library.close()


def test_there_is_a_rule_for_every_field_of_a_deployment() -> None:
    # What the code of a deployment may set and a Serve configuration file may not.
    of_code = {"max_constructor_retry_count"}
    newest = [*releases().values()][-1]
    assert set(newest["deployment"]) - of_code <= set(DEPLOYMENT_FIELDS)
    assert set(newest["autoscaling"]) <= set(AUTOSCALING_FIELDS)
