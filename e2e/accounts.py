"""A service account whose rights change while commands run with them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from e2e.crowd import Client, Request
from e2e.harness import Bench, Object, Result
from e2e.oneprocess import OneProcess, one_process

_GROUP = "rbac.authorization.k8s.io"
_PATH = f"/apis/{_GROUP}/v1"
_LIMIT_SECONDS = 60.0


class Right(NamedTuple):
    """A verb on a resource, with its subresource. kind: Role or ClusterRole."""

    kind: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        """As errors name it: `get pods/log`, `list rayservices.ray.io`."""
        resource, slash, subresource = self.resource.partition("/")
        return f"{self.verb} {resource}{'.' if self.group else ''}{self.group}{slash}{subresource}"


class Account:
    """Runs commands as a service account with the rights that it was granted last."""

    def __init__(self, admin: Bench, commands: OneProcess) -> None:
        self.user = f"system:serviceaccount:{admin.namespace}:account"
        self._commands, self._namespace = commands, admin.namespace
        self._api = Client(admin.target)
        self._rights: set[Right] = set()
        self._name = f"account-{admin.namespace}"
        subject = {"kind": "ServiceAccount", "name": "account", "namespace": admin.namespace}
        for kind in ("Role", "ClusterRole"):
            metadata = {"metadata": {"name": self._name}}
            reference = {"apiGroup": _GROUP, "kind": kind, "name": self._name}
            self._send("POST", self._roles(kind), {**metadata, "rules": []})
            self._send("POST", self._roles(f"{kind}Binding"), {**metadata, "roleRef": reference, "subjects": [subject]})

    def run(self, *args: str, code: int | None = 0) -> Result:
        """rayllm-ctl with `args`; asserts its exit code unless `code` is None."""
        return self._commands.run(*args, code=code)

    def grant(self, rights: Collection[Right]) -> None:
        """Make `rights` all that the account may do, and wait until the API server acts on it."""
        wanted, before = set(rights), self._rights
        for kind in {right.kind for right in wanted ^ before}:
            rules = [
                {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
                for right in sorted(wanted)
                if right.kind == kind
            ]
            self._send("PATCH", f"{self._roles(kind)}/{self._name}", {"rules": rules})
        self._rights = wanted
        for right in wanted ^ before:
            self._settle(right)

    def close(self) -> None:
        """Delete what is outside the namespace."""
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            self._send("DELETE", f"{self._roles(kind)}/{self._name}")

    def _roles(self, kind: str) -> str:
        where = "" if kind.startswith("Cluster") else f"namespaces/{self._namespace}/"
        return f"{_PATH}/{where}{kind.lower()}s"

    def _send(self, method: str, path: str, body: Object | None = None) -> Object:
        answer: Object = self._api.send(Request(method, path, body))
        return answer

    def _settle(self, right: Right) -> None:
        """Wait until the API server has read what became of a right: it decides by a copy of the roles."""
        everywhere = right._replace(kind="ClusterRole") in self._rights
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb,
            "namespace": self._namespace if right.kind == "Role" else "",
        }  # fmt: skip
        spec = {"user": self.user, "resourceAttributes": attributes}
        end = time.monotonic() + _LIMIT_SECONDS
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        while self._send("POST", path, {"spec": spec})["status"]["allowed"] != (right in self._rights or everywhere):
            assert time.monotonic() < end, f"the right to {right} does not change"
            time.sleep(0.02)


@contextmanager
def account(admin: Bench, folder: Path) -> Iterator[Account]:
    """An account without rights in the namespace of a bench; its kubeconfig is in `folder`."""
    admin.kubectl("create", "serviceaccount", "account", "-n", admin.namespace)
    token = admin.kubectl("create", "token", "account", "-n", admin.namespace).strip()
    with one_process(admin.with_token(token, folder).target.environment) as commands:
        made = Account(admin, commands)
        try:
            yield made
        finally:
            made.close()
