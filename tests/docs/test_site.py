"""The built site: no dead link, nothing from elsewhere, every page in the navigation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT


class Page(HTMLParser):
    """The anchors of a page, its links, and what a browser loads with it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "__skip"}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        elif tag == "link" and named.get("rel") != "canonical":
            self.loaded.append(named["href"])
        elif "src" in named:
            self.loaded.append(named["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make lint` builds it, without the address of a repository."""
    folder = tmp_path_factory.mktemp("site")
    environment = {name: value for name, value in os.environ.items() if name != "RAYLLM_DOCS_REPOSITORY"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}


def test_no_link_of_the_site_is_dead(site: Path, pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    dead = []
    for file, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors if target in pages else {"", unquote(parts.fragment)}
            if not target.is_file() or unquote(parts.fragment) not in known:
                dead.append(f"{file.relative_to(site)}: {link}")
    assert dead == []


def test_the_site_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    elsewhere = re.compile(r"(https?:)?//")
    assert [link for page in pages.values() for link in page.loaded if elsewhere.match(link)] == []
    styles = [file.read_text(encoding="utf-8") for file in site.rglob("*.css")]
    assert len(styles) >= 2
    assert [found for style in styles for found in re.findall(r"url\([\"']?((?:https?:)?//[^)]+)", style)] == []


def test_every_page_is_in_the_navigation(site: Path, pages: dict[Path, Page]) -> None:
    linked = {(site / unquote(urlsplit(link).path)).resolve() for link in pages[site / "index.html"].links}
    assert {str(file.relative_to(site)) for file in pages if file not in linked} - {"index.html"} == set()


def test_links_that_lead_out_of_the_documentation_name_the_repository(tmp_path: Path) -> None:
    environment = os.environ | {"RAYLLM_DOCS_REPOSITORY": "https://git.example/rayllm-ctl"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    links = Page(tmp_path / "how-to/gitops.html").links
    assert "https://git.example/rayllm-ctl/blob/main/manifests/kustomize" in links
