from __future__ import annotations

from rayllm_ctl.planner.speed.startup import startup

GB = 1e9


def test_a_model_on_local_disk_downloads_nothing() -> None:
    plan = startup(16 * GB, download=False, complex_model=False, eager=False)
    assert plan.download.high == 0
    assert plan.load.low < plan.load.typical < plan.load.high


def test_measured_starts_lie_inside_the_bands() -> None:
    """Public logs: load and engine init seconds of the sources that the module names."""
    llama_8b = startup(16.1 * GB, download=False, complex_model=False, eager=False)
    assert llama_8b.load.low <= 5.4 <= llama_8b.load.high
    assert llama_8b.load.low <= 22 <= llama_8b.load.high
    assert llama_8b.compile.low <= 39.3 <= llama_8b.compile.high
    glm_flash = startup(305.8 * 2**30, download=False, complex_model=True, eager=False)
    assert glm_flash.load.low <= 226.5 <= glm_flash.load.high
    assert glm_flash.compile.low <= 467.7 <= glm_flash.compile.high


def test_eager_engines_start_sooner() -> None:
    compiled = startup(16 * GB, download=True, complex_model=True, eager=False)
    eager = startup(16 * GB, download=True, complex_model=True, eager=True)
    assert eager.total.typical < compiled.total.typical - 100
    assert eager.compile.low <= 1.71 <= eager.compile.high


def test_the_wait_limit_outlasts_the_slowest_start() -> None:
    for size in (0.5, 16, 140, 1300):
        plan = startup(size * GB, download=True, complex_model=False, eager=False)
        assert plan.wait_seconds >= max(900, plan.total.high)


def test_each_node_loads_its_share_but_downloads_everything() -> None:
    one = startup(200 * GB, nodes=1, download=True, complex_model=False, eager=False)
    two = startup(200 * GB, nodes=2, download=True, complex_model=False, eager=False)
    assert two.load.typical == one.load.typical / 2
    assert two.download == one.download


def test_cpu_engines_that_compile_take_minutes() -> None:
    eager = startup(1e6, download=False, complex_model=False, eager=True, cpu=True)
    compiled = startup(1e6, download=False, complex_model=False, eager=False, cpu=True)
    assert eager.total.low <= 81 <= eager.total.high
    assert compiled.total.low <= 209 <= compiled.total.high
