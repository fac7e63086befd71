"""The values that a flag or an argument can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import click

from rayllm_ctl.cli.completion import cluster
from rayllm_ctl.cli.options import MODEL_ARGUMENT
from rayllm_ctl.cli.settings.names import setting_fields, setting_name, setting_options

ValueSource = Callable[[click.Context, str], Iterable[str]]
"""From the context of the command and what was typed of the value to the known values."""


def known_values(param: click.Parameter, ctx: click.Context, typed: str) -> list[str] | None:
    """The values of a parameter that begin with what was typed, in any case; None if Click knows them, or nobody."""
    command = " ".join(one.info_name or "" for one in _above(ctx))
    known = _FLAGS if isinstance(param, click.Option) else _ARGUMENTS
    name = setting_name(param) if isinstance(param, click.Option) else param.name or ""
    find = known.get(f"{command} {name}", known.get(name))
    if find is None:
        return None
    return [value for value in find(ctx, typed) if value.lower().startswith(typed.lower())]


def _above(ctx: click.Context) -> list[click.Context]:
    """The contexts from the command below the root to `ctx`."""
    return [] if ctx.parent is None else [*_above(ctx.parent), ctx]


def _models(ctx: click.Context, typed: str) -> Sequence[str]:  # noqa: ARG001
    from rayllm_ctl.workflows.plan.names import model_names

    return model_names()


def _gpus(ctx: click.Context, typed: str) -> Sequence[str]:  # noqa: ARG001
    from rayllm_ctl.workflows.plan.names import gpu_names

    return gpu_names()


def _vllm_versions(ctx: click.Context, typed: str) -> Sequence[str]:  # noqa: ARG001
    from rayllm_ctl.workflows.plan.names import vllm_versions

    return vllm_versions()


def _kuberay_versions(ctx: click.Context, typed: str) -> Sequence[str]:  # noqa: ARG001
    from rayllm_ctl.model.kube.kuberay_versions import VERSIONS

    return VERSIONS


def _dtypes(ctx: click.Context, typed: str) -> Sequence[str]:  # noqa: ARG001
    from rayllm_ctl.model.spec.checks.engine_args import DTYPES

    return DTYPES


def _kv_cache_dtypes(ctx: click.Context, typed: str) -> Sequence[str]:  # noqa: ARG001
    from rayllm_ctl.model.spec.checks.engine_args import KV_CACHE_DTYPES

    return KV_CACHE_DTYPES


def _fields(ctx: click.Context, typed: str) -> list[str]:  # noqa: ARG001
    """The fields next to what was typed; with one alone also those below it, so that the shell adds no space."""
    from rayllm_ctl.errors import UserError
    from rayllm_ctl.specfile.explain import explain

    above, _, last = typed.rpartition(".")
    try:
        section = explain(above)
    except UserError:
        return []
    prefix = f"{above}." if above else ""
    found = [field for field in section.fields if field.name.lower().startswith(last.lower())]
    names = [f"{prefix}{field.name}" for field in found]
    if len(found) == 1:
        names += [f"{prefix}{found[0].name}.{field.name}" for field in found[0].fields]
    return [*names, *(["batchjob."] if not above else [])]


def _rights(ctx: click.Context, typed: str) -> Sequence[str]:  # noqa: ARG001
    from rayllm_ctl.workflows.setup.rbac import COMMANDS, ROLES

    return (*ROLES, *COMMANDS)


def _commands(ctx: click.Context, typed: str) -> Sequence[str]:  # noqa: ARG001
    """The commands below those that were typed of `help`."""
    shown: click.Command | None = ctx.find_root().command
    for word in ctx.params.get("words") or ():
        shown = shown.get_command(ctx, word) if isinstance(shown, click.Group) else None
    return shown.list_commands(ctx) if isinstance(shown, click.Group) else ()


def _settings(ctx: click.Context, typed: str) -> Iterable[str]:  # noqa: ARG001
    return setting_fields()


def _setting_values(ctx: click.Context, typed: str) -> Iterable[str]:
    option = setting_options().get(ctx.params.get("name") or "")
    if option is None:
        return ()
    known = known_values(option, ctx, typed)
    if known is None:
        known = [item.value for item in option.type.shell_complete(ctx, option, typed)]
    return ["true", "false"] if option.is_flag else known


_FLAGS: Mapping[str, ValueSource] = {
    "model": _models,
    "gpu": _gpus,
    "dtype": _dtypes,
    "kv-cache-dtype": _kv_cache_dtypes,
    "vllm-version": _vllm_versions,
    "kuberay-version": _kuberay_versions,
    "namespace": cluster.namespaces,
    "lease-namespace": cluster.namespaces,
    "context": cluster.contexts,
    "security": cluster.services,
    "rbac for": _rights,
    # The models of a service, which the cluster alone knows.
    **dict.fromkeys(("chat model", "scale model", "bench run model"), lambda ctx, typed: ()),  # noqa: ARG005
}
"""By the name of a flag, or that of a command and a flag."""

_ARGUMENTS: Mapping[str, ValueSource] = {
    "name": cluster.services,
    MODEL_ARGUMENT: _models,
    **dict.fromkeys(
        [f"batch {name} name" for name in ("status", "watch", "logs", "head", "download", "cancel", "resume")],
        cluster.jobs,
    ),
    "models name": _models,
    "gpus name": _gpus,
    "explain field": _fields,
    "help words": _commands,
    "config set name": _settings,
    "config unset name": _settings,
    "config set values": _setting_values,
}
