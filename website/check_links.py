"""Every link of a built site leads to a page, an anchor or a file of the site, every
page is at most two clicks from the first one, and nothing is fetched from elsewhere."""

import os
from html.parser import HTMLParser
from pathlib import Path
from typing import final
from urllib.parse import unquote, urlsplit

_FETCHES = {"img", "script", "iframe", "source", "video", "audio", "embed", "object"}


@final
class _Page(HTMLParser):
    """The anchors of a page, its links, and what a browser fetches to show it."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.update(values.get(key) or "" for key in ("id", "name"))
        target = values.get("href") or values.get("src") or values.get("data")
        if not target or target.startswith(("data:", "mailto:")):
            return
        if tag in _FETCHES or (tag == "link" and values.get("rel") != "canonical"):
            self.fetched.append(target)
        elif tag == "a":
            self.links.append(target)


def broken_links(site: Path) -> list[str]:
    """A sentence for each link that leads nowhere, and each file that is fetched from
    elsewhere."""
    pages = _read(site)
    problems = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        if name == "404.html":  # its links count from the root of a server
            continue
        for target in page.links + page.fetched:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.fetched:
                    problems.append(f"{name}: {target} is fetched from elsewhere")
                continue
            file = _file(path, parts.path)
            if not file.is_file():
                problems.append(f"{name}: there is no {target}")
            elif parts.fragment and file in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[file].anchors:
                    problems.append(f"{name}: there is no anchor {target}")
    return problems


def far_pages(site: Path, clicks: int = 2) -> list[str]:
    """The pages that are more than so many clicks from the first page."""
    pages = _read(site)
    reached = {site / "index.html"}
    for _ in range(clicks):
        reached |= {
            _file(path, urlsplit(target).path)
            for path in reached & pages.keys()
            for target in pages[path].links
            if not urlsplit(target).scheme
        }
    names = (p.relative_to(site).as_posix() for p in pages.keys() - reached)
    return sorted(name for name in names if name != "404.html")


def _read(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def _file(page: Path, target: str) -> Path:
    """The file that a link of a page leads to."""
    if not target:
        return page
    path = Path(os.path.normpath(page.parent / unquote(target)))
    return path / "index.html" if path.is_dir() else path
