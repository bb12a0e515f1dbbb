"""Every Python block of the documentation runs: those of a file in order, together.

A block that opens with ```` ```python no-run ```` is skipped.
"""

import re
import sys
import textwrap
import types
from pathlib import Path

import pytest

from support.printed import missing_output
from support.repeats import mostly_slow

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "studies/README.md")
FILES = [path for page in PAGES for path in sorted(ROOT.glob(page))]
BLOCK = re.compile(
    r"^(?P<indent> *)```python(?P<mark>[^\n]*)\n(?P<body>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)


def blocks(path):
    """The blocks that are to run, compiled so that errors name the line of the file."""
    text = path.read_text()
    for found in BLOCK.finditer(text):
        if found["mark"].strip() != "no-run":
            before = text.count("\n", 0, found.start("body"))
            source = "\n" * before + textwrap.dedent(found["body"])
            yield compile(source, str(path), "exec")


def run(path, name):
    module = types.ModuleType(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)  # classes look up their module
        for code in blocks(path):
            exec(code, module.__dict__)
    return module


def _identifier(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _is_quick(path: Path) -> bool:
    """Whether the examples of a page are tested always, or with the slow tests."""
    slow = """several-delays general-delays inputs-and-doses choosing-a-history
    equinox-model units-and-scaling stiff-models fitting process-noise datasets noise
    uncertainty networks"""
    gallery = ("index.md", "delayed-logistic.md", "mackey-glass.md", "car-following.md")
    is_repeat = path.parent.name == "gallery" and path.name not in gallery
    return path.stem not in slow.split() and not is_repeat


@pytest.mark.parametrize(
    "path", mostly_slow(FILES, list(filter(_is_quick, FILES))), ids=_identifier
)
@pytest.mark.usefixtures("here")
def test_the_examples_run(path, capsys):
    """And print what the page shows in blocks of `text`."""
    run(path, "documentation_" + re.sub(r"\W", "_", _identifier(path)))
    text = path.read_text()
    if "```sh" not in text:  # else the output is that of commands: test_cli_docs.py
        assert not missing_output(text, capsys.readouterr().out)


def test_contributing_is_short_and_names_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(text.splitlines()) <= 120
    home = ROOT / "src" / "ddefind"
    for name in re.findall(r"`((?:\w+/)+\w+\.pyi?)`", text):
        assert (home / name).is_file() or (ROOT / name).is_file(), name
    for noun, place in re.findall(r"^\| `(\w+)`.*\| `([\w/]+\.py)` \|$", text, re.M):
        assert f"class {noun}" in (home / place).read_text(), noun
    for name in re.findall(r"`(_\w+)`", text):
        assert (home / name).is_dir(), name


@pytest.mark.parametrize("path", FILES, ids=_identifier)
def test_links_lead_to_files_and_headings(path):
    """Links within the repository; a heading is named as GitHub names it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        file, _, heading = target.partition("#")
        page = path.parent / file if file else path
        assert page.exists(), target
        if heading:
            assert heading in headings(page), target


def headings(page):
    """The names of a page's headings in links: small letters, without punctuation, and
    hyphens for blanks."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles]


def test_blocks_run_in_order_in_one_namespace_and_marked_ones_do_not(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```python\na = 1\n```\n\n```python no-run\na = not python\n"
        "```\n\n```bash\nls\n```\n\n- in a list\n\n  ```python\n  a += 1\n  ```\n"
    )
    assert run(page, "a_page").a == 2


def test_an_error_names_the_line_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\na = 1\na / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run(page, "a_page")
    assert caught.traceback[-1].lineno + 1 == 5
