"""`ddefind dataset`: print or write a table that comes with the package; and `ddefind
demo`: learn the delayed logistic equation from noisy data."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

import ddefind as dd

from .._util.files import write_whole
from ..datasets._files import NAMES, path
from . import options as opt
from .messages import EXIT_CODES, errors_as_messages

DATASET_EXAMPLES = f"""\
\b
Example:
  ddefind dataset
  ddefind dataset lynx_hare --out lynx.csv
  ddefind fit lynx.csv -e "hare' = a * hare - c * hare * lynx;
    lynx' = e * hare(t - tau) * lynx(t - tau) - d * lynx" --out result

{EXIT_CODES}
"""
_Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="The data set. Without it, all are listed.",
        autocompletion=opt.offer(NAMES),
        show_default=False,
    ),
]


def dataset(name: _Name = None, out: opt.File = None) -> None:
    """List the classic data sets of the package, or write one as a CSV file."""
    with errors_as_messages():
        if name is None:
            width = max(map(len, NAMES))
            for each, what in NAMES.items():
                typer.echo(f"{each:<{width}}  {what}")
            return
        text = path(name).read_text(encoding="utf-8")
        if out is None:
            typer.echo(text, nl=False)
        else:
            write_whole(out, text)
            typer.echo(f"{out}: {NAMES[name]}", err=True)


def logistic_data() -> "dd.Data":
    """Return 101 noisy values of a solution of the delayed logistic equation.

    The parameters are `TRUE`, and x = 2 before time 0. The solution was computed by
    RK4. The noise has 0.1 times the standard deviation of the solution, and was drawn
    by NumPy's default generator with seed 1."""
    with as_file(files("ddefind").joinpath("_cli/logistic.csv")) as path:
        return dd.read_csv(path, label="delayed logistic equation")


EQUATION = "x' = theta_0 * x * (1 - theta_1 * x(t - tau))"
TRUE = {"theta_0": 2.0, "theta_1": 1.5, "b": 2.0, "tau": 1.0}


def run_demo() -> None:
    """Fit, print the result beside the true values, and write figure and report."""
    model = dd.equation(EQUATION, history="constant")
    fit = dd.fit(model, logistic_data())
    true = ", ".join(f"{name} {value:g}" for name, value in TRUE.items())
    print(f"{model},  x = b before time 0\n\n{fit}\n\nTrue values: {true}.")
    figure = Path("out") / "demo.png"
    figure.parent.mkdir(exist_ok=True)
    fit.plot().savefig(figure, dpi=150)
    report = figure.with_suffix(".html")
    fit.report(report)
    print(f"Figure: {figure}")
    print(f"Report: {report} (open it in a browser)")
