"""Bring the cluster up and take it down: the order of things."""

from __future__ import annotations

import concurrent.futures
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.cluster import (
    addons,
    build,
    cgroups,
    clean,
    controlplane,
    gpus,
    host,
    interrupt,
    layout,
    lock,
    network,
    node,
    pki,
    prepare,
    processes,
    shell,
    simulation,
    state,
    store,
    sysctls,
)
from e2e.cluster.api import Api
from e2e.cluster.capacity import Claim
from e2e.cluster.errors import RigError
from e2e.cluster.layout import Node, Run
from e2e.cluster.progress import Progress
from e2e.cluster.state import Journal, Options, State

_READY_SECONDS: Final = 120.0


def up(options: Options, progress: Progress) -> Run:
    """Bring up a cluster as `options` say and wait until it is ready; quick if it runs already.

    RigError if another cluster runs, the machine lacks something or a part does not start: nothing is left but logs.
    """
    with lock.exclusive("up"):
        run = layout.current_run()
        _refuse_foreign(run)
        claims = gpus.claims(options)
        if _is_dead(run):
            progress("clearing what is left of a cluster that died")
            clean.clear(run)
        with interrupt.noted(shell.end_running):
            if running := state.load(run.state):
                _check_running(running, options, run, progress)
                return run
            host.check(cold=bool(build.missing(options)))

            def complete_machine() -> None:
                host.install_packages(progress)
                host.check_addresses()

            template = prepare.prepare(options, progress, complete_machine)
        store.remove_unused()
        try:
            with interrupt.noted(shell.end_running):
                _start(run, options, claims, template, progress)
        except BaseException:
            _keep_logs(run)
            progress(f"the start failed: clearing up (the logs are kept in {layout.failed_logs()})")
            clean.clear(run)
            raise
        return run


def down(progress: Progress) -> None:
    """Take the cluster down and leave nothing; no error if there is none."""
    with lock.exclusive("down"):
        run = layout.current_run()
        _refuse_foreign(run)
        if not clean.anything_left(run):
            progress("no cluster is up")
            return
        clean.clear(run)
        progress("down: nothing is left of the cluster")


def _refuse_foreign(run: Run) -> None:
    """The cluster of another cache directory is known by what its bridge says; only that directory can take it down."""
    owner = network.owner()
    if owner and owner != str(run.directory):
        cache_home = Path(owner).parents[2]
        raise RigError(
            f"a cluster with its files in {owner} is on this machine, and there can be only one",
            f"XDG_CACHE_HOME={cache_home} python -m e2e.cluster down",
        )


def _is_dead(run: Run) -> bool:
    """Whether what is on the machine is the rest of a cluster that died or never became ready."""
    record = state.load(run.state)
    return clean.anything_left(run) and (record is None or not record.ready or bool(record.dead()))


def _check_running(running: State, options: Options, run: Run, progress: Progress) -> None:
    """Return if the cluster that is up has what was asked for; RigError if it has less or is not well."""
    hint = "python -m e2e.cluster down, then `up` again"
    if not running.options.include(options):
        raise RigError(f"a cluster of other options is up: {running.options.flags()}", hint)
    template = prepare.prepare(running.options, progress, lambda: host.install_packages(progress))
    if running.build != _build_key(running.options, template):
        raise RigError("the cluster that is up runs other versions or images than these", hint)
    api = Api(run.pki)
    processes.wait(lambda: _nodes_ready(api) and addons.ready(api), "the cluster that is up", _READY_SECONDS, [], hint)
    progress("the cluster is up already")


def _start(run: Run, options: Options, claims: list[Claim], template: Path, progress: Progress) -> None:
    before = State(
        options=options,
        build=_build_key(options, template),
        sysctls=sysctls.current(),
        directories=clean.missing_directories(node.MOUNT_POINTS),
        controllers=cgroups.enabled_at_root(),
    )
    journal = Journal(run.state, before)
    for directory in before.directories:
        Path(directory).mkdir(exist_ok=True)
    sysctls.raise_limits()
    cgroups.create(layout.SYSTEM_CGROUP)
    cgroups.raise_weight(layout.CGROUP, unified=False)
    # Pods that take all CPUs would leave the API server and etcd a third of them: answers took up to 12 s.
    cgroups.raise_weight(layout.SYSTEM_CGROUP, unified=True)
    network.make_bridge(str(run.directory))
    nodes = [run.node(number) for number in range(1, options.nodes + 1)]
    pki.make(run.pki, nodes)
    pki.write_kubeconfig(run.pki, "admin", run.kubeconfig)

    with concurrent.futures.ThreadPoolExecutor(options.nodes + 1) as pool:
        prepared = [
            pool.submit(node.prepare, each, [other for other in nodes if other != each], claim, template, run, journal)
            for each, claim in zip(nodes, claims, strict=True)
        ]
        api = controlplane.start(run, journal)
        progress("API server ready")
        installed = pool.submit(addons.install, api, network_policies=options.network_policies)
        for future in prepared:
            node.join(future.result(), run, journal)
        if options.simulate:
            simulation.start(options.simulate, api, run, journal)
        installed.result()
    needed = list(journal.state.processes)
    hint = f"does a firewall of this machine drop what comes in on {layout.BRIDGE}? See `nft list ruleset`"
    processes.wait(lambda: _registered(api, nodes), "the nodes to register", _READY_SECONDS, needed, hint)
    if options.network_policies:
        for future in prepared:
            node.enforce_policies(future.result(), run, journal)
    needed = list(journal.state.processes)
    for each, claim in zip(nodes, claims, strict=True):
        if claim.extended:
            api.merge(f"{each.api_path}/status", {"status": {"capacity": claim.extended}})
    processes.wait(lambda: _nodes_ready(api), "the nodes to be ready", _READY_SECONDS, needed)
    progress("nodes ready")
    processes.wait(lambda: addons.ready(api), "DNS and the KubeRay operator", _READY_SECONDS, needed)
    journal.state.ready = True
    journal.save()
    progress("DNS and KubeRay operator ready")


def _registered(api: Api, nodes: Sequence[Node]) -> bool:
    return all(api.get(node.api_path) for node in nodes)


def _nodes_ready(api: Api) -> bool:
    conditions = [node["status"].get("conditions", []) for node in api.get("/api/v1/nodes")["items"]]
    return all(any(c["type"] == "Ready" and c["status"] == "True" for c in of_one) for of_one in conditions)


def _build_key(options: Options, template: Path) -> str:
    """What tells two clusters of equal options apart: their programs and images."""
    return f"{build.digest(options)}-{template.name}"


def _keep_logs(run: Run) -> None:
    kept = layout.failed_logs()
    shutil.rmtree(kept, ignore_errors=True)
    if run.logs.exists():
        shutil.copytree(run.logs, kept)
