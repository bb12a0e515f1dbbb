"""The commands of the first page are run, so that it can show what they write: its
picture, and the report."""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PLACE = "<!-- report -->"
REPORT = "example-report.html"


def write(docs: Path) -> None:
    """Put the report of the first page's fit into `docs`, with a link to it in place of
    the comment `<!-- report -->`, and its figure."""
    page = docs / "index.md"
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        for block in _BLOCK.findall(text):
            for line in block.replace("\\\n", " ").splitlines():
                _run(shlex.split(line)[1:], folder)
        shutil.copy(Path(folder, "result", "report.html"), docs / REPORT)
        shutil.copy(Path(folder, "result", "figure.png"), docs / "first-fit.png")
    page.write_text(text.replace(_PLACE, f"[Look at this report]({REPORT})."))


def _run(arguments: list[str], folder: str) -> None:
    command = [sys.executable, "-m", "ddefind", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ddefind {shlex.join(arguments)} failed:\n{done.stderr}")
