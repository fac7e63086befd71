"""The Ray dashboard (port 8265) and the dashboard agent (52365) of a simulated pod."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from e2e.simulate import answers, jobs, settings
from e2e.simulate.clusters import Cluster
from e2e.simulate.http import Handler, Reply, json_reply, text_reply
from e2e.versions import RAY


class RayHandler(Handler):
    """Answers of the head's dashboard; on a worker only the agent's health, as there."""

    def reply(self, path: str, query: dict[str, str], body: bytes) -> Reply:
        route = path.rstrip("/")
        with self.server.clusters.at(self.asked) as found:
            if found is None:
                return text_reply(f"no simulated Ray pod has the address {self.asked}", 404)
            pod, cluster = found
            if route.endswith("healthz"):
                return text_reply("success")
            if route == "/_simulate":
                return self._simulate(cluster, body)
            if not pod.head:
                return text_reply("404: Not Found", 404)
            if route == "/api/version":
                return json_reply({"version": "4", "ray_version": RAY, "ray_commit": "", "session_name": "simulated"})
            if route == "/api/serve/applications":
                return self._applications(cluster, body)
            if route == "/api/v0/actors":
                return json_reply(answers.actors(cluster.serve, cluster.pods))
            if route == "/api/v0/logs/file":
                return self._log(cluster, query)
            if route.startswith("/api/jobs"):
                return self._jobs(cluster, route.removeprefix("/api/jobs").strip("/"), body)
            return text_reply("404: Not Found", 404)

    def _applications(self, cluster: Cluster, body: bytes) -> Reply:
        if self.command == "GET":
            return json_reply(answers.serve_details(cluster.serve, cluster.pods))
        if self.command == "DELETE":
            cluster.serve.shut_down()
            return text_reply("")
        if cluster.settings.reject:
            return text_reply(cluster.settings.reject, 400)
        cluster.serve.put(json.loads(body), self.server.clusters.clock())
        return text_reply("")

    def _simulate(self, cluster: Cluster, body: bytes) -> Reply:
        """GET: the settings. PUT: change the named ones; `crash` names a deployment of which a replica dies at once."""
        if self.command == "PUT":
            changes = json.loads(body)
            crash = changes.pop("crash", None)
            cluster.settings = settings.changed(cluster.settings, changes)
            if crash is not None and not cluster.serve.crash(crash):
                return text_reply(f"no replica of {crash!r} is running", 404)
        return json_reply(asdict(cluster.settings))

    def _log(self, cluster: Cluster, query: dict[str, str]) -> Reply:
        found = answers.find_replica(cluster.serve, query.get("actor_id", ""))
        if found is None:
            return text_reply(f"No actor with id {query.get('actor_id')}", 500)
        failure = cluster.settings.fail
        concerned = failure and failure.deployment and found[0].spec.name.startswith(failure.deployment)
        return text_reply(failure.log if failure and concerned and query.get("suffix") == "err" else "")

    def _jobs(self, cluster: Cluster, rest: str, body: bytes) -> Reply:
        now = self.server.clusters.clock()
        if not rest:
            if self.command == "POST":
                job = cluster.jobs.submit(json.loads(body), now)
                return json_reply({"job_id": job.submission_id, "submission_id": job.submission_id})
            return json_reply([jobs.details(job) for job in cluster.jobs.all()])
        name, _, verb = rest.partition("/")
        found = cluster.jobs.get(name)
        if found is None:
            return text_reply(f"Job {name} does not exist", 404)
        if self.command == "DELETE":
            return json_reply({"deleted": cluster.jobs.delete(found)})
        answer: dict[str, Any] = jobs.details(found)
        if verb == "logs":
            answer = {"logs": f"simulated run of: {found.request.get('entrypoint', '')}\n"}
        elif verb == "stop":
            answer = {"stopped": cluster.jobs.stop(found, now)}
        return json_reply(answer)
