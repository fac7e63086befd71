"""Write the Containerfile of the serving image from what serving.py makes it of: `python -m e2e.images.containerfile`.

With it docker, podman or buildah build the image where debootstrap, or the rights that it needs, are missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from e2e.images import rootfs, serving

FILE: Final = Path(__file__).with_name("Containerfile")

# Beside Debian's Python, which runs the build: pip, and what makes the stubs in place of CUDA and strips libraries.
_BUILD_PACKAGES: Final = ("python3-pip", "gcc", "binutils")


def text() -> str:
    """The Containerfile."""
    env = " \\\n    ".join(f"{name}={value}" for name, value in serving.ENV.items())
    return f"""\
# Made by `python -m e2e.images.containerfile`. From the root of the repository:
#     docker build --platform linux/amd64 -f e2e/images/Containerfile -t {serving.REF} .
FROM docker.io/library/debian:{rootfs.SUITE}-slim AS debian
{_install(rootfs.PACKAGES)}

FROM debian AS build
{_install(_BUILD_PACKAGES)}
WORKDIR /src
COPY e2e/__init__.py e2e/versions.py e2e/
COPY e2e/cluster e2e/cluster
COPY e2e/images e2e/images
RUN python3 -m e2e.images.in_container /build/image

FROM debian
COPY --from=build /build/image /
RUN chown {serving.UID}:{serving.GID} {serving.HOME}
ENV {env}
CMD ["bash"]
"""


def _install(packages: tuple[str, ...]) -> str:
    return f"""\
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends {" ".join(packages)} \\
    && rm -rf /var/lib/apt/lists/*"""


if __name__ == "__main__":
    FILE.write_text(text())
