"""The command line: `ddefind COMMAND`, or `python -m ddefind COMMAND`.

Exit codes: 0 done, 1 an unexpected failure, 2 the input was refused, 3 done, but
doubtful (a fit that did not converge, a gradient that is wrong), 130 interrupted.

Nothing here loads JAX before a command computes: help and errors come at once.
"""

import gc
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .fit_command import FIT_EXAMPLES, fit, show
from .messages import CODES, INTERRUPTED, REFUSED, refusals, refuse
from .parse_options import parse_number
from .simulate_command import CHECK_EXAMPLES, SIMULATE_EXAMPLES, check, simulate
from .startup import quick_start

if TYPE_CHECKING:
    from ..paper._run import ResultsFolder

# Options that take several values after one flag, as `--noise 0.1 0.3`.
_SEVERAL = ("--noise", "--history")
_TUTORIAL = f"""\
\b
Make noisy data of an equation, and learn it back:

\b
  ddefind simulate -e "x' = r * x * (1 - x(t - tau) / K)" --set r=1.8 --set K=2.5 \\
    --set tau=0.8 --history 0.5 --T 20 --points 120 --noise 0.05 --out data.csv
  ddefind fit data.csv -e "x' = r * x * (1 - x(t - tau) / K)" --out result
  ddefind show result

\b
With data of your own: a CSV file with a column of times and a column for each state.
Fix what you know, bound what you may; all else is learned, the delay tau and the value
b before time 0 among it:

\b
  ddefind fit lake.csv -e "prey' = a * prey - c * prey * hunter;
    hunter' = e * prey(t - tau) - d * hunter" --set a=0.5 --bounds "tau in [0.1, 3]"

\b
Every command has its own --help with examples.

{CODES}
"""

app = typer.Typer(
    help="Learn delay differential equations from noisy, limited data.",
    epilog=_TUTORIAL,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:
    """Learn delay differential equations from noisy, limited data."""


app.command(epilog=FIT_EXAMPLES)(fit)
app.command(epilog=SIMULATE_EXAMPLES)(simulate)
app.command()(show)
app.command(epilog=CHECK_EXAMPLES)(check)


@app.command()
def demo() -> None:
    """Learn the delayed logistic equation from data that come with the package."""
    with refusals(), quick_start():
        from .demo import main

        main()


@app.command(epilog=CODES)
def paper(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="exponential, logistic, enso, cheyne, hiv. All by default.",
            show_default=False,
        ),
    ] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(
            metavar="LEVEL...",
            help="Noise levels, in standard deviations of the data. By default 0.1 "
            "0.3 0.9.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Noisy data sets for each level.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    protocol: Annotated[
        str, typer.Option(help="published, stated, corrected or best.")
    ] = "published",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for results.json, tables.md and figures. One with results of "
            "the same settings is continued. By default out/paper-PROTOCOL.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Reproduce the tables and figures of the DDE-Find paper."""
    # Loading JAX takes a second: only a command that computes should wait for it.
    from ..paper._experiments import EXPERIMENTS, NOISE
    from ..paper._run import Interrupted, PaperError, Plan, ResultsFolder

    out = out or Path("out") / f"paper-{protocol}"
    try:
        levels = tuple(noise or NOISE)
        plan = Plan(tuple(models or EXPERIMENTS), levels, repeats, seed, protocol)
        _reproduce(ResultsFolder(out, plan))
    except PaperError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"Cannot write to {out}: {error}.")
    except (Interrupted, KeyboardInterrupt):
        typer.echo(
            f"Interrupted. Finished models are kept in {out}; the same command "
            "continues from them.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def _reproduce(results: "ResultsFolder") -> None:
    """Run what is missing, with bars on a terminal; write and show the results."""
    from rich.console import Console
    from rich.progress import Progress

    from ..paper._output import has_figures, rich_table, write_figures, write_tables
    from ..paper._run import reproduce

    plan, out = results.plan, results.folder
    # A file has no width: that of the tables.
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

    def report(model: str, now) -> None:
        bars.update(tasks[model], completed=now.epoch, total=now.epochs)

    with bars, closing(reproduce(results, report)) as finished:
        for model, levels in finished:
            write_figures(levels, out)
            console.print(f"{model}: {sum(level.seconds for level in levels):.1f} s")
    write_tables(results.levels, out)
    for model in plan.models:
        for level in results.of(model):
            console.print(rich_table(level))
    console.print(f"Written: {out}/results.json, tables.md, figures/")


def spread_values(arguments: Sequence[str]) -> list[str]:
    """Repeat the flag before each further number: `--noise 0.1 0.3` becomes
    `--noise 0.1 --noise 0.3`, which is what the parser understands.

    >>> spread_values(["paper", "--noise", "0.1", "0.3", "hiv", "--seed", "1"])
    ['paper', '--noise', '0.1', '--noise', '0.3', 'hiv', '--seed', '1']
    """
    result: list[str] = []
    flag, first = None, False
    for argument in arguments:
        if flag and not first and parse_number(argument) is not None:
            result.append(flag)
        elif not first:
            flag = argument if argument in _SEVERAL else None
        first = flag is not None and argument == flag
        result.append(argument)
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` are those of the process by default."""
    given = spread_values(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(given or ["--help"], standalone_mode=False)
    except Exception as error:
        # The parser's own errors say so themselves; they have no public name.
        if not hasattr(error, "format_message"):
            raise
        typer.echo(f"Error: {error.format_message()}", err=True)  # type: ignore
        sys.exit(REFUSED)
    if arguments is None:
        gc.freeze()  # half a second of tidying up before the process ends
    sys.exit(code or 0)


if __name__ == "__main__":
    main()
