"""Running the command line inside a test."""

import pytest

from ddefind._cli.main import main

TEXT = "x' = r * x * (1 - x(t - tau) / K)"
VALUES = ("--set", "r=1.8", "--set", "K=2.5", "--set", "tau=0.8", "--history", "0.5")


def run(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code or 0


def refused(capsys, *arguments):
    """What a command is refused with: one line on the standard error."""
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err and not shown.out
    *before, last = shown.err.splitlines()
    assert last.startswith("Error: ") and not any("Error" in line for line in before)
    return last
