"""Exit codes of the commands, and how they print messages and errors.

Results go to the standard output, all other messages to the standard error.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, final

import typer

from .._util.errors import DataError
from .._util.json_numbers import nonfinite_as_none
from .parse_options import OptionError

# Exit codes. `PIPE_CLOSED` is what shells report of a program that was ended by
# writing to a closed pipe.
REFUSED, DOUBTFUL, INTERRUPTED, PIPE_CLOSED = 2, 3, 130, 141
EXIT_CODES = (
    "Exit codes: 0 done, 1 failure, 2 input refused, 3 done but doubtful (a fit that "
    "did not converge, a gradient that is wrong), 130 interrupted."
)


@final
@dataclass(frozen=True)
class Messages:
    """Prints what the command is doing, unless it is to be quiet."""

    quiet: bool

    def say(self, text: str) -> None:
        """Print a text to the standard error."""
        if not self.quiet:
            typer.echo(text, err=True)


def exit_with_error(message: str) -> NoReturn:
    """Print an error message and end the command with the code for refused input."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(REFUSED)


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """End the command with a message instead of a traceback, if its input cannot be
    used or the user interrupts it."""
    try:
        yield
    except BrokenPipeError:
        raise  # `main` ends the command silently.
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        exit_with_error(f"{where}{error.strerror or error}.")
    except DataError as error:
        exit_with_error(in_options(str(error)))
    except OptionError as error:
        exit_with_error(str(error))
    except (TypeError, ValueError) as error:
        exit_with_error(_without_arguments(str(error)))
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def print_json(value: Any) -> None:
    """Print a value as strict JSON, with null for numbers that are not finite."""
    typer.echo(json.dumps(nonfinite_as_none(value), indent=2, ensure_ascii=False))


def _without_arguments(text: str) -> str:
    """Replace the arguments of `ddefind.fit` in a message.

    >>> _without_arguments("`parameters['tau_1']` has the upper bound -1.")
    '`tau_1` has the upper bound -1.'
    >>> _without_arguments('Use `solver="auto"`, `dd.Tsit5()`, or `dd.Radau()`.')
    'Use `--solver auto`, `--solver tsit5`, or `--solver radau`.'
    """
    text = text.replace("in `parameters`", "by `--start`")
    text = text.replace("`rtol`", "`--rtol`")
    text = text.replace('`solver="auto"`', "`--solver auto`")
    text = re.sub(
        r"`(?:solver=)?dd\.(Tsit5|Radau)\(\)`",
        lambda match: f"`--solver {match[1].lower()}`",
        text,
    )
    return re.sub(r"`parameters\['([^']*)'\]`", r"`\1`", text)


def in_options(text: str) -> str:
    """Replace the arguments of `read_csv` in a message by the command's options.

    >>> in_options("Leave it out by `columns=`, or choose `start=5`.")
    'Leave it out by `--columns`, or choose `--time-zero 5`.'
    """
    for argument, option in (
        ("`columns=`", "`--columns`"),
        ("`columns`", "`--columns`"),
        ("`start=", "`--time-zero "),
        ("`start`", "`--time-zero`"),
        ("`time=", "`--time "),
        ("`time`", "`--time`"),
    ):
        text = text.replace(argument, option)
    return text
