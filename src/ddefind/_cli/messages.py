"""Exit codes of the commands, and how they print messages and errors.

Results go to the standard output, all other messages to the standard error.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, final

import typer

from .._util.json_numbers import nonfinite_as_none
from .._util.wording import command_line_words
from .startup import INTERRUPTED

# Exit codes. `PIPE_CLOSED` is what shells report of a program that was ended by
# writing to a closed pipe.
REFUSED, DOUBTFUL, PIPE_CLOSED = 2, 3, 141
EXIT_CODES = (
    "Exit codes: 0 done; 1 failure; 2 input refused; 3 done but doubtful (a fit that "
    "did not converge or whose model is rejected, a gradient that is wrong); 130 "
    "interrupted; 141 the reader of the output closed it, as head does."
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
    used or the user interrupts it. Sentences are in the words of the command line."""
    try:
        with command_line_words():
            yield
    except BrokenPipeError:
        raise  # `main` ends the command silently.
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        exit_with_error(f"{where}{error.strerror or error}.")
    except (TypeError, ValueError) as error:
        exit_with_error(str(error))
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def print_json(value: Any) -> None:
    """Print a value as strict JSON, with null for numbers that are not finite."""
    typer.echo(json.dumps(nonfinite_as_none(value), indent=2, ensure_ascii=False))
