"""Shells complete commands, options, and values of options."""

from typing import Any

import pytest
import typer

from ddefind._cli.main import app
from ddefind._cli.parse_options import FORMATS
from ddefind._equation.history_kinds import CHOSEN_BY_FIT
from ddefind._problem.history import KINDS
from ddefind.noise._read_noise import WORDS
from ddefind.paper._experiments import EXPERIMENTS, PROTOCOLS
from support.command import python


@pytest.mark.parametrize(
    "typed, offered",
    [
        ("ddefind simu", {"simulate"}),
        ("ddefind fit --sol", {"--solver"}),
        ("ddefind fit --solver ra", {"radau"}),
        ("ddefind paper ch", {"cheyne"}),
    ],
)
def test_a_shell_is_told_what_may_follow(typed, offered):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    program = "import sys; sys.argv[0] = 'ddefind'; from ddefind.__main__ import main"
    words["_DDEFIND_COMPLETE"] = "complete_bash"
    assert set(python("-c", f"{program}; main()", **words).stdout.split()) == offered


def test_offered_values_are_those_that_the_commands_take():
    program: Any = typer.main.get_command(app)
    offered = {
        (name, option.opts[0]): {i.value for i in option.shell_complete(None, "")}
        for name, command in program.commands.items()
        for option in command.params
    }
    assert offered["fit", "--format"] == set(FORMATS)
    assert offered["fit", "--noise"] == offered["simulate", "--noise"] == set(WORDS)
    assert offered["paper", "--protocol"] == set(PROTOCOLS)
    assert offered["paper", "models"] == set(EXPERIMENTS)
    assert offered["fit", "--history"] == {*KINDS, *CHOSEN_BY_FIT}
    assert offered["paper", "--noise"] == set()
