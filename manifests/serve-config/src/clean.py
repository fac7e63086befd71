"""Strip a text of control characters and count its words: two deployments, one behind the other."""

from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request


@serve.deployment
class Counter:
    def __call__(self, text: str) -> int:
        return len(text.split())


@serve.deployment
class Cleaner:
    def __init__(self, counter: DeploymentHandle) -> None:
        self._counter = counter

    async def __call__(self, request: Request) -> dict[str, object]:
        text = "".join(letter for letter in (await request.body()).decode() if letter.isprintable() or letter == " ")
        return {"text": text, "words": await self._counter.remote(text)}


app = Cleaner.bind(Counter.bind())
