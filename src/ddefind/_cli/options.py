"""The options and arguments of the commands, with their help texts."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

# Kinds of noise, as a shell offers them after `--noise`.
_NOISES = (
    *("gaussian", "proportional", "combined", "lognormal", "poisson"),
    *("negative-binomial", "student"),
)
# The column that names the experiment in what is written, if the data have none.
EXPERIMENT = "experiment"


def offer(values: Iterable[str]) -> Callable[[], list[str]]:
    """Return what typer takes as the values that a shell offers."""
    return lambda: list(values)


def option(*names: str, metavar: str, help: str, values: Iterable[str] = ()) -> Any:
    """Return an option; `values` are those that a shell offers after it."""
    return typer.Option(
        *names,
        metavar=metavar,
        help=help,
        show_default=False,
        autocompletion=offer(values) if values else None,
    )


Equation = Annotated[
    str | None,
    option(
        "--equation",
        "-e",
        metavar="TEXT",
        help="x' = ... for each state, separated by ; . x(t - tau) is a delayed state; "
        "there may be several delays. Names that are not states become parameters.",
    ),
]
Model = Annotated[
    str | None,
    option(
        "--model",
        metavar="FILE",
        help="Instead of --equation: a text file with the equation, or FILE.py:NAME, "
        "an Equation, a Problem or a function that returns one in a Python file, which "
        "is run.",
    ),
]
History = Annotated[
    list[str] | None,
    option(
        "--history",
        metavar="KIND",
        values=("constant", "affine", "periodic", "spline", "neural", "auto", "data"),
        help="Before time 0: constant (the default), affine, periodic, spline, neural, "
        "or the numbers that a constant history starts from, one for each state. A fit "
        "can choose (auto), or take the beginning of the data as the past (data).",
    ),
]
Observe = Annotated[
    str | None,
    option(
        "--observe",
        metavar="TEXT",
        help='What is measured, if not the states: "scale * x", or several as '
        '"name = ...; ...".',
    ),
]
Known = Annotated[
    list[str] | None,
    option(
        "--set",
        metavar="NAME=NUMBER",
        help="The value of a parameter; a fit does not learn it.",
    ),
]
Guess = Annotated[
    list[str] | None,
    option(
        "--start",
        metavar="NAME=NUMBER",
        help="A guess of a parameter: one of the starts begins there.",
    ),
]
Range = Annotated[
    list[str] | None,
    option(
        "--bounds",
        metavar="RANGE",
        help='Bounds of a parameter: "K in [0, 10]", "K > 0" or "0 < K < 10".',
    ),
]
Prior = Annotated[
    list[str] | None,
    option(
        "--prior",
        metavar="PRIOR",
        help='What is known of a parameter beforehand: "K ~ normal(2, 0.5)", with mean '
        'and standard deviation, or "K ~ lognormal(2, 1.5)", with median and factor.',
    ),
]
Positive = Annotated[
    list[str] | None,
    option(
        "--positive",
        metavar="NAME",
        help="Parameters that are positive, as r,K; all stands for all parameters of "
        "the equation, those of the history excepted.",
    ),
]
Level = Annotated[
    str | None,
    option(
        "--level",
        metavar="NUMBER",
        help="The confidence level of intervals and bands, 0.95 by default.",
    ),
]
Steps = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="The solver's steps in a delay to begin with; a fit takes more where the "
        "estimates need them.  [default: 10]",
    ),
]
Method = Annotated[
    str | None,
    option(
        "--method",
        metavar="NAME",
        values=("least-squares", "multiple-shooting"),
        help="least-squares (the default), or multiple-shooting for systems that are "
        "themselves disturbed, so that neighbouring residuals are alike.",
    ),
]
Starts = Annotated[
    str | None,
    typer.Option(metavar="N", help="How many starts are tried.  [default: 32]"),
]
FitSeed = Annotated[
    str | None,
    typer.Option(
        "--seed", metavar="N", help="Seed of the random starts.  [default: 0]"
    ),
]
Seed = Annotated[str, typer.Option(metavar="N", help="Seed of the random numbers.")]
Solver = Annotated[
    str | None,
    option(
        "--solver",
        metavar="NAME",
        values=("auto", "rk4", "tsit5", "radau"),
        help="rk4 (fixed steps), tsit5 (adaptive steps) or radau (adaptive, for stiff "
        "equations). By default, auto, the equation and the data decide.",
    ),
]
Tolerance = Annotated[
    str | None,
    option(
        "--rtol",
        metavar="NUMBER",
        help="The relative error that tsit5 or radau tolerate in a step, 1e-6 by "
        "default.",
    ),
]
Time = Annotated[
    str | None,
    option("--time", metavar="NAME", help="The name of the column of times."),
]
Columns = Annotated[
    list[str] | None,
    option(
        "--columns",
        metavar="NAMES",
        help='The columns to read, as a,b; or "hare=Hare (n/km2)", if the equation has '
        "another name for a column than the file.",
    ),
]
Where = Annotated[
    list[str] | None,
    option(
        "--where",
        metavar="NAME=VALUE",
        help="Read only the rows in which a column has this value, as "
        "treatment=control.",
    ),
]
Group = Annotated[
    str | None,
    option(
        "--group",
        metavar="NAME",
        help="The column that names the experiment to which a row belongs. Without it, "
        "each of several files is an experiment.",
    ),
]
KnownColumns = Annotated[
    list[str] | None,
    option(
        "--values",
        metavar="NAMES",
        help="Columns of known values, each one number for a whole experiment, as "
        "dose.",
    ),
]
Inputs = Annotated[
    list[str] | None,
    option(
        "--inputs",
        metavar="NAME",
        help="Inputs of the equation: a column of the data, as u; or "
        "u=temperature.csv:T, a column of another file; or a formula of t, as "
        '"u=sin(t)".',
    ),
]
InputKind = Annotated[
    list[str] | None,
    option(
        "--input-kind",
        metavar="KIND",
        values=("linear", "steps", "cubic"),
        help="How inputs run between their values: linear (the default), steps or "
        "cubic; u=steps for one of them.",
    ),
]
Doses = Annotated[
    list[str] | None,
    option(
        "--doses",
        metavar="PLACE",
        help="Doses: a file with the columns time, amount, state and, if they take "
        "time, duration; or the column of amounts in the data. gut=AMT says that all "
        "go to the state gut.",
    ),
]
PerExperiment = Annotated[
    list[str] | None,
    option(
        "--per-experiment",
        metavar="NAMES",
        help="Parameters that have a value of their own in each experiment, as b,k.",
    ),
]
NoiseKind = Annotated[
    list[str] | None,
    option(
        "--noise",
        metavar="KIND",
        values=_NOISES,
        help="The noise: gaussian (the default), proportional, combined, lognormal, "
        "poisson, negative-binomial or student; hare=poisson for one quantity.",
    ),
]
Sheet = Annotated[
    str | None,
    option(
        "--sheet",
        metavar="NAME",
        help="The sheet of an Excel workbook. By default the first one is read.",
    ),
]
TimeZero = Annotated[
    str | None,
    option(
        "--time-zero",
        metavar="TIME",
        help="The time in the file that becomes time 0, where the history ends.",
    ),
]
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
        values=("png", "pdf", "svg"),
        help="Of the figure in the folder of --out: png (the default), pdf, svg, or "
        "several as pdf,svg.",
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
        values=_NOISES,
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
