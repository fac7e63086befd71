"""A small API server: enough of the protocol to test a client against what goes wrong.

Objects live in memory under resourceVersions; lists page, watches stream with bookmarks, server-side apply merges,
knows field owners and rejects conflicts, rights are enforced once `granted` is set. A test can answer a request in its
place (`answer`) and cut watches (`send`).
"""

from __future__ import annotations

import copy
import json
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rayllm_ctl.model.kube.api_kinds import KINDS, Kind
from tests.cluster.fakeobjects import complete, field_set, leaves, merge, selected, without_given_up, without_null

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>.+))?"
)
_KINDS = {kind.name: kind for kind in KINDS.values()}
_RESOURCES: dict[tuple[str, str], Kind] = {(kind.group, kind.plural): kind for kind in KINDS.values()}

Key = tuple[str, str, str]
Answer = tuple[int, Any]
"""Status and body; a body that is a function gets the connection."""
Grant = tuple[str, str, bool]
"""Verb, resource (pods, pods/log, rayservices.ray.io), and whether it is for all namespaces."""

_ALWAYS = ("/version", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
"""What every user may ask."""

_SAVED = ("requests", "namespaces", "_objects", "_owners", "_history", "_rules", "_version")


@dataclass
class Request:
    """What a client sent."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class _Rule:
    method: str
    pattern: re.Pattern[str]
    make: Callable[[Request], Answer | None]
    left: int


def status(code: int, message: str, reason: str = "", **details: Any) -> Answer:
    """A failure Status as the API server sends it."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
    body |= {"message": message, "reason": reason}
    if details:
        body["details"] = details
    return code, body


@dataclass
class FakeAPI:
    """The state of the server; `url` is where it listens. Methods may be called from any thread.

    granted: the rights of the user, all if None; denied: rights that a request lacked. lists_rules: whether it can list
    the rules of a user, as it cannot where a webhook authorizes. applied: a controller that is told of every object
    that a client applied.
    """

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    installed: set[str] = field(default_factory=lambda: {kind.name for kind in KINDS.values()})
    namespaces: set[str] = field(default_factory=lambda: {"default", "llm"})
    oldest: int = 0
    page_limit: int | None = None
    granted: set[Grant] | None = None
    denied: list[Grant] = field(default_factory=list)
    lists_rules: bool = True
    applied: Callable[[dict[str, Any]], None] = lambda _item: None
    ending: threading.Event = field(default_factory=threading.Event)
    _objects: dict[Key, dict[str, Any]] = field(default_factory=dict)
    _owners: dict[Key, dict[str, str]] = field(default_factory=dict)
    _history: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    _watchers: list[tuple[str, str | None, queue.Queue[Any], dict[str, str]]] = field(default_factory=list)
    _rules: list[_Rule] = field(default_factory=list)
    _version: int = 100
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def answer(
        self, method: str, pattern: str, make: Answer | Callable[[Request], Answer | None], times: int = 1_000_000
    ) -> None:
        """Answer requests whose path matches `pattern` with `make`; the newest such rule wins.

        A callable may return None to decline.
        """
        call = make if callable(make) else lambda _request: make
        self._rules.insert(0, _Rule(method, re.compile(pattern), call, times))

    def saved(self) -> dict[str, Any]:
        """What it holds and was asked, for `restore`."""
        with self._lock:
            return copy.deepcopy({name: getattr(self, name) for name in _SAVED})

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from where a server, of which nothing is watched, was saved."""
        with self._lock:
            self.__dict__.update(copy.deepcopy(saved))

    def hang(self, method: str, pattern: str) -> None:
        """Let such requests wait until the test ends."""

        def wait(_request: Request) -> Answer:
            self.ending.wait(30)
            return 0, b""

        self.answer(method, pattern, wait)

    def close(self) -> None:
        """End all that waits for it: requests that hang, and watches."""
        self.ending.set()
        self.send(None)

    def put(self, **manifest: Any) -> dict[str, Any]:
        """Store an object (kind, metadata, ...), as another client would; returns it as stored."""
        kind = next(kind for kind in KINDS.values() if kind.name == manifest["kind"])
        with self._lock:
            metadata = {"namespace": "llm", **manifest["metadata"]} if kind.namespaced else dict(manifest["metadata"])
            key = (kind.name, metadata.get("namespace", ""), metadata["name"])
            return self._store(key, kind, {**manifest, "apiVersion": kind.api_version, "metadata": metadata})

    def update(self, manager: str, kind: str, name: str, **parts: Any) -> None:
        """Replace top-level parts of an object, as a controller's Update does: what changes is `manager`'s then."""
        with self._lock:
            key = (kind, "llm", name)
            before = leaves(self._objects[key])
            stored = self.put(**{**self._objects[key], **parts})
            changed = {path: manager for path, value in leaves(stored).items() if before.get(path) != value}
            self._owners[key] = self._owners.get(key, {}) | changed

    def remove(self, kind: str, name: str, namespace: str = "llm") -> None:
        with self._lock:
            item = self._objects.pop((kind, namespace, name), None)
            if item is None:
                return
            self._version += 1
            gone = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
            self._tell("DELETED", kind, gone)

    def stored(self, kind: str, name: str, namespace: str = "llm") -> dict[str, Any]:
        return self._objects[kind, namespace, name]

    def names(self, kind: str) -> list[str]:
        """The names of the objects of a kind."""
        return sorted(name for known, _, name in self._objects if known == kind)

    def bookmark(self) -> None:
        """Send every watch a bookmark at the present version."""
        with self._lock:
            self._version += 1
            event = {"metadata": {"resourceVersion": str(self._version)}}
            for kind, _, watcher, _ in self._watchers:
                watcher.put({"type": "BOOKMARK", "object": {"kind": kind, **event}})

    def send(self, raw: Any) -> None:
        """Send every watch an event, a raw line (bytes; empty ends the answer), or None to cut the connection."""
        with self._lock:
            for _, _, watcher, _ in self._watchers:
                watcher.put(raw)

    def watching(self) -> int:
        return len(self._watchers)

    def count(self, method: str, pattern: str) -> int:
        return sum(r.method == method and bool(re.search(pattern, r.path)) for r in self.requests)

    def respond(self, request: Request) -> Answer | queue.Queue[Any]:
        """What to send: a code and body, or the events of a watch."""
        self.requests.append(request)
        forbidden = self._forbidden(request)
        if forbidden is not None:
            return forbidden
        for rule in self._rules:
            if rule.left and rule.method == request.method and rule.pattern.search(request.path):
                made = rule.make(request)
                if made is not None:
                    rule.left -= 1
                    return made
        if request.path == "/version":
            return 200, {"gitVersion": "v1.36.2"}
        if request.path.startswith("/apis/") and request.path.count("/") == 3:
            return self._discovered(request.path.removeprefix("/apis/"))
        match = _PATH.fullmatch(request.path)
        kind = _RESOURCES.get((match["group"] or "", match["plural"])) if match else None
        if match is None or kind is None or kind.name not in self.installed:
            return 404, b"404 page not found\n"
        with self._lock:
            return self._serve(request, kind, match["namespace"], match["name"])

    def _forbidden(self, request: Request) -> Answer | None:
        match = _PATH.fullmatch(request.path)
        if self.granted is None or match is None or request.path.endswith(_ALWAYS):
            return None
        grant = _grant(request, match)
        if self._allows(grant):
            return None
        self.denied.append(grant)
        verb, resource, _ = grant
        plural, _, group = resource.partition(".")
        where = f'in the namespace "{match["namespace"]}"' if match["namespace"] else "at the cluster scope"
        text = f'User "alice" cannot {verb} resource "{plural}" in API group "{group}" {where}'
        return status(403, f"{plural} is forbidden: {text}", "Forbidden")

    def _allows(self, grant: Grant) -> bool:
        return self.granted is None or grant in self.granted or (*grant[:2], True) in self.granted

    def _review(self, body: Mapping[str, Any]) -> Answer:
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        resource += f".{asked['group']}" if asked["group"] else ""
        return 201, {"status": {"allowed": self._allows((asked["verb"], resource, not asked["namespace"]))}}

    def _rules_review(self) -> Answer:
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        if self.granted is not None:
            parted = [(verb, resource.partition(".")) for verb, resource, _ in sorted(self.granted)]
            rules = [{"verbs": [verb], "apiGroups": [group], "resources": [name]} for verb, (name, _, group) in parted]
        if not self.lists_rules:
            error = "webhook authorizer does not support user rule resolution"
            return 201, {"status": {"resourceRules": rules, "incomplete": True, "evaluationError": error}}
        return 201, {"status": {"resourceRules": rules, "incomplete": False}}

    def _serve(
        self, request: Request, kind: Kind, namespace: str | None, name: str | None
    ) -> Answer | queue.Queue[Any]:
        if name is None:
            if kind.name == "SelfSubjectAccessReview":
                return self._review(request.json())
            if kind.name == "SelfSubjectRulesReview":
                return self._rules_review()
            if kind.name == "SelfSubjectReview":
                return 201, {"status": {"userInfo": {"username": "alice@example.com"}}}
            if request.method == "POST":
                if request.query.get("dryRun") == "All":
                    return 201, request.json()
                return self._create(request.json(), kind, namespace)
            if request.query.get("watch"):
                return self._watch(request, kind, namespace)
            return self._list(request, kind, namespace)
        if kind.name == "Namespace" and request.method == "GET":
            if name not in self.namespaces:
                return self._missing(kind, name)
            metadata = {"name": name, "uid": f"uid-{name}"}
            return 200, {"kind": "Namespace", "metadata": metadata, "status": {"phase": "Active"}}
        key = (kind.name, namespace or "", name)
        if request.method == "PATCH":
            return self._patch(request, kind, key)
        if key not in self._objects:
            return self._missing(kind, name)
        if request.method == "DELETE":
            return self._delete(request, kind, key)
        return 200, self._objects[key]

    def _discovered(self, api_version: str) -> Answer:
        """The kinds of an API version, each with its status."""
        kinds = [kind for kind in _RESOURCES.values() if kind.api_version == api_version]
        found = [
            {"name": kind.plural + subresource, "kind": kind.name, "namespaced": kind.namespaced}
            for kind in kinds if kind.name in self.installed for subresource in ("/status", "")
        ]  # fmt: skip
        return (200, {"kind": "APIResourceList", "resources": found}) if found else (404, b"404 page not found\n")

    def _missing(self, kind: Kind, name: str) -> Answer:
        return status(404, f'{kind.resource} "{name}" not found', "NotFound", name=name, kind=kind.plural)

    def _create(self, body: dict[str, Any], kind: Kind, namespace: str | None) -> Answer:
        name = (body.get("metadata") or {}).get("name", "")
        if (kind.name, namespace or "", name) in self._objects:
            return status(409, f'{kind.plural} "{name}" already exists', "AlreadyExists", name=name, kind=kind.plural)
        return 201, self._store((kind.name, namespace or "", name), kind, body)

    def _delete(self, request: Request, kind: Kind, key: Key) -> Answer:
        uid = (request.json().get("preconditions") or {}).get("uid")
        item = self._objects[key]
        if uid != item["metadata"]["uid"]:
            return status(409, "the UID in the precondition does not match", "Conflict")
        kubelet = kind.name == "Pod"  # removes pods; here the test does
        if kubelet or item["metadata"].get("finalizers"):
            self._store(
                key, kind, {**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-11-21T10:00:00Z"}}
            )
        else:
            self.remove(*(key[0], key[2], key[1]))
            self._collect(item["metadata"]["uid"], orphan=request.json().get("propagationPolicy") == "Orphan")
        return 200, {"kind": "Status", "status": "Success"}

    def _collect(self, owner: str, *, orphan: bool) -> None:
        """What the garbage collector does with the children of an LLMService that is gone; it never takes others."""
        for (kind, namespace, name), item in list(self._objects.items()):
            references = item["metadata"].get("ownerReferences") or []
            left = [one for one in references if one["uid"] != owner]
            if left == references:
                continue
            if not orphan:
                self.remove(kind, name, namespace)
                continue
            metadata = {key: part for key, part in item["metadata"].items() if key != "ownerReferences"}
            metadata |= {"ownerReferences": left} if left else {}
            self._store((kind, namespace, name), _KINDS[kind], {**item, "metadata": metadata})

    def _list(self, request: Request, kind: Kind, namespace: str | None) -> Answer:
        items = [i for i in self._of(kind, namespace) if selected(i, request.query)]
        start = int(request.query.get("continue", "0"))
        limit = self.page_limit or int(request.query.get("limit", "0")) or len(items)
        page: dict[str, Any] = {"kind": f"{kind.name}List", "metadata": {"resourceVersion": str(self._version)}}
        # The API server leaves kind and apiVersion out of the items of a list.
        bare = [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items]
        page["items"] = bare[start : start + limit] if "limit" in request.query else bare
        if "limit" in request.query and start + limit < len(items):
            page["metadata"]["continue"] = str(start + limit)
        return 200, page

    def _watch(self, request: Request, kind: Kind, namespace: str | None) -> Answer | queue.Queue[Any]:
        since = int(request.query["resourceVersion"])
        events: queue.Queue[Any] = queue.Queue()
        if since < self.oldest:
            events.put({"type": "ERROR", "object": status(410, "too old resource version", "Expired")[1]})
            events.put(None)
            return events
        for version, type_, name, item in self._history:
            if version > since and name == kind.name and _in(item, namespace) and selected(item, request.query):
                events.put({"type": type_, "object": item})
        self._watchers.append((kind.name, namespace, events, request.query))
        return events

    def unwatch(self, events: queue.Queue[Any]) -> None:
        with self._lock:
            self._watchers = [watcher for watcher in self._watchers if watcher[2] is not events]

    def _patch(self, request: Request, kind: Kind, key: Key) -> Answer:
        if kind.namespaced and key[1] not in self.namespaces:
            return status(404, f'namespaces "{key[1]}" not found', "NotFound", name=key[1], kind="namespaces")
        if request.headers["Content-Type"] == "application/json-patch+json":
            return self._json_patch(request, kind, key)
        if request.headers["Content-Type"] == "application/merge-patch+json":
            return self._merge_patch(request.json(), kind, key)
        assert request.headers["Content-Type"] == "application/apply-patch+yaml"
        manager, wanted = request.query["fieldManager"], leaves(request.json())
        old = self._objects.get(key)
        had, owners = leaves(old or {}), dict(self._owners.get(key, {}))
        conflicts = [p for p, v in wanted.items() if p in had and had[p] != v and owners.get(p, manager) != manager]
        if conflicts and request.query["force"] != "true":
            causes = [
                {"reason": "FieldManagerConflict", "message": f'conflict with "{owners[p]}" using v1', "field": f".{p}"}
                for p in conflicts
            ]
            return status(409, "Apply failed with conflicts", "Conflict", name=key[2], causes=causes)
        read = request.json()["metadata"].get("resourceVersion")
        if old is not None and read not in (None, old["metadata"]["resourceVersion"]):
            return status(409, "the object has been modified", "Conflict", name=key[2], kind=kind.plural)
        owners |= dict.fromkeys(wanted, manager)
        fields = field_set({key: part for key, part in request.json().items() if key not in ("apiVersion", "kind")})
        for part in ("resourceVersion", "name", "namespace", "uid"):
            fields["f:metadata"].pop(f"f:{part}", None)
        entries = (old or {"metadata": {}})["metadata"].get("managedFields", ())
        before = {one["manager"]: one.get("fieldsV1", {}) for one in entries}
        given = before.pop(manager, {"f:metadata": {}})
        merged = merge(without_given_up(old or {}, given, fields, list(before.values())), request.json())
        if request.query.get("dryRun") == "All":
            return (200 if old else 201), _numbered(complete(merged, old, self._version), old)
        self._owners[key] = owners
        if old is not None and merged == old and fields == given:
            return 200, old
        managed = [entry for entry in entries if entry["manager"] != manager]
        if fields != {"f:metadata": {}}:
            managed.append({"manager": manager, "operation": "Apply", "fieldsV1": fields})
        merged = {**merged, "metadata": {**merged["metadata"], "managedFields": managed}}
        stored = self._store(key, kind, merged)
        self.applied(stored)
        return (200 if old else 201), stored

    def _merge_patch(self, body: dict[str, Any], kind: Kind, key: Key) -> Answer:
        item = self._objects.get(key)
        if item is None:
            return self._missing(kind, key[2])
        read = (body.get("metadata") or {}).get("resourceVersion")
        if read not in (None, item["metadata"]["resourceVersion"]):
            return status(409, "the object has been modified", "Conflict", name=key[2], kind=kind.plural)
        return 200, self._store(key, kind, without_null(merge(item, body)))

    def _json_patch(self, request: Request, kind: Kind, key: Key) -> Answer:
        item = json.loads(json.dumps(self._objects[key]))
        for operation in request.json():
            *parents, last = operation["path"].strip("/").split("/")
            target = item
            for part in parents:
                target = target[int(part)] if isinstance(target, list) else target[part]
            if operation["op"] == "test" and target[last] != operation["value"]:
                return status(422, "the server rejected our request due to an error in our request", "Invalid")
            if operation["op"] == "add":
                target[last] = operation["value"]
        return 200, self._store(key, kind, item)

    def _store(self, key: Key, kind: Kind, item: dict[str, Any]) -> dict[str, Any]:
        old = self._objects.get(key)
        self._version += 1
        stored = complete(item, old, self._version)
        if kind.namespaced:
            stored["metadata"]["namespace"] = key[1]
        _numbered(stored, old)
        self._objects[key] = stored
        self._tell("MODIFIED" if old else "ADDED", kind.name, stored)
        return stored

    def _tell(self, type_: str, kind: str, item: dict[str, Any]) -> None:
        self._history.append((self._version, type_, kind, item))
        for watched, namespace, watcher, query in self._watchers:
            if watched == kind and _in(item, namespace) and selected(item, query):
                watcher.put({"type": type_, "object": item})

    def _of(self, kind: Kind, namespace: str | None) -> Iterator[dict[str, Any]]:
        for (name, where, _), item in sorted(self._objects.items()):
            if name == kind.name and namespace in (None, where):
                yield item


def _numbered(stored: dict[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """An object with its generation, which another spec raises."""
    if old is None or old.get("spec") != stored.get("spec"):
        stored["metadata"]["generation"] = (old or {"metadata": {}})["metadata"].get("generation", 0) + 1
    elif "generation" in old["metadata"]:
        stored["metadata"]["generation"] = old["metadata"]["generation"]
    return stored


def _grant(request: Request, match: re.Match[str]) -> Grant:
    """The right that a request needs."""
    plural, name, subresource = match["plural"], match["name"], (match["subresource"] or "").partition("/")[0]
    if subresource == "proxy" or name:
        verb = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[request.method]
    elif request.query.get("watch"):
        verb = "watch"
    else:
        verb = {"GET": "list", "POST": "create"}[request.method]
    resource = f"{plural}/{subresource}" if subresource else plural
    if plural == "namespaces":
        return verb, resource, True
    return verb, f"{resource}.{match['group']}" if match["group"] else resource, not match["namespace"]


def _in(item: Mapping[str, Any], namespace: str | None) -> bool:
    return namespace is None or item["metadata"].get("namespace") == namespace
