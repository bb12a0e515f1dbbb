"""Commands for what comes with the package: `ddefind dataset` prints or writes a table,
`demo` learns the delayed logistic equation from noisy data, and `paper` reproduces the
tables and figures of the DDE-Find paper."""

import sys
from contextlib import closing
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

import ddefind as dd

from .._util.files import write_whole
from . import options as opt
from .messages import EXIT_CODES, INTERRUPTED, quick_start, say

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
        autocompletion=opt.offer(lambda: dd.datasets.NAMES),
        show_default=False,
    ),
]


def dataset(name: _Name = None, out: opt.File = None) -> None:
    """List the classic data sets of the package, or write one as a CSV file."""
    known = dd.datasets.NAMES
    if name is None:
        width = max(map(len, known))
        for each, what in known.items():
            typer.echo(f"{each:<{width}}  {what}")
        return
    text = dd.datasets.path(name).read_text(encoding="utf-8")
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text)
        say(f"{out}: {known[name]}")


def logistic_data() -> "dd.Data":
    """Return 101 noisy values of a solution of the delayed logistic equation.

    The parameters are `TRUE`, and x = 2 before time 0. The solution was computed by
    RK4. The noise has 0.1 times the standard deviation of the solution, and was drawn
    by NumPy's default generator with seed 1."""
    with as_file(files("ddefind").joinpath("_cli/logistic.csv")) as path:
        return dd.read_csv(path, label="delayed logistic equation")


EQUATION = "x' = theta_0 * x * (1 - theta_1 * x(t - tau))"
TRUE = {"theta_0": 2.0, "theta_1": 1.5, "b": 2.0, "tau": 1.0}


def demo() -> None:
    """Learn the delayed logistic equation from data that come with the package."""
    with quick_start():
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


def paper(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="exponential, logistic, enso, cheyne, hiv. All by default.",
            show_default=False,
            autocompletion=opt.offer(
                ("exponential", "logistic", "enso", "cheyne", "hiv")
            ),
        ),
    ] = None,
    noise: Annotated[
        list[float] | None,
        opt.option(
            "--noise",
            metavar="LEVEL...",
            help="Noise levels, in standard deviations of the data. By default 0.1 "
            "0.3 0.9.",
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(help="Noisy data sets for each noise level.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    protocol: Annotated[
        str,
        typer.Option(
            help="published, stated, corrected or best.",
            autocompletion=opt.offer(("published", "stated", "corrected", "best")),
        ),
    ] = "published",
    out: Annotated[
        Path | None,
        opt.option(
            "--out",
            metavar="DIR",
            help="Folder for results.json, tables.md and figures. One with results of "
            "the same settings is continued. By default out/paper-PROTOCOL.",
        ),
    ] = None,
) -> int | None:
    """Reproduce the tables and figures of the DDE-Find paper."""
    from ..paper._run import Interrupted

    out = out or Path("out") / f"paper-{protocol}"
    try:
        levels = tuple(noise or dd.paper.NOISE)
        known = tuple(models or dd.paper.EXPERIMENTS)
        plan = dd.paper.Plan(known, levels, repeats, seed, protocol)
        _reproduce(dd.paper.ResultsFolder(out, plan))
    except BrokenPipeError:
        raise  # `main` ends the command silently.
    except OSError as error:
        raise ValueError(f"Cannot write to {out}: {error}.") from None
    except (Interrupted, KeyboardInterrupt):
        say(
            f"Interrupted. Finished models are kept in {out}; the same command "
            "continues from them."
        )
        return INTERRUPTED


def _reproduce(results: "dd.paper.ResultsFolder") -> None:
    """Run the models that have no results yet, with progress bars on a terminal, then
    write and print all results."""
    from rich.console import Console
    from rich.progress import Progress

    from ..paper._output import has_figures, rich_table, write_figures, write_tables

    plan, out = results.plan, results.folder
    # A file has no width: use one that the tables fit into.
    width = None if sys.stdout.isatty() else 120
    console = Console(width=width, markup=False, highlight=False)
    missing = [model for model in plan.models if results.missing(model)]
    for model in plan.models:
        if model not in missing:
            console.print(f"{model}: kept from before")
            if not has_figures(model, out):
                write_figures(results.of(model), out)
    bars = Progress(console=console, transient=True, disable=not console.is_terminal)
    tasks = {model: bars.add_task(model, total=None) for model in missing}

    def report(model: str, progress: "dd.Progress") -> None:
        bars.update(tasks[model], completed=progress.epoch, total=progress.epochs)

    with bars, closing(dd.paper.reproduce(results, report)) as finished:
        for model, levels in finished:
            write_figures(levels, out)
            console.print(f"{model}: {sum(level.seconds for level in levels):.1f} s")
    write_tables(results.levels, out)
    for model in plan.models:
        for level in results.of(model):
            console.print(rich_table(level))
    console.print(f"Written: {out}/results.json, tables.md, figures/")
