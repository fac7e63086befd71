"""A user's template with a kind that is not in the table: deployed, compared, pruned and deleted like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube import api_kinds
from rayllm_ctl.model.kube.api_kinds import Kind
from rayllm_ctl.model.kube.labels import OTHER_KINDS
from tests.cli.conftest import Run
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import DEPLOY, TINY
from tests.cluster import fakeapi
from tests.cluster.fakeapi import FakeAPI

KEDA = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
TEMPLATE = """\
apiVersion: {version}
kind: {kind}
metadata:
  name: {{{{ name | yaml }}}}
  labels:
{{% for label, value in labels.items() %}}
    {{{{ label | yaml }}}}: {{{{ value | yaml }}}}
{{% endfor %}}
spec: {{scaleTargetRef: {{name: {{{{ name | yaml }}}}}}}}
"""


def template(folder: Path, version: str = KEDA.api_version, kind: str = KEDA.name) -> tuple[str, str]:
    folder.mkdir(exist_ok=True)
    (folder / "scale.yaml.j2").write_text(TEMPLATE.format(version=version, kind=kind))
    return ("--template-dir", str(folder))


@pytest.fixture(autouse=True)
def keda(api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with KEDA, of which this process knows nothing yet."""
    monkeypatch.setitem(fakeapi._RESOURCES, (KEDA.group, KEDA.plural), KEDA)
    api.installed.add(KEDA.name)
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the next process."""
    monkeypatch.setattr(api_kinds, "_ADDED", {})


def test_it_is_deployed_compared_and_deleted(
    run: Run, api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = template(tmp_path / "templates")
    first = run(*DEPLOY, *own, "-o", "name")
    assert first.code == 0, str(first)
    assert "scaledobject.keda.sh/tiny\n" in first.out
    assert api.stored("ScaledObject", "tiny")["spec"] == {"scaleTargetRef": {"name": "tiny"}}
    assert api.stored("RayService", "tiny")["metadata"]["annotations"][OTHER_KINDS] == "keda.sh/v1alpha1/ScaledObject"
    assert api.count("GET", "^/apis/keda.sh/v1alpha1$") == 1
    forget(monkeypatch)
    assert run("diff", *TINY, *own).out == ""
    forget(monkeypatch)
    removed = run("diff", *TINY)
    assert "ScaledObject" in removed.out, str(removed)
    forget(monkeypatch)
    gone = run("delete", "tiny", "--no-wait")
    assert gone.code == 0, str(gone)
    assert api.names("ScaledObject") == []


def test_it_is_pruned_once_the_template_is_gone(
    run: Run, api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*DEPLOY, *template(tmp_path / "templates")).code == 0
    forget(monkeypatch)
    assert run(*DEPLOY).code == 0
    assert api.names("ScaledObject") == []


def test_an_interrupted_deletion_is_finished_from_the_history(
    run: Run, api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*DEPLOY, *template(tmp_path / "templates")).code == 0
    api.remove("RayService", "tiny")
    forget(monkeypatch)
    assert run("delete", "tiny", "--no-wait").code == 0
    assert api.names("ScaledObject") == []


@pytest.mark.parametrize(
    ("version", "kind", "message", "hint"),
    [
        ("keda.sh/v1", "ScaledObject", "does not serve ScaledObject of keda.sh/v1", "CustomResourceDefinition"),
        ("keda.sh/v1alpha1", "ScaledJob", "does not serve ScaledJob of keda.sh/v1alpha1", "CustomResourceDefinition"),
        ("apps/v1", "Deploymnt", "does not serve Deploymnt of apps/v1", "did you mean Deployment of apps/v1?"),
        ("v1", "Sekret", "does not serve Sekret of v1", "did you mean Secret of v1?"),
        ("serving.knative.dev/v1", "Service", "Service of serving.knative.dev/v1 is not a kind", "did you mean"),
    ],
)
def test_a_kind_that_the_cluster_does_not_serve(
    run: Run, api: FakeAPI, tmp_path: Path, version: str, kind: str, message: str, hint: str
) -> None:
    result = run(*DEPLOY, *template(tmp_path / "templates", version, kind))
    assert result.code == 1
    assert message in result.err
    assert hint in result.err
    assert api.names("RayService") == []


def test_without_the_right_the_missing_right_is_named(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    api.granted = grants(*RAY_SERVICE.rights_for("apply").needed, *RAY_SERVICE.rights_for("follow").needed)
    result = run(*DEPLOY, *template(tmp_path / "templates"))
    assert result.code == 5
    assert "create scaledobjects.keda.sh, " in result.err


def test_a_dry_run_on_the_client_asks_no_cluster_for_it(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    result = run(*DEPLOY, *template(tmp_path / "templates"), "--dry-run=client", "-o", "name")
    assert "scaledobject.keda.sh/tiny\n" in result.out, str(result)
    assert api.requests == []
