"""A working copy of the pages: what the site is made from.

On GitHub a page links to files anywhere in the repository. A site has only its own
pages. So some files outside of `docs/` become pages (`FURTHER_PAGES`), and all others
that are linked to are copied into the folder `files` of the site."""

import os
import re
import shutil
from pathlib import Path, PurePosixPath

FURTHER_PAGES = {
    "README.md": "index.md",  # a link to it is one to the first page
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "studies/README.md": "project/studies.md",
}
"""Files outside of `docs/` that are pages, and where they are in the site."""

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)


def make_working_copy(root: Path, docs: Path) -> None:
    """Copy the pages of `root` to `docs`, with links that hold in a site."""
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(root / "docs", docs)
    for source, place in FURTHER_PAGES.items():
        if not (docs / place).exists():
            (docs / place).parent.mkdir(exist_ok=True)
            shutil.copy(root / source, docs / place)
    sources = {place: source for source, place in FURTHER_PAGES.items()}
    for page in docs.rglob("*.md"):
        place = page.relative_to(docs).as_posix()
        is_further = place in sources and not (root / "docs" / place).exists()
        source = sources[place] if is_further else f"docs/{place}"
        text = _with_links_of_the_site(page.read_text(), source, place, root)
        page.write_text(text.replace("```python no-run", "```python"))
    for source in _linked_files(root, docs):
        (docs / "files" / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / source, docs / "files" / source)


def place_in_site(source: str) -> str:
    """Where a file of the repository is in the site.

    >>> place_in_site("docs/how-to/noise.md")
    'how-to/noise.md'
    >>> place_in_site("CHANGELOG.md")
    'project/changes.md'
    >>> place_in_site("docs/tutorials/population.ipynb")
    'tutorials/population.md'
    >>> place_in_site("examples/torch_fit.py")
    'files/examples/torch_fit.py'
    """
    if source in FURTHER_PAGES:
        return FURTHER_PAGES[source]
    if source.startswith("docs/"):
        page = PurePosixPath(source).relative_to("docs")
        return str(page.with_suffix(".md") if page.suffix == ".ipynb" else page)
    return f"files/{source}"


def _with_links_of_the_site(text: str, source: str, place: str, root: Path) -> str:
    """The text of the file `source`, with links as they are from `place` in the site.
    Blocks of code stay as they are."""

    def mend(found: re.Match[str]) -> str:
        target, mark, heading = found[1].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        linked = os.path.normpath(os.path.join(os.path.dirname(source), target))
        if not (root / linked).exists():
            raise FileNotFoundError(f"{source}: there is no {target}")
        relative = os.path.relpath(place_in_site(linked), os.path.dirname(place) or ".")
        return f"]({relative}{mark}{heading})"

    parts, end = [], 0
    for block in _FENCE.finditer(text):
        parts += [_LINK.sub(mend, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, _LINK.sub(mend, text[end:])])


def _linked_files(root: Path, docs: Path) -> set[str]:
    """The files of the repository that pages of the site link to in `files`."""
    linked = set()
    for page in docs.rglob("*.md"):
        for target in _LINK.findall(page.read_text()):
            path = os.path.normpath(os.path.join(page.parent, target.split("#")[0]))
            if path.startswith(f"{docs / 'files'}{os.sep}"):
                linked.add(os.path.relpath(path, docs / "files"))
    return {file for file in linked if (root / file).is_file()}
