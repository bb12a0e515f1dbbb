"""`ddefind paper`: reproduce the tables and figures of the DDE-Find paper."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .messages import INTERRUPTED, exit_with_error
from .options import offer, option

if TYPE_CHECKING:
    from .._util.progress import Progress as FitProgress
    from ..paper._run import ResultsFolder


def paper(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="exponential, logistic, enso, cheyne, hiv. All by default.",
            show_default=False,
            autocompletion=offer(("exponential", "logistic", "enso", "cheyne", "hiv")),
        ),
    ] = None,
    noise: Annotated[
        list[float] | None,
        option(
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
            autocompletion=offer(("published", "stated", "corrected", "best")),
        ),
    ] = "published",
    out: Annotated[
        Path | None,
        option(
            "--out",
            metavar="DIR",
            help="Folder for results.json, tables.md and figures. One with results of "
            "the same settings is continued. By default out/paper-PROTOCOL.",
        ),
    ] = None,
) -> None:
    """Reproduce the tables and figures of the DDE-Find paper."""
    from ..paper._experiments import EXPERIMENTS, NOISE
    from ..paper._run import Interrupted, PaperError, Plan, ResultsFolder

    out = out or Path("out") / f"paper-{protocol}"
    try:
        levels = tuple(noise or NOISE)
        plan = Plan(tuple(models or EXPERIMENTS), levels, repeats, seed, protocol)
        _reproduce(ResultsFolder(out, plan))
    except PaperError as error:
        exit_with_error(str(error))
    except BrokenPipeError:
        raise  # `main` ends the command silently.
    except OSError as error:
        exit_with_error(f"Cannot write to {out}: {error}.")
    except (Interrupted, KeyboardInterrupt):
        typer.echo(
            f"Interrupted. Finished models are kept in {out}; the same command "
            "continues from them.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def _reproduce(results: "ResultsFolder") -> None:
    """Run the models that have no results yet, with progress bars on a terminal, then
    write and print all results."""
    from rich.console import Console
    from rich.progress import Progress

    from ..paper._output import has_figures, rich_table, write_figures, write_tables
    from ..paper._run import reproduce

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

    def report(model: str, progress: "FitProgress") -> None:
        bars.update(tasks[model], completed=progress.epoch, total=progress.epochs)

    with bars, closing(reproduce(results, report)) as finished:
        for model, levels in finished:
            write_figures(levels, out)
            console.print(f"{model}: {sum(level.seconds for level in levels):.1f} s")
    write_tables(results.levels, out)
    for model in plan.models:
        for level in results.of(model):
            console.print(rich_table(level))
    console.print(f"Written: {out}/results.json, tables.md, figures/")
