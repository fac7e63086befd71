"""The Go modules that the cluster is built from, and the wrapper module through which each is built."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e import versions

PROGRAMS: Final = Path(__file__).parent / "programs"
"""The main packages of ours: a package `./NAME` of a module is the one in the folder NAME here."""


@dataclass(frozen=True)
class Module:
    """A Go module at a pinned version.

    `packages` maps each program's name to its package, `links` further names to one of these programs; `folders` are
    the module's directories that are kept beside the programs. `companions` are modules, with their versions, that are
    compiled with this one's requirements, so that most of what they need is compiled already. `stamps` are the
    variables (linker's -X) by which programs know their version, `replaced` are modules of which another version is
    compiled in than the one that is required.
    """

    name: str
    path: str
    version: str
    packages: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    companions: Mapping[str, str] = field(default_factory=dict)
    stamps: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key in the cache: the version, and a digest of the rest of the recipe."""
        maps = sorted(self.packages.items()), self.folders, sorted(self.stamps.items())
        more = [sorted(each.items()) for each in (self.links, self.companions) if each]
        digest = hashlib.sha256(repr((self.path, *maps, *sorted(self.replaced.items()), *more)).encode())
        for name in self.own_packages:
            digest.update((PROGRAMS / name / "main.go").read_bytes())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:8]}"

    @property
    def own_packages(self) -> list[str]:
        """The folders of PROGRAMS that are among its packages."""
        return sorted(package.removeprefix("./") for package in self.packages.values() if package.startswith("./"))

    @property
    def ldflags(self) -> str:
        """The linker's flags: no symbol tables, and the stamps."""
        return " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in sorted(self.stamps.items()))])


def _kubernetes() -> Module:
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
    major, minor, _ = versions.KUBERNETES.split(".")
    component = "k8s.io/component-base/version"
    return Module(
        "kubernetes",
        "k8s.io/kubernetes",
        versions.KUBERNETES,
        {
            "kubernetes": "./kubernetes",
            "coredns": "./coredns",
            "etcd": "go.etcd.io/etcd/server/v3",
            "pause": "./pause",
        },
        links=dict.fromkeys(names, "kubernetes"),
        companions={"go.etcd.io/etcd/server/v3": versions.ETCD, "github.com/coredns/coredns": versions.COREDNS},
        stamps={
            # Unstamped, the cluster calls itself v0.0.0-master.
            f"{component}.gitVersion": f"v{versions.KUBERNETES}",
            f"{component}.gitMajor": major,
            f"{component}.gitMinor": minor,
            f"{component}.gitTreeState": "clean",
            "k8s.io/client-go/pkg/version.gitVersion": f"v{versions.KUBERNETES}",
        },
        replaced={"github.com/coredns/caddy": versions.CADDY},
    )


KUBERNETES: Final = _kubernetes()
"""Kubernetes and, compiled with its libraries, what a cluster has beside it: etcd, CoreDNS, the sandboxes' program."""

KUBERAY: Final = Module(
    "kuberay",
    "github.com/ray-project/kuberay/ray-operator",
    versions.KUBERAY,
    {"kuberay-operator": "github.com/ray-project/kuberay/ray-operator"},
    folders=("config/crd/bases", "config/rbac"),
)
KWOK: Final = Module(
    "kwok",
    "sigs.k8s.io/kwok",
    versions.KWOK,
    {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    folders=("kustomize/stage",),
    stamps={"sigs.k8s.io/kwok/pkg/consts.Version": f"v{versions.KWOK}"},
)
HELM: Final = Module(
    "helm",
    "helm.sh/helm/v3",
    versions.HELM,
    {"helm": "helm.sh/helm/v3/cmd/helm"},
    stamps={"helm.sh/helm/v3/internal/version.version": f"v{versions.HELM}"},
)
KUBE_ROUTER: Final = Module(
    "kube-router",
    "github.com/cloudnativelabs/kube-router/v2",
    versions.KUBE_ROUTER,
    {"kube-router": "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"},
    stamps={"github.com/cloudnativelabs/kube-router/v2/pkg/version.Version": f"v{versions.KUBE_ROUTER}"},
    replaced={"github.com/vishvananda/netlink": versions.NETLINK},
)

VERSITYGW: Final = Module(
    "versitygw",
    "github.com/versity/versitygw",
    versions.VERSITYGW,
    {"versitygw": "github.com/versity/versitygw/cmd/versitygw"},
)
"""An S3 server over a folder."""

HEY: Final = Module("hey", "github.com/rakyll/hey", versions.HEY, {"hey": "github.com/rakyll/hey"})
"""A load generator to compare ours with."""

FAKE_GCS_SERVER: Final = Module(
    "fake-gcs-server",
    "github.com/fsouza/fake-gcs-server",
    versions.FAKE_GCS_SERVER,
    {"fake-gcs-server": "github.com/fsouza/fake-gcs-server"},
)
"""A server of the API of Google Cloud Storage."""


def wrapper(module: Module, go_mod: str, companions: Sequence[str] = ()) -> str:
    """The go.mod of a module of ours that requires `module` and its companions; the texts are those of their go.mod.

    Go honours `replace` only in the main module, so they are repeated here. Replacements by directories of the module's
    repository become published modules: Kubernetes' staging directories those of the same release (k8s.io/api v0.36.2
    belongs to v1.36.2), others the version that is required. With all requirements repeated as well, the proxy is never
    asked for a list of versions: some refuse it. What a companion requires is compiled in as `module` requires it.
    Raises ValueError for a directory that has no published version, and for a companion that `module` itself requires
    at another one.
    """
    release = f"v0.{module.version.partition('.')[2]}"
    directives = list(_directives(go_mod))
    staged = {
        words[0] for verb, words in directives if verb == "replace" and words[-1].endswith(f"/staging/src/{words[0]}")
    }
    lines = [f"module rayllm.local/{module.name}", f"require {module.path} v{module.version}"]
    required = {}
    for verb, words in directives:
        if words[0] in staged:
            # Both are needed: the requirement names the version that is compiled in, the replacement holds for others
            # that require the unpublished v0.0.0.
            words = [words[0], release] if verb == "require" else [words[0], "=>", words[0], release]
        elif verb == "module" or (verb == "replace" and words[-1].startswith(".")):
            continue
        elif verb == "require":
            if words[1] == "v0.0.0":
                raise ValueError(f"{module.path} requires {words[0]}, a directory of its repository, not published")
            required[words[0]] = words[1]
        lines.append(" ".join([verb, *words]))
    for (path, version), text in zip(module.companions.items(), companions, strict=True):
        if required.get(path, f"v{version}") != f"v{version}":
            raise ValueError(f"{module.path} requires {path} {required[path]}, not v{version}")
        lines.append(f"require {path} v{version}")
        lines += [f"require {' '.join(words)}" for verb, words in _directives(text) if verb == "require"]
    replaced = required if companions else {}
    replaced |= {path: f"v{version}" for path, version in module.replaced.items()}
    lines += [f"replace {path} => {path} {version}" for path, version in replaced.items()]
    return "\n".join(lines) + "\n"


def _directives(go_mod: str) -> Iterator[tuple[str, list[str]]]:
    """Each directive of a go.mod as its verb and words, those in parentheses one by one; comments are dropped."""
    block = ""
    for line in go_mod.splitlines():
        words = line.partition("//")[0].split()
        if words == [")"]:
            block = ""
        elif len(words) == 2 and words[1] == "(":
            block = words[0]
        elif words:
            yield (block, words) if block else (words[0], words[1:])
