"""Values of options: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rayllm_ctl.cli.values import (
    AUTO,
    Duration,
    KeyValue,
    Quantity,
    SecretReference,
    TokenCount,
    TolerationSpec,
    VolumeSpec,
)
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.service import Toleration, Volume
from rayllm_ctl.specfile import load


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (Duration(), "1h30m", 5400.0),
        (Quantity(), "500m", "500m"),
        (KeyValue(), "A=b=c", ("A", "b=c")),
        (KeyValue(), "A=", ("A", "")),
        (KeyValue(typed=True), "max_loras=4", ("max_loras", 4)),
        (KeyValue(typed=True), "enforce_eager=true", ("enforce_eager", True)),
        (KeyValue(typed=True), "x=[1, 2]", ("x", [1, 2])),
        (KeyValue(typed=True), "dtype=half", ("dtype", "half")),
        (KeyValue(typed=True), 'x="1"', ("x", "1")),
        (KeyValue(typed=True), "x=0o17", ("x", 15)),
        (KeyValue(typed=True), "x=~", ("x", None)),
        (KeyValue(typed=True), "x=on", ("x", "on")),
        (TokenCount(), "32768", 32768),
        (TokenCount(), "32k", 32_000),
        (TokenCount(), "32K", 32_768),
        (TokenCount(), "25.6k", 25_600),
        (TokenCount(), "1.001k", 1_000),  # vLLM counts with floats: int(1.001 * 1000)
        (TokenCount(), "2m", 2_000_000),
        (TokenCount(), "2M", 2_097_152),
        (TokenCount(), " 4096 ", 4096),
        (TokenCount(auto=True), "auto", AUTO),
        (TokenCount(auto=True), "Auto", AUTO),
        (TokenCount(auto=True), "-1", AUTO),
        (SecretReference(), "hf/token", SecretKey("hf", "token")),
        (VolumeSpec(), "pvc:models:/models", Volume("models", "/models", persistent_volume_claim="models")),
        (VolumeSpec(), "hostPath:/data:/mnt/d:rw", Volume("mnt-d", "/mnt/d", host_path="/data", read_only=False)),
        (TolerationSpec(), "gpu", Toleration("gpu")),
        (TolerationSpec(), "team=search:NoSchedule", Toleration("team", "search", "NoSchedule")),
    ],
)
def test_values(type_: click.ParamType[Any], text: str, value: Any) -> None:
    assert type_.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Duration(), "5 minutes"),
        (Duration(), "-3s"),
        (Quantity(), "lots"),
        (KeyValue(), "novalue"),
        (KeyValue(), "=b"),
        (KeyValue(typed=True), "seed=017"),
        (KeyValue(typed=True), "x=.inf"),
        (KeyValue(typed=True), "x=[1"),
        (TokenCount(), "auto"),
        (TokenCount(), ".5k"),
        (TokenCount(), "4.5K"),
        (TokenCount(auto=True), "32kk"),
        (TokenCount(auto=True), ""),
        (SecretReference(), "hf_abcdef"),
        (VolumeSpec(), "models:/models"),
        (VolumeSpec(), "nfs:server:/models"),
        (TolerationSpec(), "a=b:Sometimes"),
    ],
)
def test_refusals(type_: click.ParamType[Any], text: str) -> None:
    with pytest.raises(click.BadParameter):
        type_.convert(text, None, None)


@given(st.from_regex(r"[-+.0-9a-zA-Z~_]{0,12}", fullmatch=True))
def test_a_scalar_means_the_same_in_a_flag_and_in_a_spec_file(text: str) -> None:
    document = "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: q}\nspec:\n  model: {id: m}\n"
    assume((not text.startswith(("---", "...")) and not text.startswith("-")) or text[1:2].isdigit())
    try:
        in_file = load(f"{document}  engine:\n    args:\n      seed: {text}\n", source="q").engine.args["seed"]
    except UsageError:
        with pytest.raises(click.BadParameter):
            KeyValue(typed=True).convert(f"seed={text}", None, None)
    else:
        assert repr(KeyValue(typed=True).convert(f"seed={text}", None, None)) == repr(("seed", in_file))


def test_a_token_given_by_mistake_is_not_repeated() -> None:
    with pytest.raises(click.BadParameter) as caught:
        SecretReference().convert("hf_secretvalue", None, None)
    assert "hf_secretvalue" not in caught.value.format_message()
