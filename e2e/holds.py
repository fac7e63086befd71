"""Which answers of stand-in engines wait in which pods, and their release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from e2e.harness import Bench
from e2e.images.engine.rayllm_standin.holds import FOLDER

_LIST = f"""
for file in {FOLDER}/held/*; do
  name=${{file##*/}}; rest=${{name#*.}}
  if [ -e "$file" ] && [ -d "/proc/${{rest%%.*}}" ]; then echo "${{name%%.*}}"; fi
done
"""
"""Lists the holds of living processes, one for each answer."""

_RELEASE = f'mkdir -p {FOLDER}/released && for name in "$@"; do touch "{FOLDER}/released/$name"; done'


@dataclass(frozen=True)
class Holds:
    """The answers that wait in the worker pods of a selector."""

    bench: Bench
    selector: str = "ray.io/node-type=worker"

    def pods(self) -> list[str]:
        """The names of the pods whose container runs."""
        return [
            pod["metadata"]["name"]
            for pod in self.bench.items("pods", self.selector)
            if any("running" in box["state"] for box in pod["status"].get("containerStatuses", ()))
        ]

    def held(self) -> Mapping[str, Sequence[str]]:
        """The holds of the answers that wait now, sorted, by the name of the pod; one that several wait for repeats."""
        return {pod: sorted(self._shell(pod, _LIST).split()) for pod in self.pods()}

    def wait(self, *names: str) -> None:
        """Wait until exactly the answers of these holds wait."""
        seen = ["nothing"]

        def as_expected() -> bool:
            try:
                waiting = [name for names in self.held().values() for name in names]
            except AssertionError as error:
                seen[0] = str(error)  # a pod that ended meanwhile
                return False
            seen[0] = " ".join(sorted(waiting))
            return sorted(waiting) == sorted(names)

        try:
            self.bench.wait("the answers wait", as_expected, timeout=180, pause=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}: {' '.join(sorted(names))}; seen: {seen[0]}") from error

    def release(self, *names: str) -> None:
        """Release holds in the pods that run now."""
        for pod in self.pods():
            try:
                self._shell(pod, _RELEASE, "sh", *names)
            except AssertionError:
                if pod in self.pods():
                    raise

    def _shell(self, pod: str, script: str, *arguments: str) -> str:
        command = ("exec", pod, "-c", "ray-worker", "-n", self.bench.namespace, "--", "sh", "-c", script)
        return self.bench.kubectl(*command, *arguments)
