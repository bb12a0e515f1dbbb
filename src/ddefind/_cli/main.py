"""The program `ddefind COMMAND`, or `python -m ddefind COMMAND`, with all its commands.

JAX takes a second to load. It is loaded only when a command begins to compute, so that
help and messages about wrong options appear at once."""

import gc
import io
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from .._util.version import __version__
from .._util.wording import instead_of_huber
from .discover_command import DISCOVER_EXAMPLES, discover
from .examples_command import DATASET_EXAMPLES, dataset, demo, paper
from .fit_command import FIT_EXAMPLES, fit
from .messages import EXIT_CODES, PIPE_CLOSED, REFUSED, errors_as_messages
from .model_commands import CHECK_EXAMPLES, SIMULATE_EXAMPLES, check, simulate
from .parse_options import parse_number
from .result_commands import (
    COMPARE_EXAMPLES,
    PREDICT_EXAMPLES,
    PROFILE_EXAMPLES,
    REPORT_EXAMPLES,
    compare,
    predict,
    profile,
    report,
    show,
)
from .sweep_command import STATUS_EXAMPLES, SWEEP_EXAMPLES, status, sweep

# Options that take several values after one flag, such as `--noise 0.1 0.3`.
_WITH_SEVERAL_VALUES = ("--noise", "--history")
_TUTORIAL = f"""\
\b
Make noisy data of an equation, and learn it back:

\b
  ddefind simulate -e "x' = r * x * (1 - x(t - tau) / K)" --set r=1.8 --set K=2.5 \\
    --set tau=0.8 --history 0.5 --T 20 --points 120 --noise 0.05 --out data.csv
  ddefind fit data.csv -e "x' = r * x * (1 - x(t - tau) / K)" --out result
  ddefind show result
  ddefind predict result --until 30

\b
The folder holds a report, result/report.html: open it in a browser.

\b
With data of your own: a CSV file with a column of times and a column for each state.
Fix what you know, bound what you may; all else is learned, the delay tau and the value
b before time 0 among it:

\b
  ddefind fit lake.csv -e "prey' = a * prey - c * prey * hunter;
    hunter' = e * prey(t - tau) - d * hunter" --set a=0.5 --bounds "tau in [0.1, 3]"

\b
Every command has its own --help with examples.

{EXIT_CODES}
"""

app = typer.Typer(
    help="Learn delay differential equations from noisy, limited data.",
    epilog=_TUTORIAL,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ddefind {__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Learn delay differential equations from noisy, limited data."""


_COMMANDS: dict[Callable[..., int | None], str | None] = {
    fit: FIT_EXAMPLES,
    discover: DISCOVER_EXAMPLES,
    simulate: SIMULATE_EXAMPLES,
    show: None,
    predict: PREDICT_EXAMPLES,
    report: REPORT_EXAMPLES,
    profile: PROFILE_EXAMPLES,
    compare: COMPARE_EXAMPLES,
    check: CHECK_EXAMPLES,
    sweep: SWEEP_EXAMPLES,
    status: STATUS_EXAMPLES,
    dataset: DATASET_EXAMPLES,
    demo: None,
    paper: EXIT_CODES,
}
for _command, _examples in _COMMANDS.items():
    app.command(epilog=_examples)(errors_as_messages()(_command))


def spread_values(arguments: Sequence[str]) -> list[str]:
    """Repeat the flag before each further number: `--noise 0.1 0.3` becomes
    `--noise 0.1 --noise 0.3`, which is what the parser understands.

    >>> spread_values(["paper", "--noise", "0.1", "0.3", "hiv", "--seed", "1"])
    ['paper', '--noise', '0.1', '--noise', '0.3', 'hiv', '--seed', '1']
    """
    result: list[str] = []
    flag, is_first_value = None, False
    for argument in arguments:
        if flag and not is_first_value and parse_number(argument) is not None:
            result.append(flag)
        elif not is_first_value:
            flag = argument if argument in _WITH_SEVERAL_VALUES else None
        is_first_value = flag is not None and argument == flag
        result.append(argument)
    return result


def _escape_what_cannot_be_printed() -> None:
    """Print characters that the terminal's encoding lacks as escapes, such as \\xe9."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit. `arguments` are by default those of the process."""
    given = spread_values(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _escape_what_cannot_be_printed()
    try:
        code = app(given or ["--help"], standalone_mode=False)
    except SystemExit as ended:
        # The parser has silenced the standard output and exits with 1.
        if isinstance(ended.__context__, BrokenPipeError):
            sys.exit(PIPE_CLOSED)
        raise
    except Exception as error:
        # Errors of the option parser have no public class, but this method.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()  # type: ignore
        if getattr(error, "option_name", None) == "--huber":
            message = instead_of_huber("`--huber`", "`--noise student`")
        typer.echo(f"Error: {message}", err=True)
        sys.exit(REFUSED)
    if arguments is None:
        gc.freeze()  # saves half a second of garbage collection at exit
    sys.exit(code or 0)
