"""Dockerfiles: of an image with all that the gateway and the Transformers engine need, of the controller and for CI."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rayllm_ctl import __version__
from rayllm_ctl.catalog.releases import require_release, resolve_release
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.checks.ray_features import INGRESS, TRANSFORMERS
from rayllm_ctl.model.spec.gateway import SERVING_PATH
from rayllm_ctl.model.spec.pod_contexts import RAY_USER
from rayllm_ctl.model.spec.service import Engine
from rayllm_ctl.model.text.patterns import IMAGE
from rayllm_ctl.render.servingcode import batch_files, digest, files, requirements, storage_files

_END = "END_OF_FILE"
_PYTHON = "python:3.12-slim"
_NOBODY = 65532
"""User and group of the controller, as of images without a shell: nothing on a node belongs to it."""


def image_recipe(engine: Engine) -> str:
    """The Dockerfile, which does not need other files.

    engine: its image is the base image, or its versions select Ray's public image. UsageError if there is none.
    """
    _check_reference(engine.image, "rayproject/ray-llm:2.60.0-py312-cu130")
    runtime = resolve_release(engine)
    if runtime.image is None:
        raise UsageError(runtime.image_note, hint="--image REGISTRY/IMAGE:TAG    # the image to build on")
    require_release((("the gateway", INGRESS), ("the Transformers engine", TRANSFORMERS)), runtime, engine)
    return "\n".join(_lines(runtime.image)) + "\n"


def controller_recipe(base: str | None) -> str:
    """The Dockerfile of the controller, which needs the wheel of this version in the build context.

    base: an image with Python to build on; None: the public one. UsageError if it is not a reference.
    """
    _check_reference(base, _PYTHON)
    built = f"REGISTRY/rayllm-controller:{__version__}"
    lines = (
        f"# The controller of rayllm-ctl {__version__}. In a checkout of this version, with Docker 23 or Podman 5:",
        "#   pip wheel --no-deps --wheel-dir dist .",
        f"#   rayllm-ctl image recipe --controller | docker build -t {built} -f - dist",
        *_installed(base or _PYTHON),
        f"USER {_NOBODY}:{_NOBODY}",
        'ENTRYPOINT ["rayllm-ctl"]',
        'CMD ["controller", "--all-namespaces"]',
    )
    return "\n".join(lines) + "\n"


def ci_recipe(base: str | None) -> str:
    """The Dockerfile of an image for jobs of a CI system; it needs the wheel of this version in the build context.

    base: an image with Python to build on; None: the public one. UsageError if it is not a reference. There is no
    entrypoint, since CI systems start a shell, and no user, since some of them write as root.
    """
    _check_reference(base, _PYTHON)
    lines = (
        f"# rayllm-ctl {__version__} for CI jobs, with git. In a checkout of this version, with Docker 23 or Podman 5:",
        "#   pip wheel --no-deps --wheel-dir dist .",
        f"#   rayllm-ctl image recipe --ci | docker build -t REGISTRY/rayllm-ctl:{__version__} -f - dist",
        *_installed(base or _PYTHON),
        "RUN command -v git > /dev/null \\",
        " || (apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*)",
        'CMD ["rayllm-ctl", "--help"]',
    )
    return "\n".join(lines) + "\n"


def _installed(base: str) -> Iterator[str]:
    """The command line in a virtual environment of the image, without what installed it."""
    wheel = f"rayllm_ctl-{__version__}-py3-none-any.whl"
    yield f"FROM {base} AS build"
    yield f"COPY {wheel} /tmp/"
    yield "RUN python3 -m venv --without-pip /opt/rayllm \\"
    yield f" && python3 -m pip --python /opt/rayllm/bin/python install --no-cache-dir /tmp/{wheel} \\"
    yield " && /opt/rayllm/bin/rayllm-ctl --help > /dev/null"
    yield f"FROM {base}"
    yield "COPY --from=build /opt/rayllm /opt/rayllm"
    yield "ENV PATH=/opt/rayllm/bin:$PATH PYTHONDONTWRITEBYTECODE=1"


def _check_reference(image: str | None, example: str) -> None:
    if image is not None and not IMAGE.fullmatch(image):
        raise UsageError(f"--image: not a valid image reference, such as {example}")


def _lines(base: str) -> Iterator[str]:
    yield f"# {base} with the gateway of rayllm-ctl {__version__}, what it imports, what engine kind transformers needs"
    yield "# on GPUs, and what vLLM needs to stream weights from a bucket. BuildKit (Docker 23), Podman 5:"
    yield "#   rayllm-ctl image recipe | docker build -t REGISTRY/ray-llm-gateway:TAG -"
    yield f"FROM {base}"
    yield "USER root"
    packages = [*requirements(), *requirements("gpu"), *requirements("streaming")]
    yield f"RUN python3 -m pip install --no-cache-dir {shlex.join(packages)}"
    for name, text in {**storage_files(), **batch_files(), **files()}.items():
        # Quoted, so that the shell expands nothing in the text.
        yield f'COPY <<"{_END}" {SERVING_PATH}/{name}'
        yield from text.splitlines()
        yield _END
    # On the path of this Python regardless of PYTHONPATH in the pods.
    yield "RUN site=$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))') \\"
    yield f' && echo {SERVING_PATH} > "$site/rayllm.pth" \\'
    yield f" && chmod -R a+rX {SERVING_PATH} \\"
    yield " && python3 -c 'import limits, redis, accelerate, runai_model_streamer, rayllm_ctl.serving'"
    yield f"LABEL io.rayllm.serving={digest(files())[:8]}"
    yield f"USER {RAY_USER['runAsUser']}:{RAY_USER['runAsGroup']}"
