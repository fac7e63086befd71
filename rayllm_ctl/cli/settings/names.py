"""Which flags are settings, and the variables of this project that are not.

A setting has one name: the flag --hf-token-secret is hf-token-secret in the configuration file and
RAYLLM_HF_TOKEN_SECRET in the environment, for every command that has the flag.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

import click

VARIABLE_PREFIX = "RAYLLM_"

_OF_ONE_SERVICE = frozenset(
    {"model.id", "name", "model.revision", "model.path", "engine.args", "engine.env", "load.calibration"}
)
"""Fields that differ with every service, or that may contain a secret."""

_OF_ITS_FILES = ("storage.model.", "storage.caches.")
"""Sections whose fields say where one service has its files."""

_OTHERS = (
    "namespace", "context", "kubeconfig", "request-timeout", "offline", "from-hub", "prices", "template-dir",
    "kuberay-version",
)  # fmt: skip
"""Settings that are not fields of a spec file."""

PATHS = frozenset({"kubeconfig", "prices", "template-dir"})
"""Settings that are paths of this machine."""

OTHER_MEANING: Mapping[str, Collection[str]] = {
    "batch init": ("concurrency",),
    "batch submit": ("concurrency",),
    "bench run": ("concurrency", "input-tokens", "output-tokens", "rate"),
    "bench sweep": (
        "concurrency", "input-tokens", "output-tokens", "rate", "replicas", "tp", "pp", "max-num-seqs",
    ),
    "image recipe": ("image", "vllm-version"),
    "logs": ("engine",),
    "scale": ("replicas", "min-replicas", "max-replicas"),
}  # fmt: skip
"""Flags of a command that have the name of a setting and mean something else."""

OTHER_VARIABLES = frozenset(
    {
        "RAYLLM_CONFIG",
        "RAYLLM_API_KEY",
        *("RAYLLM_COLOR", "RAYLLM_DEBUG", "RAYLLM_VERBOSE"),
        "RAYLLM_DOCS_REPOSITORY",  # where the documentation is built
        # In the pods of services; set here by somebody who runs such a container, or Ray.
        *("RAYLLM_REDIS_PASSWORD", "RAYLLM_INGRESS_CODE", "RAYLLM_ENGINE_START_TIMEOUT_S"),
        *("RAYLLM_VLLM_ENGINE_CLS", "RAYLLM_BATCH_ENGINE_STAGE"),
    }
)
"""Variables that have a meaning without being settings. Those that begin with RAYLLM_ROUTER_ are Ray's."""


@cache
def setting_fields() -> Mapping[str, str]:
    """The field of a spec file that each setting sets; empty for those that set none. In the order of `config view`."""
    from rayllm_ctl.cli.spec_flags import DEPLOY_FLAGS, SERVICE_FLAGS

    flags = {declaration[-1][2:]: field for declaration, field, _ in SERVICE_FLAGS + DEPLOY_FLAGS}
    fields = {name: field for name, field in flags.items() if _is_shared(field)}
    return {**dict.fromkeys(_OTHERS, ""), **fields}


def _is_shared(field: str) -> bool:
    return field not in _OF_ONE_SERVICE and not field.startswith(_OF_ITS_FILES)


@cache
def setting_options() -> Mapping[str, click.Option]:
    """The flag of each setting, as most commands declare it."""
    from rayllm_ctl.cli.kube_flags import kube_options
    from rayllm_ctl.cli.options import facts_options, kuberay_option, service_options, template_option

    @service_options()
    @facts_options
    @template_option
    @kuberay_option()
    @kube_options
    def nothing() -> None:
        pass

    declared: list[click.Option] = nothing.__click_params__  # type: ignore[attr-defined]
    options = {setting_name(option): option for option in declared}
    return {name: options[name] for name in setting_fields()}


def setting_name(option: click.Parameter) -> str:
    """The name of the setting that a flag would be: its long form without the dashes."""
    return max(option.opts, key=len).lstrip("-")


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return VARIABLE_PREFIX + name.upper().replace("-", "_")


def is_setting(option: click.Parameter, command: str) -> bool:
    """Whether a flag of `command` ("bench run") is a setting."""
    name = setting_name(option)
    return isinstance(option, click.Option) and name in setting_fields() and name not in OTHER_MEANING.get(command, ())
