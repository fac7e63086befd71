"""Which deployment answers for a model, and what GET /v1/models says of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rayllm_ctl.serving.gateway.settings import Model, by_name

RETRY_SECONDS: Final = 1.0
"""How often a deployment is looked for that is not there: applications of one configuration start in any order."""


class Handle(Protocol):
    """A DeploymentHandle of Ray Serve."""

    def options(self, *, stream: bool) -> Any:
        """The same handle with other options."""


Connect = Callable[[str, str], Awaitable[Handle]]
"""A handle by names of deployment and application; KeyError if there is no such deployment."""


class UnknownModel(Exception):
    """No model or adapter has this id."""


class ModelNotReady(Exception):
    """The application of the model is not deployed (yet)."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where requests for a model go; None while its deployment does not exist."""

    model: Model
    handle: Handle | None


class Routes:
    """The models by id, adapters under theirs. It is replaced as a whole, never changed."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = {route.model.id: route for route in routes}
        self._names = {name: self._routes[model.id] for name, model in by_name(self.models).items()}

    @classmethod
    async def connect(cls, models: Sequence[Model], connect: Connect) -> Routes:
        """Routes to `models`, those that are not there (yet) included."""

        async def find(model: Model) -> Route:
            try:
                handle = await connect(model.deployment, model.application)
            except KeyError:
                return Route(model, None)
            return Route(model, handle.options(stream=True))

        return cls([await find(model) for model in models])

    @property
    def complete(self) -> bool:
        """Whether the deployments of all models have been found."""
        return all(route.handle is not None for route in self._routes.values())

    @property
    def models(self) -> tuple[Model, ...]:
        """The models in the order of the settings."""
        return tuple(route.model for route in self._routes.values())

    def model_id(self, name: str | None) -> str:
        """The id that a request means: the only model's if it has none. UnknownModel if there is no such model."""
        if name is None and len(self._routes) == 1:
            return next(iter(self._routes))
        if name is None or name not in self._names:
            raise UnknownModel(name)
        return name

    def model(self, name: str) -> Model:
        """A model, or that of an adapter. UnknownModel if there is none."""
        route = self._names.get(name)
        if route is None:
            raise UnknownModel(name)
        return route.model

    def handle(self, name: str) -> Handle:
        """The handle of a model or of the model of an adapter. Raises UnknownModel or ModelNotReady."""
        route = self._names.get(name)
        if route is None:
            raise UnknownModel(name)
        if route.handle is None:
            raise ModelNotReady(name)
        return route.handle

    def handles(self) -> dict[str, Handle]:
        """The handles that exist, by the id of their model."""
        return {name: route.handle for name, route in self._routes.items() if route.handle is not None}

    def card(self, name: str) -> dict[str, Any]:
        """OpenAI's model object. UnknownModel if there is no such model."""
        route = self._names.get(name)
        if route is None:
            raise UnknownModel(name)
        model = route.model
        card: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": "rayllm"}
        if model.max_model_len is not None:
            card["max_model_len"] = model.max_model_len
        return card if name == model.id else {**card, "parent": model.id}

    def cards(self) -> dict[str, Any]:
        """The list of GET /v1/models: each model, followed by its adapters."""
        return {"object": "list", "data": [self.card(name) for name in self._names]}
