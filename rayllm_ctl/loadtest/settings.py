"""What a load test is to do, as data that travels to where it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Arrivals = Literal["poisson", "constant", "burst"]
API = Literal["chat", "completions"]
Report = Callable[[Mapping[str, Any]], None]
"""Takes the progress of a load: requests `done` and `failed`, those `running`, the number of the `load`, the `seconds`
since its first request (None before one of them was answered), the seconds `elapsed` since it began (None during the
warm-up), and whether it has `ended`."""


@dataclass(frozen=True)
class Target:
    """Where to send requests. `url` includes `/v1`. `models` take turns, and so do `keys`, API keys, which are shown
    nowhere.

    `ca_file`: certificates to trust instead of the system's; `insecure`: trust any.
    """

    url: str
    models: tuple[str, ...]
    keys: tuple[str, ...] = field(default=(), repr=False)
    api: API = "chat"
    ca_file: str = ""
    insecure: bool = False


@dataclass(frozen=True)
class Load:
    """How many requests, and when. Exactly one of `concurrency` and `rate` is set.

    concurrency: requests in flight at any time (closed loop).
    rate: requests per second (open loop), which arrive as `arrivals` says; `burst`: how many of them at once.
    requests: how many to send; duration: seconds in which to send them. What comes first ends the test.
    ramp: seconds in which the load grows from nothing to all of it.
    warmup: requests sent first, which do not count.
    timeout: seconds after which a request counts as failed.
    """

    concurrency: int | None = None
    rate: float | None = None
    arrivals: Arrivals = "poisson"
    burst: int = 1
    requests: int | None = None
    duration: float | None = None
    ramp: float = 0.0
    warmup: int = 0
    timeout: float = 600.0


@dataclass(frozen=True)
class Length:
    """A distribution of numbers of tokens.

    fixed: always `low`. uniform: `low` to `high`, both included. lognormal: with the median `low`, and `sigma` the
    standard deviation of the logarithm; at most `high`.
    """

    kind: Literal["fixed", "uniform", "lognormal"]
    low: int
    high: int
    sigma: float = 0.0


@dataclass(frozen=True)
class Prompts:
    """The requests' content: made up with given lengths, or from a file.

    input, output: lengths of prompts and answers in tokens. output None: up to the server, or as the file says.
    prefix: tokens at the beginning that prompts share; prefixes: how many different such beginnings there are.
    rows: from a file; each is a request body without model and stream. `output` is for those that set no limit.
    """

    input: Length = Length("fixed", 256, 256)
    output: Length | None = Length("fixed", 128, 128)
    prefix: int = 0
    prefixes: int = 1
    rows: tuple[Mapping[str, Any], ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Objective:
    """Limits in seconds that an answer should keep; None: any value will do.

    share: the share of requests that has to keep them, for a load to be called good.
    """

    ttft: float | None = None
    tpot: float | None = None
    itl: float | None = None
    e2e: float | None = None
    share: float = 0.95

    @property
    def set(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in (self.ttft, self.tpot, self.itl, self.e2e))


@dataclass(frozen=True)
class Settings:
    """One test: `loads` are measured one after another.

    body: fields that every request has in addition (temperature, ignore_eos). stream: whether answers are streamed.
    """

    target: Target
    loads: tuple[Load, ...]
    prompts: Prompts = Prompts()
    objective: Objective = Objective()
    body: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True

    def to_json(self) -> dict[str, Any]:
        """As JSON data, without the keys."""
        data = asdict(self)
        del data["target"]["keys"]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any], keys: tuple[str, ...] = ()) -> Settings:
        """What `to_json` wrote, with keys. TypeError or KeyError if it is something else."""
        prompts = dict(data["prompts"])
        for name in ("input", "output"):
            prompts[name] = Length(**prompts[name]) if prompts[name] is not None else None
        prompts["rows"] = tuple(prompts["rows"])
        target = {**data["target"], "models": tuple(data["target"]["models"])}
        return cls(
            Target(**target, keys=keys),
            tuple(Load(**load) for load in data["loads"]),
            Prompts(**prompts),
            Objective(**data["objective"]),
            data["body"],
            data["stream"],
        )
