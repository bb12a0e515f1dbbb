"""`ddefind completion`: a script with which a shell completes commands and options."""

from typing import Annotated

import typer

from .._util.errors import did_you_mean, quoted
from . import options as opt
from .completion_scripts import SCRIPTS
from .completion_words import command_words
from .messages import errors_as_messages
from .parse_options import OptionError

COMPLETION_EXAMPLES = """\
\b
To install it, run one of these, and open a new terminal:
  echo 'eval "$(ddefind completion bash)"' >> ~/.bashrc
  echo 'eval "$(ddefind completion zsh)"' >> ~/.zshrc     (after compinit)
  ddefind completion fish > ~/.config/fish/completions/ddefind.fish

\b
Then the tab key completes commands, options, the values of options such as --solver,
and the names of files. The script has all words in it, so that no Python is started;
the line in .bashrc or .zshrc makes it again with each new version of ddefind.
"""

Shell = Annotated[
    str,
    typer.Argument(
        metavar="SHELL",
        help="bash, zsh or fish.",
        show_default=False,
        autocompletion=opt.offer(SCRIPTS),
    ),
]


def completion(context: typer.Context, shell: Shell) -> None:
    """Print a script with which bash, zsh or fish complete commands."""
    with errors_as_messages():
        if shell not in SCRIPTS:
            raise OptionError(
                f"There is no completion for {quoted(shell)}."
                f"{did_you_mean(shell, SCRIPTS)}"
            )
        program = context.parent.command if context.parent else context.command
        typer.echo(SCRIPTS[shell](command_words(program, context)))
