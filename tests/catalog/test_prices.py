"""Prices: the built-in ones, and a user's own over them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rayllm_ctl.catalog import gpus, prices
from rayllm_ctl.catalog.data import read_data
from rayllm_ctl.errors import UsageError
from scripts.gpu_prices import cheapest, dumped, gcp_prices, go_prices


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_every_built_in_price_has_a_date_and_a_source() -> None:
    assert prices.read_prices() is None
    dated = re.compile(r"(built-in, )?(\w+): 20\d\d-\d\d-\d\d, \S+.*")
    priced = [gpu for gpu in gpus.load_gpus().values() if gpu.price_per_hour]
    for gpu in priced:
        sources = [dated.fullmatch(source) for source in gpu.price_source.split("; ")]
        assert [source[2] if source else None for source in sources] == list(gpu.price_per_hour), gpu.name
    assert len(priced) == 24
    unpriced = gpus.find_gpu("RTX-4090")
    assert (unpriced.price_per_hour, unpriced.price_source) == ({}, "")


def test_every_built_in_price_is_of_a_known_gpu() -> None:
    for source in prices.built_in():
        assert len({cloud for by_cloud in source.by_gpu.values() for cloud in by_cloud}) == 1, source.note
        for name, by_cloud in source.by_gpu.items():
            assert gpus.canonical(name) == name
            assert all(0.1 < price < 30 for price in by_cloud.values())


def test_a_users_prices_replace_those_of_the_gpus_they_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("date: 2026-10-01\nsource: our contract\nprices:\n  h100: {on-premises: 2.2}\n  L4: 0.5\n")
    known = gpus.load_gpus(prices.read_prices(path))
    assert known["H100-80GB"].price_per_hour == {"on-premises": 2.2}
    assert known["H100-80GB"].price_source == f"{path}, 2026-10-01, our contract"
    assert known["L4"].price_per_hour == {"any": 0.5}
    assert known["T4"].price_per_hour == {"aws": 0.526, "azure": 0.526}


def test_the_configuration_folder_is_looked_at(home: Path) -> None:
    folder = home / "rayllm-ctl"
    folder.mkdir()
    (folder / "prices.yaml").write_text('{"prices": {"T4": {"aws": 0.1}}}')
    assert gpus.load_gpus(prices.read_prices())["T4"].price_per_hour == {"aws": 0.1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no mapping `prices`"),
        ("[1]", "no mapping `prices`"),
        ("prices: 3", "no mapping `prices`"),
        ("prices: {L4: cheap}", "the price of L4 .any. is 'cheap'"),
        ("prices: {L4: -1}", "is -1"),
        ("prices: {L4: .nan}", "is nan"),
        ("prices: {L4: .inf}", "is inf"),
        ("prices: {L4: true}", "is True"),
        ("prices: {L4: 0}", "the price of L4 .any. is 0; it must be more"),
        ("prices: {L4: {aws: 0.0, gcp: 1}}", "the price of L4 .aws. is 0"),
        ("prices: {L4: 1e308}", r"is '1e308'|is 1e\+308"),
        ("prices: {L4: 1, T4: 1, L4: 2}", 'duplicate key "L4", first in line 1.*line 1'),
        ("prices: {L4: {aws: 1,\n aws: 2}}", 'duplicate key "aws", first in line 1.*line 2'),
        ("prices: {L4: 1}\nprices: {L4: 2}", 'duplicate key "prices", first in line 1'),
        ('{"prices": {"L4": 1, "L4": 2}}', 'duplicate key "L4", first in line 1'),
        ("prices: {L4: {aws: [1]}}", r"L4 .aws. is \[1\]"),
        ("prices: {L4: 1}\ncurrency: EUR", "unknown key `currency`"),
        ("prices: {L4: 1", "not valid YAML"),
        ("\x00", "not valid YAML"),
    ],
)
def test_a_list_that_is_wrong_is_a_usage_error(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        prices.read_prices(path)
    assert str(path) in caught.value.message


def test_a_file_that_is_missing_or_huge_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nope\.yaml cannot be read: no such file") as caught:
        prices.read_prices(tmp_path / "nope.yaml")
    assert caught.value.hints[0].startswith("--prices FILE    # ")
    huge = tmp_path / "huge.yaml"
    huge.write_text(" " * 1_000_001)
    with pytest.raises(UsageError, match="larger than"):
        prices.read_prices(huge)


def test_a_gpu_that_nobody_knows_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("prices: {H1000: 1}")
    with pytest.raises(UsageError) as caught:
        gpus.load_gpus(prices.read_prices(path))
    assert caught.value.message == f'price list {path}: unknown GPU "H1000"'
    assert caught.value.hints[-1].startswith("rayllm-ctl gpus ")


def test_tables_of_karpenters_providers_are_read() -> None:
    go = go_prices('"us-east-1": {\n  "g6.xlarge": 0.804800, "g6.12xlarge": 4.601600,\n')
    assert go == {"g6.xlarge": [0.8048], "g6.12xlarge": [4.6016]}
    regions = {"us": {"on_demand": {"g2-standard-4": 0.7}}, "de": {"on_demand": {"g2-standard-4": 0.9}}}
    gcp = gcp_prices(json.dumps({"prices": regions}))
    nodes = {
        "L4": {"aws": [["g6.xlarge", 1, 4, 16], ["g6.12xlarge", 4, 48, 192]], "gcp": [["g2-standard-4", 1, 4, 16]]}
    }
    assert dict(cheapest("aws", go, nodes)) == {"L4": {"aws": 0.805}}
    assert dict(cheapest("gcp", gcp, nodes)) == {"L4": {"gcp": 0.7}}
    assert dict(cheapest("azure", go, nodes)) == {}


def test_the_generated_form_is_that_of_the_file() -> None:
    text = read_data("prices.json")
    assert dumped(json.loads(text)) == text


@pytest.mark.parametrize(("first", "second", "gpu"), [("l4", "L4", "L4"), ("H100", "H100-80GB", "H100-80GB")])
def test_two_prices_of_one_gpu_are_a_usage_error(tmp_path: Path, first: str, second: str, gpu: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(f"prices: {{{first}: 1, {second}: 2}}")
    with pytest.raises(UsageError, match=f"prices.yaml: {first} and {second} are the same GPU, {gpu}"):
        gpus.load_gpus(prices.read_prices(path))


def test_what_a_file_says_of_itself_is_text_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text('{source: "a\\u001b[31m", prices: {L4: 1}}')
    with pytest.raises(UsageError, match="without control characters"):
        prices.read_prices(path)
