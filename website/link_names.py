"""Public names in the text of a page lead to their entry in the reference.

`dd.solve` and `dd.Data(t, x)` are found by their names, and `fit.predict(...)` is a
method of `Estimate`."""

import os
import re
from pathlib import Path

# What has links of its own or is no text, and inline code, which may be a name.
_PIECE = re.compile(
    r"<(a|h\d|pre|script|nav)\b.*?</\1>|<code>(?:dd|fit)\.[\w.]+(?:\([^<]*\))?</code>",
    re.DOTALL,
)
_NAME = re.compile(r"<code>(dd|fit)\.([\w.]+)")
_ENTRY = re.compile(r'<h[23] id="([\w.]+)"><code>')


def link_names(site: Path) -> None:
    """Make links of the public names in all pages of a site."""
    reference = sorted((site / "reference" / "api").glob("*.html"))
    places = {
        name: f"{page.relative_to(site).as_posix()}#{name}"
        for page in reference
        for name in _ENTRY.findall(page.read_text())
    }
    for page in site.rglob("*.html"):
        if page not in reference:
            up = os.path.relpath(site, page.parent)
            page.write_text(with_links(page.read_text(), places, up))


def with_links(text: str, places: dict[str, str], up: str = ".") -> str:
    """The text of a page with links to `places`, which are relative to `up`.

    >>> with_links("<p><code>dd.fit(a)</code></p>", {"fit": "api.html#fit"}, "..")
    '<p><a href="../api.html#fit"><code>dd.fit(a)</code></a></p>'
    """

    def link(found: re.Match[str]) -> str:
        name = _NAME.match(found[0])
        if name is None:
            return found[0]
        place = places.get(f"Estimate.{name[2]}" if name[1] == "fit" else name[2])
        return f'<a href="{up}/{place}">{found[0]}</a>' if place else found[0]

    return _PIECE.sub(link, text)
