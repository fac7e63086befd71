"""`image`: the image of head and workers."""

from __future__ import annotations

import click


@click.group(name="image", short_help="Print a Dockerfile for an image with all features.")
def command() -> None:
    """Build an image for features whose packages Ray's public image lacks; docs/serving.md lists them."""


@command.command(name="recipe", short_help="Print a Dockerfile.")
@click.option("--image", help="Image to build on; by default Ray's public one with Serve LLM.")
@click.option("--vllm-version", help="vLLM version of the image.")
def recipe(image: str | None, vllm_version: str | None) -> None:
    """Print a Dockerfile that adds the gateway's code, and packages, to an image with Ray and vLLM.

    \b
      rayllm-ctl image recipe | docker build -t registry.example/ray-llm-gateway:2.60.0 -
      rayllm-ctl deploy -f qwen.yaml --image registry.example/ray-llm-gateway:2.60.0
    """
    from rayllm_ctl.model.spec.service import Engine
    from rayllm_ctl.workflows.plan.image import image_recipe as dockerfile

    click.echo(dockerfile(Engine(image=image, vllm_version=vllm_version)), nl=False)
