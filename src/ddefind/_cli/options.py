"""The options and arguments of the commands: the settings of a fit, made from the table
in `_fitting/fit_options.py`, and those that only commands have."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .._fitting.fit_options import SETTINGS, Offered, noise_kinds
from .parse_options import FORMATS, KINDS

# The column that names the experiment in what is written, if the data have none.
EXPERIMENT = "experiment"
# The files of a discovery in its folder, by their ending.
DISCOVERY = "discovery.{}"


def offer(values: Offered) -> Callable[[], list[str]]:
    """Return a function for typer that lists the values that a shell offers."""
    return lambda: list(values() if callable(values) else values)


def option(*names: str, metavar: str, help: str, values: Offered = ()) -> Any:
    """Return an option, after which a shell offers `values`."""
    return typer.Option(
        *names,
        metavar=metavar,
        help=help,
        show_default=False,
        autocompletion=offer(values) if values else None,
    )


def takes(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: the command has these settings of a fit as options, and its
    function gets their values by name as its first argument."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(**arguments: Any) -> Any:
            given = {name: _parsed(name, arguments.pop(name)) for name in names}
            return function(given, **arguments)

        _, *others = inspect.signature(function).parameters.values()
        others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in others]
        signature = inspect.Signature([*map(_parameter, names), *others])
        command.__signature__ = signature  # type: ignore
        return command

    return decorated


def _parsed(name: str, text: Any) -> Any:
    """Return the value of an option from its text or texts."""
    kind = KINDS[SETTINGS[name].kind]
    if text is None:
        return {} if kind.holds == "table" else None
    return kind.parse(SETTINGS[name].flag, text)


def _parameter(name: str) -> inspect.Parameter:
    """Return a setting of a fit as a parameter of a command."""
    each, kind = SETTINGS[name], KINDS[SETTINGS[name].kind]
    declared = option(
        *filter(None, (each.flag, each.short)),
        metavar=each.placeholder or kind.placeholder,
        help=each.help,
        values=each.values,
    )
    texts = str | None if kind.holds == "one" else list[str] | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[texts, declared],
    )


Seed = Annotated[str, typer.Option(metavar="N", help="Seed of the random numbers.")]
Config = Annotated[
    Path | None,
    option(
        "--config",
        metavar="FILE.toml",
        help="The fit.toml of an earlier fit, or your own. Options override it.",
    ),
]
Folder = Annotated[
    Path | None,
    option(
        "--out",
        metavar="DIR",
        help="Folder for the result, tables, curve, figure, report and fit.toml.",
    ),
]
Formats = Annotated[
    list[str] | None,
    option(
        "--format",
        metavar="NAME",
        values=tuple(FORMATS),
        help="Format of the figure in the folder of --out: png (the default), pdf, "
        "svg, or several as pdf,svg.",
    ),
]
File = Annotated[
    Path | None,
    option(
        "--out",
        metavar="FILE.csv",
        help="The file to write. By default the data are printed.",
    ),
]
PredictionFile = Annotated[
    Path | None,
    option(
        "--out", metavar="FILE.csv", help="A file for the prediction at all 201 times."
    ),
]
DataFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA",
        help="A CSV file or Excel workbook of measurements.",
        show_default=False,
    ),
]
DataFiles = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DATA",
        help="CSV files or Excel workbooks of measurements: one, or one for each "
        "experiment.",
        show_default=False,
    ),
]
Result = Annotated[
    Path,
    typer.Argument(metavar="RESULT", help="A folder or file in which a fit was saved."),
]
Results = Annotated[
    list[Path],
    typer.Argument(metavar="RESULT...", help="Folders or files of saved fits."),
]
Until = Annotated[
    str | None,
    option(
        "--until",
        metavar="TIME",
        help="The last time of the prediction, a number or a date as in the data. By "
        "default it is the last time of the data.",
    ),
]
OneExperiment = Annotated[
    str | None,
    option(
        "--experiment",
        metavar="LABEL",
        help="One experiment of a study. By default all are predicted.",
    ),
]
LastTime = Annotated[str, typer.Option("--T", metavar="NUMBER", help="The last time.")]
Points = Annotated[
    str, typer.Option(metavar="N", help="How many times, equally spaced from 0 to T.")
]
Noise = Annotated[
    list[str] | None,
    option(
        "--noise",
        metavar="NOISE",
        values=noise_kinds,
        help="Standard deviation of the noise, as a fraction of that of each quantity, "
        'or a kind with its numbers: "lognormal(1.1)", poisson, or hare=poisson for '
        "one quantity.",
    ),
]
Experiments = Annotated[
    str | None,
    option(
        "--experiments",
        metavar="FILE.csv",
        help="A row for each of several experiments: its name, and values of "
        "parameters.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the result and errors.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
