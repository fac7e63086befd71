"""An application as a user would write it."""

from ray import serve


@serve.deployment
class Text:
    async def __call__(self, request):
        return await request.body()


def build(args):
    return Text.bind()
