from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from e2e import versions
from e2e.cluster import addons, build, modules
from e2e.cluster.modules import Module, wrapper
from e2e.cluster.state import Options

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

ETCD_GO_MOD = f"""\
module go.etcd.io/etcd/server/v3
go 1.24.0
replace go.etcd.io/etcd/api/v3 => ../api
require (
	go.etcd.io/etcd/api/v3 v{versions.ETCD}
	golang.org/x/sys v0.38.0
)
"""

COREDNS_GO_MOD = """\
module github.com/coredns/coredns
go 1.25.0
require (
	github.com/coredns/caddy v1.1.4
	github.com/miekg/dns v1.1.72
	golang.org/x/sys v0.47.0 // indirect
	k8s.io/api v0.35.4
)
"""

ALONE = dataclasses.replace(modules.KUBERNETES, companions={}, replaced={})


def directives(text: str) -> list[str]:
    return text.splitlines()


def test_kubernetes_staging_directories_become_modules_of_the_same_release() -> None:
    module = dataclasses.replace(modules.KUBERNETES, version="1.36.2")
    lines = directives(wrapper(module, KUBERNETES_GO_MOD, [ETCD_GO_MOD, COREDNS_GO_MOD]))
    assert "require k8s.io/kubernetes v1.36.2" in lines
    assert "require k8s.io/api v0.36.2" in lines
    assert "replace k8s.io/api => k8s.io/api v0.36.2" in lines
    assert not [line for line in lines if "v0.0.0" in line or "./" in line]


def test_requirements_go_version_and_other_replacements_are_kept() -> None:
    lines = directives(wrapper(ALONE, KUBERNETES_GO_MOD))
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
    module = Module("etcd", "go.etcd.io/etcd/server/v3", "3.6.5", {"etcd": "go.etcd.io/etcd/server/v3"})
    lines = directives(wrapper(module, go_mod))
    assert "require go.etcd.io/etcd/api/v3 v3.6.5" in lines
    assert not [line for line in lines if line.startswith("replace")]


def test_another_version_of_a_requirement_is_compiled_in() -> None:
    module = dataclasses.replace(ALONE, replaced={"golang.org/x/sys": "0.39.0"})
    lines = directives(wrapper(module, KUBERNETES_GO_MOD))
    assert "require golang.org/x/sys v0.40.0" in lines
    assert "replace golang.org/x/sys => golang.org/x/sys v0.39.0" in lines


def test_companions_are_compiled_with_the_requirements_of_the_module() -> None:
    required = KUBERNETES_GO_MOD.replace("require (", "require (\n\tgithub.com/coredns/caddy v1.1.1")
    lines = directives(wrapper(modules.KUBERNETES, required, [ETCD_GO_MOD, COREDNS_GO_MOD]))
    assert f"require go.etcd.io/etcd/server/v3 v{versions.ETCD}" in lines
    assert f"require github.com/coredns/coredns v{versions.COREDNS}" in lines
    assert "require github.com/miekg/dns v1.1.72" in lines
    replaced = [line for line in lines if line.startswith(("replace golang.org/x/sys", "replace github.com/coredns"))]
    assert replaced == [
        f"replace github.com/coredns/caddy => github.com/coredns/caddy v{versions.CADDY}",
        "replace golang.org/x/sys => golang.org/x/sys v0.40.0",
    ]
    assert [line for line in lines if line.startswith("replace k8s.io/api")] == [
        f"replace k8s.io/api => k8s.io/api v0.{versions.KUBERNETES.partition('.')[2]}"
    ]
    # Alone, a module is compiled as it is required by whoever needs the newest.
    assert not [line for line in directives(wrapper(ALONE, required)) if line.startswith("replace golang.org")]


def test_a_companion_of_another_version_than_the_module_requires_is_refused() -> None:
    required = KUBERNETES_GO_MOD.replace("require (", "require (\n\tgo.etcd.io/etcd/server/v3 v3.5.0")
    with pytest.raises(ValueError, match=r"requires go\.etcd\.io/etcd/server/v3 v3\.5\.0, not v"):
        wrapper(modules.KUBERNETES, required, [ETCD_GO_MOD, COREDNS_GO_MOD])


def test_coredns_has_the_plugins_of_its_configuration_and_no_others() -> None:
    source = (modules.PROGRAMS / "coredns" / "main.go").read_text()
    (corefile,) = (m["data"]["Corefile"] for m in addons.coredns() if m["kind"] == "ConfigMap")
    named = {line.split()[0] for line in corefile.splitlines() if re.match(r" {2}[a-z]", line)}
    assert set(re.findall(r"coredns/plugin/(\w+)", source)) == named


def test_kubernetes_answers_to_the_name_of_each_of_its_programs() -> None:
    source = (modules.PROGRAMS / "kubernetes" / "main.go").read_text()
    names = set(re.findall(r'"(kube[a-z-]*)"', source))
    assert names == set(modules.KUBERNETES.links)
    assert set(modules.KUBERNETES.links.values()) == {"kubernetes"}


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
        dataclasses.replace(base, links={"other": "kwok"}).key,
        dataclasses.replace(base, companions={"example.org/x": "1.0.0"}).key,
    }
    assert len(keys) == 7
    assert versions.KWOK in base.key


def test_the_key_changes_with_a_main_package_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = modules.KUBERNETES.key
    assert modules.KUBERNETES.own_packages == ["coredns", "kubernetes", "pause"]
    shutil.copytree(modules.PROGRAMS, tmp_path / "programs")
    monkeypatch.setattr(modules, "PROGRAMS", tmp_path / "programs")
    assert modules.KUBERNETES.key == before
    with (tmp_path / "programs" / "pause" / "main.go").open("a") as file:
        file.write("// changed\n")
    assert modules.KUBERNETES.key != before


def test_a_cluster_is_built_from_what_its_options_need() -> None:
    plain = [modules.KUBERNETES, modules.KUBERAY]
    assert build.needed(Options()) == plain
    assert build.needed(Options(claim_gpus="H100-80GB:8")) == plain
    assert build.needed(Options(simulate=("L4:1x1",))) == [*plain, modules.KWOK]
    assert build.needed(Options(network_policies=True)) == [*plain, modules.KUBE_ROUTER]
    assert build.digest(Options(nodes=1)) == build.digest(Options(nodes=2))
    assert build.digest(Options()) != build.digest(Options(network_policies=True))


def test_the_programs_know_their_version() -> None:
    assert f"-X k8s.io/component-base/version.gitVersion=v{versions.KUBERNETES}" in modules.KUBERNETES.ldflags
    assert f"-X sigs.k8s.io/kwok/pkg/consts.Version=v{versions.KWOK}" in modules.KWOK.ldflags
