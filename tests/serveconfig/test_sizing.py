"""Groups of workers from what replicas ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.model.plan.replica_groups import Group, Unit
from rayllm_ctl.serveconfig.sizing import groups, replica_bounds


def sized(*deployments: Mapping[str, Any]) -> dict[str, Group]:
    named = [{"name": f"d{number}", **one} for number, one in enumerate(deployments)]
    config = {"applications": [{"import_path": "a:b", "deployments": named}]}
    return {group.name: group for group in groups(config, {"L4": 8})}


def actor(**options: Any) -> dict[str, Any]:
    return {"ray_actor_options": options}


@pytest.mark.parametrize(
    ("deployment", "bounds"),
    [
        ({}, (1, 1)),
        ({"num_replicas": 3}, (3, 3)),
        ({"num_replicas": None}, (1, 1)),
        ({"num_replicas": "auto"}, (1, 100)),
        ({"num_replicas": "auto", "autoscaling_config": {"max_replicas": 4}}, (1, 4)),
        ({"autoscaling_config": {}}, (1, 1)),
        ({"autoscaling_config": {"min_replicas": 0, "max_replicas": "5"}}, (0, 5)),
        ({"autoscaling_config": {"min_replicas": 1, "max_replicas": 5, "initial_replicas": 2}}, (2, 5)),
    ],
)
def test_bounds_of_replicas_with_rays_defaults(deployment: dict[str, Any], bounds: tuple[int, int]) -> None:
    assert replica_bounds(deployment) == bounds


def test_small_replicas_share_a_worker_and_may_each_have_one() -> None:
    [group] = sized({"num_replicas": 2, **actor(num_cpus=0.2)}, {"num_replicas": 3, **actor(num_cpus=0.3)}).values()
    assert (group.name, group.cpus, group.min_workers, group.max_workers) == ("cpu", 1, 2, 5)
    assert group.sharing == 3


def test_the_largest_replica_fits_one_worker() -> None:
    [group] = sized(actor(num_cpus=3.5, memory=5e9), actor(num_cpus=1)).values()
    assert (group.cpus, group.memory) == (4, 5_000_000_000)


def test_accelerator_types_custom_resources_and_labels_have_groups_of_their_own() -> None:
    found = sized(
        actor(),
        actor(num_gpus=0.5),
        actor(num_gpus=2, accelerator_type="L4"),
        actor(accelerator_type="H100"),
        actor(resources={"fast_disk": 2}),
        actor(label_selector={"zone": "a", "spot": "!true", "disk": "in(x, y)"}),
    )
    assert sorted(found) == ["cpu", "cpu-a", "fast-disk", "gpu", "h100", "l4"]
    assert (found["gpu"].gpus, found["l4"].gpus, found["h100"].gpus) == (1, 2, 1)
    assert found["fast-disk"].custom == {"fast_disk": 2.0}
    assert found["cpu-a"].labels == {"zone": "a"}


def test_a_placement_group_is_packed_into_one_worker_unless_it_is_spread_or_too_large() -> None:
    bundles = [{"CPU": 1, "GPU": 4}, {"GPU": 4}]
    [packed] = sized({"placement_group_bundles": bundles}).values()
    assert (packed.gpus, packed.max_workers) == (8, 1)
    [spread] = sized({"placement_group_bundles": bundles, "placement_group_strategy": "STRICT_SPREAD"}).values()
    assert (spread.gpus, spread.min_workers, spread.max_workers) == (4, 2, 2)
    [large] = sized({"placement_group_bundles": [*bundles, {"GPU": 4}]}).values()
    assert (large.gpus, large.max_workers) == (4, 3)


def test_replicas_per_node_surge_and_shared_actors_count() -> None:
    [group] = sized(
        {"num_replicas": 4, "max_replicas_per_node": 1, "max_surge_percent": 25, **actor(num_cpus=0.1)}
    ).values()
    assert (group.min_workers, group.max_workers, group.sharing) == (4, 5, 1)
    [group] = sized(
        {"deployment_actors": [{"name": "a", "actor_class": "m:C", "actor_options": {"num_cpus": 2}}]}
    ).values()
    assert (group.cpus, group.max_workers) == (2, 2)


def test_an_application_without_deployments_counts_as_one_replica() -> None:
    [group] = groups({"applications": [{"import_path": "a:b"}]}, {})
    assert (group.name, group.cpus, group.min_workers, group.max_workers) == ("cpu", 1, 1, 1)


def test_any_number_of_replicas_is_counted() -> None:
    most = 2**31 - 1
    [group] = sized({"num_replicas": most, **actor(num_cpus=0.3)}, {"num_replicas": 2, **actor(num_cpus=0.6)}).values()
    # Two workers with 0.6 and 0.3, all others with three times 0.3.
    assert group.min_workers == 2 + -(-(most - 2) // 3)
    [group] = sized({"num_replicas": most, "max_replicas_per_node": 100, **actor(num_cpus=0)}).values()
    assert group.min_workers == -(-most // 100)
    [group] = sized({"num_replicas": most, **actor(num_cpus=0)}).values()
    assert group.min_workers == 1


def first_fit(group: Group) -> int:
    """Workers for the replicas of the start, each replica placed by itself on the first worker that holds it."""
    workers: list[tuple[dict[str, float], list[str]]] = []
    for unit in sorted(group.units, key=lambda unit: -max(unit.resources.values(), default=0.0)):
        for _ in range(unit.low):
            place = next((one for one in workers if holds(one, unit)), None)
            if place is None:
                offer = {"CPU": float(group.cpus), "GPU": float(group.gpus), "memory": float(group.memory)}
                place = ({**offer, **group.custom}, [])
                workers.append(place)
            for name, amount in unit.resources.items():
                place[0][name] = place[0].get(name, 0.0) - amount
            place[1].append(unit.name)
    return len(workers)


def holds(worker: tuple[dict[str, float], list[str]], unit: Unit) -> bool:
    free, held = worker
    shared = unit.per_worker is None or held.count(unit.name) < unit.per_worker
    return shared and all(free.get(name, 0.0) >= amount - 1e-9 for name, amount in unit.resources.items())


@given(
    st.lists(
        st.fixed_dictionaries(
            {"num_replicas": st.integers(1, 30)},
            optional={
                "max_replicas_per_node": st.integers(1, 4),
                "ray_actor_options": st.fixed_dictionaries(
                    {"num_cpus": st.sampled_from([0, 0.1, 0.3, 1 / 3, 0.5, 1, 2, 3.5])},
                    optional={
                        "memory": st.sampled_from([1e9, 3.3e9, 123456789]),
                        "resources": st.dictionaries(
                            st.sampled_from(["a", "accelerator_type:L4"]), st.sampled_from([0.001, 0.7, 2]), max_size=2
                        ),
                    },
                ),
            },
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_workers_of_the_start_are_those_of_first_fit(deployments: list[dict[str, Any]]) -> None:
    for group in sized(*deployments).values():
        assert group.min_workers == first_fit(group)


amounts = st.sampled_from([0.1, 0.5, 1, 2, 3.5])


@given(
    st.lists(
        st.fixed_dictionaries(
            {"num_replicas": st.integers(1, 5)},
            optional={
                "ray_actor_options": st.fixed_dictionaries(
                    {"num_cpus": amounts},
                    optional={
                        "num_gpus": st.sampled_from([0, 0.5, 1, 4]),
                        "accelerator_type": st.sampled_from(["L4", "H100"]),
                        "resources": st.dictionaries(st.sampled_from(["a", "A", "b-1"]), amounts, max_size=2),
                    },
                )
            },
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_replica_fits_a_worker_and_all_replicas_the_groups(deployments: list[dict[str, Any]]) -> None:
    found = sized(*deployments)
    for group in found.values():
        offers = {"CPU": group.cpus, "GPU": group.gpus, "memory": group.memory or math.inf, **group.custom}
        for unit in group.units:
            assert all(offers[name] >= amount for name, amount in unit.resources.items())
        assert 0 < group.min_workers <= group.max_workers == sum(unit.high for unit in group.units)
    assert sum(group.max_workers for group in found.values()) == sum(one["num_replicas"] for one in deployments)
