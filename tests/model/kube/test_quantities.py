from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.model.kube.quantities import canonical_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1", "1"), ("1000m", "1"), ("0.5", "500m"), (".5", "500m"), ("1.5", "1500m"), ("1500", "1500"),
        ("2000", "2k"), ("16Gi", "16Gi"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("512Ki", "512Ki"), ("0.5Ki", "512"),
        ("1023.5Ki", "1048064"), ("17179869184", "17179869184"), ("16G", "16G"), ("1e3", "1e3"), ("1500e-3", "1500e-3"),
        ("15e2", "1500"), ("0", "0"), ("0Gi", "0"), ("-1000m", "-1"), ("0.0000000001", "1n"), ("100u", "100u"),
        ("1.0000000001Gi", "1073741824107374183n"),
    ],
)  # fmt: skip
def test_the_form_that_kubernetes_writes(text: str, canonical: str) -> None:
    """As k8s.io/apimachinery's Quantity prints it."""
    assert canonical_quantity(text) == canonical


@given(
    st.integers(0, 10**6), st.integers(0, 999),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"]),
)  # fmt: skip
def test_the_value_stays_and_the_form_is_final(whole: int, thousandths: int, suffix: str) -> None:
    text = f"{whole}.{thousandths:03}{suffix}"
    canonical = canonical_quantity(text)
    assert parse_quantity(canonical) == pytest.approx(parse_quantity(text), rel=1e-9, abs=1e-9)
    assert canonical_quantity(canonical) == canonical


def test_what_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        canonical_quantity("16 GB")
