"""spec.applications: Serve applications of the user's own next to the models, on workers of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class OwnApplication:
    """A Serve application of the user's own, next to the models."""

    name: Annotated[str, "Name of the application: a DNS label."]
    import_path: Annotated[str, "Application, or a function that builds it: package.module:name."]
    deployments: Annotated[
        tuple[Mapping[str, Any], ...], "All of its deployments: name and options, as in a Serve configuration."
    ]
    route_prefix: Annotated[str | None, "Path prefix of its requests; /NAME by default."] = None
    args: Annotated[Mapping[str, Any], "Arguments of the function that builds it."] = field(default_factory=dict)
    runtime_env: Annotated[Mapping[str, Any], "Runtime environment, as Ray takes it."] = field(default_factory=dict)
    code: Annotated[str | None, "Directory with its Python files, relative to the spec file."] = None

    @property
    def route(self) -> str:
        """The path prefix of its requests."""
        return f"/{self.name}" if self.route_prefix is None else self.route_prefix
