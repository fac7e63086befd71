"""What the command line alone shows to be wrong is rejected before the cluster is asked for anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI

KEY = ("keys", "create", "chat", "--key-name")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*KEY, "Bad Name!"), '"Bad Name!" is not a valid name of a key'),
        ((*KEY, "a", "--requests", "10/fortnight"), '"10/fortnight"'),
        ((*KEY, "a", "--tokens", "0/minute"), '"0/minute"'),
        ((*KEY, "a", "--expires", "2020-01-01"), "the key would have expired at 2020-01-01"),
        ((*KEY, "a", "--models", "a b"), '"a b" is not a valid model name'),
        (("keys", "create", "--secret", "A_B", "--key-name", "a"), '"A_B" is not a valid name of a Secret'),
        (("keys", "list", "--secret", "A_B"), '"A_B" is not a valid name of a Secret'),
        (("keys", "revoke", "--secret", "A_B", "--key-name", "a"), '"A_B" is not a valid name of a Secret'),
        (("scale", "chat", "--replicas", "0"), "at most 0 replicas"),
        (("scale", "chat", "--min-replicas", "3", "--max-replicas", "2"), "the minimum of 3 replicas is greater"),
        (("logs", "chat", "--engine", "--previous"), "--previous is about containers"),
        (("bundle", "chat", "-o", "{folder}/there.tar.gz"), "there.tar.gz exists"),
        (("bundle", "chat", "-o", "{folder}"), "is not an empty folder"),
        (("chat", "chat", "--api-key-file", "{folder}/there.tar.gz"), "--api-key-file: expected one API key"),
        (("adopt", "chat", "-f", "{folder}/other.yaml", "--offline"), "the file describes other, and not chat"),
    ],
)
def test_wrong_flags_are_rejected_before_connecting(
    words: tuple[str, ...], message: str, run: Run, api: FakeAPI, tmp_path: Path
) -> None:
    (tmp_path / "there.tar.gz").write_text("")
    (tmp_path / "other.yaml").write_text(
        "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: other}\nspec: {model: {id: a/b}}\n"
    )
    result = run(*(word.format(folder=tmp_path) for word in words))
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert api.requests == []
