"""Running the command line inside a test, and Python in a process of its own."""

import csv
import os
import subprocess
import sys
from typing import Any

import pytest

from ddefind._cli.main import main

TEXT = "x' = r * x * (1 - x(t - tau) / K)"
NEAR = ("--start", "r=1.8", "--start", "K=2.5", "--start", "tau=0.8", "--starts", 1)
VALUES = ("--set", "r=1.8", "--set", "K=2.5", "--set", "tau=0.8", "--history", "0.5")


def run(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code or 0


def options(option, values):
    """The arguments that give each of these values, as `--set r=1.8`."""
    return [word for name in values for word in (option, f"{name}={values[name]}")]


def rows(path):
    """The rows of a table of comma-separated values, without lines of comments."""
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def refused(capsys, *arguments):
    """What a command is refused with: one line on the standard error."""
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err and not shown.out
    *before, last = shown.err.splitlines()
    assert last.startswith("Error: ") and not any("Error" in line for line in before)
    return last


def python(*arguments, code: Any = 0, folder=None, unset: Any = (), **environment):
    """A process of Python that has ended with this code: what it printed. Variables of
    the environment are added, or left out."""
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=kept | environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr[-2000:]
    return done
