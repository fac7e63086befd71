"""Values of options: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import click
import pytest

from rayllm_ctl.cli.values import Duration, KeyValue, Quantity, SecretReference, TolerationSpec, VolumeSpec
from rayllm_ctl.model.service import SecretKey, Toleration, Volume


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
        (SecretReference(), "hf_abcdef"),
        (VolumeSpec(), "models:/models"),
        (VolumeSpec(), "nfs:server:/models"),
        (TolerationSpec(), "a=b:Sometimes"),
    ],
)
def test_refusals(type_: click.ParamType[Any], text: str) -> None:
    with pytest.raises(click.BadParameter):
        type_.convert(text, None, None)


def test_a_token_given_by_mistake_is_not_repeated() -> None:
    with pytest.raises(click.BadParameter) as caught:
        SecretReference().convert("hf_secretvalue", None, None)
    assert "hf_secretvalue" not in caught.value.format_message()
