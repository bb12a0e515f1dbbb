"""The commands of the documentation run as they stand there, in order, and print what
the page shows."""

import re
import shlex
from pathlib import Path

import pytest

from support.command import run
from support.printed import missing_output

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(sh|python|toml|csv)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w-]+\.(?:py|toml|csv))\n")


def commands(text):
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            assert words[0].removeprefix(".venv/bin/") == "ddefind", line
            yield words[1:]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/index.md",
        pytest.param("docs/how-to/experiments-from-files.md", marks=pytest.mark.slow),
        pytest.param("docs/reference/command-line.md", marks=pytest.mark.slow),
    ],
)
def test_the_commands_run(page, here, capsys):
    shown, ran = (ROOT / page).read_text(), 0
    for kind, text in BLOCK.findall(shown):
        if kind == "sh":
            for arguments in commands(text):
                assert run(*arguments) == 0, arguments
                ran += 1
        elif named := FILE.match(text):
            (here / named[1]).write_text(text)
    assert ran > 1
    assert not missing_output(shown, capsys.readouterr().out)


def test_the_page_has_every_command(capsys):
    run("--help")
    shown = capsys.readouterr().out.split("Commands:\n")[1].split("\n\n")[0]
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    for command in re.findall(r"^  ([a-z]+)  ", shown, re.MULTILINE):
        assert f"\n| `{command}` | " in page, command
