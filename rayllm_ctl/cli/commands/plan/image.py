"""`image`: the image of head and workers, that of the controller, and one for CI jobs."""

from __future__ import annotations

import click

from rayllm_ctl.cli.parsing.command import Command, CommandGroup
from rayllm_ctl.errors import UsageError


@click.group(cls=CommandGroup, name="image", short_help="Print a Dockerfile for an image with all features.")
def command() -> None:
    """Make an image with packages that Ray's public image lacks (docs/how-to/serving.md), or of the controller.

    \b
      rayllm-ctl image recipe | docker build -t registry.example/ray-llm:2.60.0 -
    """


@command.command(cls=Command, name="recipe", short_help="Print a Dockerfile.")
@click.option("--image", help="Image to build on; by default Ray's public one with Serve LLM, or Python's.")
@click.option("--vllm-version", help="vLLM version in it.")
@click.option("--controller", is_flag=True, help="The image of the controller, from a wheel of this version.")
@click.option("--ci", is_flag=True, help="An image for CI jobs with rayllm-ctl and git, from a wheel of this version.")
def recipe(image: str | None, vllm_version: str | None, controller: bool, ci: bool) -> None:
    """Print a Dockerfile that adds the gateway's code, and packages, to an image with Ray and vLLM.

    \b
      rayllm-ctl image recipe | docker build -t registry.example/ray-llm:2.60.0 -
      rayllm-ctl deploy -f qwen.yaml --image registry.example/ray-llm:2.60.0
      rayllm-ctl image recipe --controller | docker build -t controller -f - dist
      rayllm-ctl image recipe --ci | docker build -t ci -f - dist
    """
    from rayllm_ctl.model.spec.service import Engine
    from rayllm_ctl.workflows.plan.image import ci_recipe, controller_recipe, image_recipe

    if controller and ci:
        raise UsageError("--controller and --ci are two images")
    if (controller or ci) and vllm_version is not None:
        raise UsageError(f"--vllm-version: the image {'of the controller' if controller else 'for CI'} has no vLLM")
    if controller:
        text = controller_recipe(image)
    elif ci:
        text = ci_recipe(image)
    else:
        text = image_recipe(Engine(image=image, vllm_version=vllm_version))
    click.echo(text, nl=False)
