from __future__ import annotations

import dataclasses

import pytest

from e2e import versions
from e2e.cluster import modules
from e2e.cluster.modules import Module, wrapper

KUBERNETES_GO_MOD = """\
// This is a generated file.
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	github.com/blang/semver/v4 v4.0.0
	k8s.io/api v0.0.0
	golang.org/x/sys v0.40.0 // indirect
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	github.com/old/thing => github.com/new/thing v1.2.3
)
"""


def directives(text: str) -> list[str]:
    return text.splitlines()


def test_kubernetes_staging_directories_become_modules_of_the_same_release() -> None:
    module = dataclasses.replace(modules.KUBERNETES, version="1.36.2")
    lines = directives(wrapper(module, KUBERNETES_GO_MOD))
    assert "require k8s.io/kubernetes v1.36.2" in lines
    assert "require k8s.io/api v0.36.2" in lines
    assert "replace k8s.io/api => k8s.io/api v0.36.2" in lines
    assert not [line for line in lines if "v0.0.0" in line or "./" in line]


def test_requirements_go_version_and_other_replacements_are_kept() -> None:
    lines = directives(wrapper(modules.KUBERNETES, KUBERNETES_GO_MOD))
    assert lines[0] == "module rayllm.local/kubernetes"
    assert "go 1.26.0" in lines
    assert "godebug default=go1.26" in lines
    assert "require golang.org/x/sys v0.40.0" in lines
    assert "replace github.com/old/thing => github.com/new/thing v1.2.3" in lines


def test_a_replaced_directory_that_is_also_published_is_required_as_published() -> None:
    go_mod = """\
module go.etcd.io/etcd/server/v3
go 1.24.0
replace (
	go.etcd.io/etcd/api/v3 => ../api
)
require go.etcd.io/etcd/api/v3 v3.6.5
"""
    lines = directives(wrapper(modules.ETCD, go_mod))
    assert "require go.etcd.io/etcd/api/v3 v3.6.5" in lines
    assert not [line for line in lines if line.startswith("replace")]


def test_another_version_of_a_requirement_is_compiled_in() -> None:
    module = dataclasses.replace(modules.KUBERNETES, replaced={"golang.org/x/sys": "0.39.0"})
    lines = directives(wrapper(module, KUBERNETES_GO_MOD))
    assert "require golang.org/x/sys v0.40.0" in lines
    assert "replace golang.org/x/sys => golang.org/x/sys v0.39.0" in lines


def test_a_directory_that_is_not_published_is_refused() -> None:
    module = Module("x", "example.org/x", "1.0.0", {"x": "example.org/x"})
    go_mod = "module example.org/x\ngo 1.24\nrequire example.org/y v0.0.0\nreplace example.org/y => ./y\n"
    with pytest.raises(ValueError, match=r"example\.org/y"):
        wrapper(module, go_mod)


def test_the_key_changes_with_the_version_and_with_the_recipe() -> None:
    base = modules.KWOK
    keys = {
        base.key,
        dataclasses.replace(base, version="9.9.9").key,
        dataclasses.replace(base, folders=()).key,
        dataclasses.replace(base, stamps={}).key,
        dataclasses.replace(base, replaced={"example.org/x": "1.0.0"}).key,
    }
    assert len(keys) == 5
    assert versions.KWOK in base.key


def test_the_programs_know_their_version() -> None:
    assert f"-X k8s.io/component-base/version.gitVersion=v{versions.KUBERNETES}" in modules.KUBERNETES.ldflags
    assert f"-X sigs.k8s.io/kwok/pkg/consts.Version=v{versions.KWOK}" in modules.KWOK.ldflags
