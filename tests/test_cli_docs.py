"""The commands of the documentation run as they stand there, in order."""

import re
import shlex
from pathlib import Path

import pytest

from support.command import run

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(sh|python|toml|csv)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ", re.MULTILINE)
FILE = re.compile(r"# ([\w-]+\.(?:py|toml|csv))\n")


def commands(text):
    """The commands of a block, as arguments."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            assert words[0].removeprefix(".venv/bin/") == "ddefind", line
            yield words[1:]


# Such delays have tests of their own, in which less is fitted.
ELSEWHERE = ("Several delays", "Other delays")


@pytest.mark.parametrize(
    "page, left_out",
    [
        ("docs/command-line.md", ELSEWHERE),
        ("README.md", ()),
        pytest.param("docs/experiments-from-files.md", (), marks=pytest.mark.slow),
        pytest.param("docs/command-line.md", (), marks=pytest.mark.slow),
    ],
)
def test_the_commands_run(page, left_out, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DDEFIND_CACHE", "off")
    sections = SECTION.split((ROOT / page).read_text())
    chosen = "".join(each for each in sections if not each.startswith(left_out))
    ran = 0
    for kind, text in BLOCK.findall(chosen):
        if kind == "sh":
            for arguments in commands(text):
                assert run(*arguments) == 0, arguments
                ran += 1
        elif named := FILE.match(text):
            (tmp_path / named[1]).write_text(text)
    assert ran > 1
    capsys.readouterr()
