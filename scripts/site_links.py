"""A hook of mkdocs: pages that stand outside docs/, and links that lead out of it.

Links are those between files of the repository, so that they work where it is read. A link to a file that is not a page
becomes one to the repository if its address is known (RAYLLM_DOCS_REPOSITORY), and plain text with the path otherwise.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {
    "CHANGELOG.md": "contributing/changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "charts/rayllm-operator/README.md": "reference/chart-controller.md",
    "charts/rayllm/README.md": "reference/chart-models.md",
    "manifests/README.md": "reference/examples.md",
}
"""Pages of the site by their file, where that is not below docs/."""
SOURCES = {page: source for source, page in OUTSIDE.items()}

FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    parts = FENCED.split(markdown)
    rewrite = partial(rewritten, page=page.file.src_uri, repository=config.repo_url)
    parts[::2] = [LINK.sub(rewrite, part) for part in parts[::2]]
    return "".join(parts)


def rewritten(link: re.Match[str], page: str, repository: str | None) -> str:
    """The link as the site needs it."""
    if re.match(r"[a-z]+:|/", link["target"]):
        return link[0]
    source = SOURCES.get(page, f"docs/{page}")
    target = normpath(join(dirname(source), link["target"]))
    inside = OUTSIDE.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
    if inside is not None:
        return f"[{link['text']}]({relpath(inside, dirname(page))}{link['anchor'] or ''})"
    if not (ROOT / target).exists():
        raise FileNotFoundError(f"{source} links to {target}")
    if repository:
        return f"[{link['text']}]({repository.rstrip('/')}/blob/main/{target}{link['anchor'] or ''})"
    return link["text"] if target in link["text"] else f"{link['text']} (`{target}`)"
