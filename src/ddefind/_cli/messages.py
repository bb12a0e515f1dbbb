"""What the commands share: exit codes, and how they speak.

Results go to the standard output; everything else that is said, to the standard
error."""

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, final

import typer

from .._util.errors import DataError
from .._util.json_numbers import nonfinite_as_none

REFUSED, DOUBTFUL, INTERRUPTED = 2, 3, 130
CODES = (
    "Exit codes: 0 done, 1 failure, 2 input refused, 3 done but doubtful (a fit that "
    "did not converge, a gradient that is wrong), 130 interrupted."
)


@final
@dataclass(frozen=True)
class Talk:
    """Says what goes on, unless it is to be quiet."""

    quiet: bool

    def say(self, text: str) -> None:
        if not self.quiet:
            typer.echo(text, err=True)

    def waiting(self, text: str) -> AbstractContextManager[Any]:
        """Shows that something goes on, on a terminal."""
        if self.quiet or not sys.stderr.isatty():
            return nullcontext()
        from rich.console import Console

        return Console(stderr=True).status(text)


def refuse(message: str) -> NoReturn:
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(REFUSED)


@contextmanager
def refusals() -> Iterator[None]:
    """Input that cannot be used ends the command with a message, not a traceback."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        refuse(f"{where}{error.strerror or error}.")
    except DataError as error:
        refuse(in_options(str(error)))
    except (TypeError, ValueError) as error:
        refuse(str(error))
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def print_json(value: Any) -> None:
    """Strict JSON: null for what is no finite number."""
    typer.echo(json.dumps(nonfinite_as_none(value), indent=2, ensure_ascii=False))


def in_options(text: str) -> str:
    """A sentence about the arguments of `read_csv`, about the command's options.

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
