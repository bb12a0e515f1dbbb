"""The options of the commands, with their help."""

from pathlib import Path
from typing import Annotated

import typer


def _option(*names: str, metavar: str, help: str):
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


Equation = Annotated[
    str | None,
    _option(
        "--equation",
        "-e",
        metavar="TEXT",
        help="x' = ... for each state, separated by ; . x(t - tau) is a delayed state. "
        "Names that are not states become parameters.",
    ),
]
Model = Annotated[
    str | None,
    _option(
        "--model",
        metavar="FILE.py:NAME",
        help="Instead of --equation: an Equation, a Problem or a function that returns "
        "one, in a Python file. The file is run.",
    ),
]
History = Annotated[
    list[str] | None,
    _option(
        "--history",
        metavar="KIND",
        help="Before time 0: constant (the default), affine, periodic, neural, or the "
        "numbers that a constant history starts from, one for each state.",
    ),
]
Observe = Annotated[
    str | None,
    _option(
        "--observe",
        metavar="TEXT",
        help='What is measured, if not the states: "scale * x", or several as '
        '"name = ...; ...".',
    ),
]
Known = Annotated[
    list[str] | None,
    _option(
        "--set",
        metavar="NAME=NUMBER",
        help="The value of a parameter; a fit does not learn it.",
    ),
]
Guess = Annotated[
    list[str] | None,
    _option(
        "--start",
        metavar="NAME=NUMBER",
        help="A guess: one of the starts begins there.",
    ),
]
Range = Annotated[
    list[str] | None,
    _option(
        "--bounds",
        metavar="RANGE",
        help='"K in [0, 10]", "K > 0" or "0 < K < 10".',
    ),
]
Starts = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="How many starts are tried.  [default: 32]"),
]
FitSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", help="Of the starts.  [default: 0]"),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Of the random numbers.")]
Time = Annotated[
    str | None, _option("--time", metavar="NAME", help="The column of times.")
]
Columns = Annotated[
    list[str] | None,
    _option("--columns", metavar="NAME", help="The quantities to read."),
]
TimeZero = Annotated[
    str | None,
    _option(
        "--time-zero",
        metavar="TIME",
        help="The time in the file at which the history ends.",
    ),
]
Config = Annotated[
    Path | None,
    _option(
        "--config",
        metavar="FILE.toml",
        help="The fit.toml of an earlier fit, or your own. Options overrule it.",
    ),
]
Folder = Annotated[
    Path | None,
    _option(
        "--out",
        metavar="DIR",
        help="Folder for the result, tables, curve, figure and fit.toml.",
    ),
]
File = Annotated[
    Path | None,
    _option(
        "--out",
        metavar="FILE.csv",
        help="Where to write; by default the standard output.",
    ),
]
DataFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA", help="A CSV file of measurements.", show_default=False
    ),
]
Result = Annotated[
    Path, typer.Argument(metavar="RESULT", help="A folder or file of a fit.")
]
LastTime = Annotated[float, typer.Option("--T", help="The last time.")]
Points = Annotated[int, typer.Option(help="Times, evenly from 0 to T.")]
Noise = Annotated[
    float,
    typer.Option(
        help="Standard deviation of the noise, as a fraction of that of each quantity."
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but the result and errors.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
